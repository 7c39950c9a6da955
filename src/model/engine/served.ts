// Engines behind a server: opened by what they are, believed once they have proved themselves, their tokens counted.
import { TraceRejected, usageError } from '../../errors.js';
import { count } from '../../plural.js';
import type { Log } from '../../report/log.js';
import { checkedIds } from '../onnx/canary.js';
import type { TextFolder } from '../onnx/folder.js';
import { joinIds, spelledText } from '../text/encode.js';
import type { OpenTokenizer } from '../text/open-tokenizer.js';
import type { Engine, EngineQuestion, Said } from './engine.js';
import type { Server } from './http.js';
import { proofOf } from './proof.js';
import { sglang } from './sglang.js';
import { vllm } from './vllm.js';
import { UNANSWERED } from './wire.js';

/** What `--engine` may name: how they are asked, and by which path for their version. */
const KINDS = { vllm: [vllm, 'version'], sglang: [sglang, 'get_server_info'] } as const;
const ENGINES = Object.keys(KINDS) as (keyof typeof KINDS)[];

export interface ServedOptions {
  readonly server: Server;
  /** the name of its model; absent: the only one */
  readonly model?: string | undefined;
  /** how a user names it */
  readonly naming: string;
  /** traces at work at a time */
  readonly width: number;
  readonly opened: Parameters<typeof proofOf>[1];
  readonly log: Log;
}

/**
 * @param asked what it is; absent: it says that itself
 * @throws RredcotError (exit 69) for what is no such server, or does not prove itself, (exit 2) where it has no such model
 */
export async function openServed(
  asked: keyof typeof KINDS | undefined,
  opts: ServedOptions,
): Promise<Engine> {
  const { server, width, opened, log } = opts;
  const { model, owner, root } = await modelOf(opts);
  const kind = asked ?? ENGINES.find((name) => name === owner);
  if (kind === undefined)
    throw usageError(
      `${server.url}: says that its models are of ${owner}`,
      `a server of ${ENGINES.join(' or ')}`,
    );
  const [dialect, path] = KINDS[kind];
  const { version = '' } = (await server.ask(path)) as { version?: string };
  const name = `${kind} ${version}`;
  let [tokens, cached] = [0, 0];
  const took = (sent: number, read = sent, ofCache = 0): void => {
    const told = `it has read ${read} tokens, ${sent} were sent: does it truncate?`;
    if (read !== sent) throw new TraceRejected(UNANSWERED, told);
    tokens += sent;
    cached += ofCache;
  };
  const vocabulary = opened.policy.architecture.vocab;
  const ask = await dialect({ ask: server.ask, model, vocabulary, took });

  /** Whoever it is that answers. */
  async function answer(questions: readonly EngineQuestion[]): Promise<Said[]> {
    // a trace before its exits, which begin as it does
    const whole = questions[0]?.top ? await ask(questions.slice(0, 1)) : [];
    return [...whole, ...(await ask(questions.slice(whole.length)))];
  }
  const unproved = { name, width, answer };
  const proof = await proofOf(unproved, opened, log);
  if (cached === 0)
    log.warn(
      'engine_cache',
      `${name} caches no prefix, so that each exit costs its whole trace, or does not say so (vLLM: --enable-prefix-caching, --enable-prompt-tokens-details)`,
    );
  let [failures, again] = [server.failures, Promise.resolve(proof)];
  return {
    // of a policy its folder knows numbers; of another model there is where it lies
    ...{ name, config: { engine: name, engineModel: model, ...(!asked && root && { engineRoot: root }) } },
    ...{ width, noise: proof.noise },
    async answer(questions) {
      const said = await answer(questions);
      // what answers after it was away may be another one
      if (server.failures > failures)
        again = again.then(({ answers }) => proofOf(unproved, opened, log, answers));
      ({ failures } = server);
      await again;
      return said;
    },
    async [Symbol.asyncDispose]() {
      log.info(`${name}: ${count(tokens)} tokens asked, ${count(cached)} of them cached, as far as it says`);
    },
  };
}

/** @throws RredcotError (exit 2) where a server reads a text as other ids than the policy's */
export async function refuseOtherTokens(
  { ask, url }: Server,
  tokenizer: OpenTokenizer,
  { exitTemplate, stops }: Pick<TextFolder, 'exitTemplate' | 'stops'>,
): Promise<void> {
  const { ids, other } = await checkedIds(tokenizer, exitTemplate);
  const prompt = spelledText(joinIds(ids, other, Int32Array.from(stops)), tokenizer);
  const own = await tokenizer.encode(prompt);
  const { tokens = [] } = (await ask('tokenize', { prompt, add_special_tokens: false })) as {
    tokens?: readonly number[];
  };
  const odd = own.findIndex((id, n) => id !== tokens[n]);
  if (odd < 0 && tokens.length === own.length) return;
  const at = odd < 0 ? own.length : odd;
  const told = `has another tokenizer than the policy: of ${JSON.stringify(prompt)} token ${at} is`;
  throw usageError(
    `${url}: ${told} ${tokens[at] ?? 'none'} there, of ${tokens.length}, and ${own[at] ?? 'none'} for the policy, of ${own.length}`,
    'a model with the same tokenizer',
  );
}

/** The model to be asked, and what the server says that it is. @throws RredcotError (exit 2) where that is none of the server's */
async function modelOf({ server, model: wanted, naming, log }: ServedOptions) {
  const { data = [] } = (await server.ask('v1/models')) as {
    data?: readonly { readonly id: string; readonly owned_by?: string; readonly root?: string | null }[];
  };
  const models = data.map(({ id }) => id);
  const model = wanted ?? (models.length === 1 ? models[0] : undefined);
  if (model === undefined || !models.includes(model))
    throw usageError(`${server.url} serves ${JSON.stringify(models)}`, naming);
  log.info(`${server.url} serves ${model}`);
  const { owned_by: owner, root } = data.find(({ id }) => id === model) ?? {};
  return { model, owner, root };
}
