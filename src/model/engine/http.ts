// An engine's server: one address, asked in JSON until it answers, with growing pauses, for as long as the user's patience goes.
import { setMaxListeners } from 'node:events';
import { setTimeout as after } from 'node:timers/promises';
import { deviceError, TraceRejected, throwIfInterrupted } from '../../errors.js';
import { jsonOf } from '../../io/arrow/json.js';
import { PASSING, sender, WRONG_MACHINE } from '../../io/store/http.js';
import type { Log } from '../../report/log.js';
import type { Engine } from './engine.js';

export type Server = ReturnType<typeof openServer>;

/** Of what was asked. */
const REFUSALS = [400, 413, 422];

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
/** One that breaks at a question so often, and answers others meanwhile, breaks at it. */
const BROKEN_TRIES = 5;
/** It queues what it cannot compute at once. */
const REQUESTS = 256;
/** Its key's environment variable; no other address is told the key. */
const KEY = 'RREDCOT_API_KEY';

/** @param url below which paths are looked for @param patience seconds */
export function openServer(url: URL, patience: number, log: Log, signal: AbortSignal) {
  setMaxListeners(0, signal); // one a request
  // an answer that got lost is asked for once more before patience ends
  const send = sender({ most: REQUESTS, silenceMs: patience * 500, signal });
  const { [KEY]: key } = process.env;
  const headers = { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) };
  let heard = 0;
  /** with failures of connections: what answers afterwards may be another one */
  const server = { url, ask, failures: 0 };

  /** @throws TraceRejected where it refuses this body, or breaks at it; RredcotError (exit 69) where it refuses whoever asks, or patience ends */
  async function ask(path: string, body?: object): Promise<unknown> {
    const begun = Date.now();
    const method = body === undefined ? 'GET' : 'POST';
    const text = body && JSON.stringify(body);
    const final = (failure: string, hint: string) => deviceError(`${url}: ${failure} (${path})`, hint);
    for (let [tries, broken] = [0, 0]; ; tries++) {
      const answer = await send({ method, url: new URL(path, url), headers, text }).catch(
        ({ message, code = '' }: NodeJS.ErrnoException) => ({ failure: message || code, code }),
      );
      const isCut = 'failure' in answer;
      if (isCut) throwIfInterrupted(signal);
      const status = isCut ? 0 : answer.status;
      const json = isCut || status !== 200 ? undefined : jsonOf(`${answer.body}`);
      const failure = isCut ? answer.failure : `answers ${status}: ${answer.body.toString('utf8', 0, 300)}`;
      const isBroken = status === 500 || (status === 200 && json === undefined);
      const isFinal = !isCut && !isBroken && !PASSING.has(status);
      if (isCut) server.failures++;
      if (isBroken) broken++;
      if (isFinal) heard = Date.now();
      if (json !== undefined) return json;
      if (isCut && heard === 0 && WRONG_MACHINE.test(answer.code)) throw final(failure, 'check the address');
      if (body && (REFUSALS.includes(status) || (broken >= BROKEN_TRIES && heard > begun)))
        throw new TraceRejected('engine', `the engine ${failure}`);
      if (isFinal) throw final(failure, `check the address and --engine; a key goes into ${KEY}`);
      const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries) * (0.5 + Math.random() / 2);
      if (Date.now() + pause - Math.max(begun, heard) > patience * 1000)
        throw final(
          `${failure}, and no answer for ${patience} s`,
          'look at the server; then the same command again, which goes on, with a longer --engine-patience where that is needed',
        );
      log.warn('engine_waits', `${url.host} ${failure}; it is asked again for ${patience} s`);
      await after(pause, undefined, { signal }).catch(() => throwIfInterrupted(signal));
    }
  }
  return server;
}

// ------ what is asked, as vLLM and SGLang have it

/** How a kind of server is asked. */
export type Dialect = (of: Served) => Promise<Engine['answer']>;

export interface Served extends Pick<Server, 'ask'> {
  /** by its name */
  readonly model: string;
  /** how many ids it has */
  readonly vocabulary: number;
  /** Counts ids that were sent, read, and of these cached. @throws TraceRejected where what was read is something else */
  took(sent: number, read: number | undefined, cached: number | undefined): void;
}

/** What a server does with a distribution by default is none of the policy's: all that shapes one is named, and off. */
export const PLAIN = {
  ...{ temperature: 1, top_p: 1, top_k: -1, min_p: 0 },
  ...{ repetition_penalty: 1, presence_penalty: 0, frequency_penalty: 0 },
};
