// An engine's server on loopback, of vLLM or of SGLang, as far as the program asks it: a checkpoint read in float64, and faults and lies that a test
// puts between.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  extend,
  fork,
  loadOracleModel,
  logSumExp,
  type OracleModel,
  type State,
  start,
} from '../oracle/llama.js';

type Body = Record<string, unknown> & { sampling_params?: Record<string, unknown> };

export interface EngineSetup {
  readonly kind: 'vllm' | 'sglang';
  readonly checkpoint: string;
  /** whether it replays a trace (vLLM) */
  readonly replays?: boolean;
}

/** What it does in the place of its work. */
export interface Lies {
  /** to a distribution before a token of it is forced */
  forced?: (logprobs: Float64Array) => Float64Array;
  /** the token that it writes where one is forced */
  writes?: (token: number) => number;
  /** the ids that it reads of a prompt */
  reads?: (ids: readonly number[]) => readonly number[];
  /** to an answer */
  says?: (answer: string) => string;
  /** to the n-th request since the lie began: a status, silence, or half an answer */
  fails?: (n: number, body: Body) => number | 'silent' | 'cut' | undefined;
}

const BLOCK = 16;

/** Distributions by checkpoint and prefix: engines of a test read the same texts. */
const known = new Map<string, ReturnType<typeof reader>>();

/** @returns log p of every token after the first n of some ids; what was read before is not read again */
function reader(model: OracleModel) {
  const rows = new Map<string, Float64Array>();
  const states: State[] = [start(model)];
  const key = (ids: readonly number[], n: number) => ids.slice(0, n).join();
  return (ids: readonly number[], n: number): Float64Array => {
    const found = rows.get(key(ids, n));
    if (found !== undefined) return found;
    const best = states.reduce((a, b) => (common(b.ids, ids) > common(a.ids, ids) ? b : a));
    const from = Math.min(common(best.ids, ids), n - 1);
    const state = fork(best, from);
    extend(model, state, ids.slice(from, n), (logits, t) => {
      const total = logSumExp(logits);
      rows.set(
        key(ids, from + t + 1),
        Float64Array.from(logits, (logit) => logit - total),
      );
    });
    states.push(state);
    return rows.get(key(ids, n)) as Float64Array;
  };
}

/** How many ids both begin with. */
function common(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((id, t) => id !== b[t]);
  return at < 0 ? Math.min(a.length, b.length) : at;
}

function readerOf(checkpoint: string): ReturnType<typeof reader> {
  const found = known.get(checkpoint) ?? reader(loadOracleModel(checkpoint));
  known.set(checkpoint, found);
  return found;
}

export async function startEngine({ kind, checkpoint, replays = false }: EngineSetup) {
  let after = readerOf(checkpoint);
  const prompts: (readonly number[])[] = [];
  /** tokens of whole blocks that an earlier prompt has begun with */
  const cached = (ids: readonly number[]): number => {
    const shared = prompts.reduce((most, other) => Math.max(most, common(other, ids)), 0);
    prompts.push(ids);
    return Math.floor(Math.min(shared, ids.length - 1) / BLOCK) * BLOCK;
  };
  let lies: Lies = {};
  let [requests, port] = [0, 0];
  const seen: { path: string; body: Body; key: string | undefined }[] = [];

  const best = (logprobs: Float64Array, n: number) =>
    [...logprobs.entries()].sort((a, b) => b[1] - a[1]).slice(0, n);
  /** the ids behind a prompt, one by one, with what they are forced with */
  function force(ids: readonly number[], tokens: readonly number[]) {
    const read = [...(lies.reads?.(ids) ?? ids)];
    return tokens.map((token) => {
      const written = lies.writes?.(token) ?? token;
      const own = after(read, read.length);
      const logprob = (lies.forced?.(own) ?? own)[written] as number;
      read.push(written);
      return { written, logprob };
    });
  }
  /** the likeliest way to go on */
  function write(ids: readonly number[], most: number, stop: readonly number[]): number[] {
    const read = [...ids];
    while (read.length < ids.length + most && !stop.includes(read.at(-1) as number))
      read.push((best(after(read, read.length), 1)[0] as [number, number])[0]);
    return read.slice(ids.length);
  }

  function vllm(path: string, body: Body): object | undefined {
    if (path === '/version') return { version: '0.0.0' };
    if (path === '/v1/models') return { data: [{ id: 'policy' }] };
    const usage = (sent: readonly (readonly number[])[], ofCache: number) => ({
      prompt_tokens: sent.reduce((sum, ids) => sum + (lies.reads?.(ids) ?? ids).length, 0),
      prompt_tokens_details: { cached_tokens: ofCache },
    });
    if (path === '/inference/v1/generate' && replays) {
      const { token_ids: ids } = body as unknown as { token_ids: number[] };
      const ofCache = cached(ids);
      const forced = force(ids, body.sampling_params?.trace_decode_token_ids as number[]);
      const content = forced.map(({ logprob }) => ({ logprob }));
      const token_ids = forced.map(({ written }) => written);
      return { choices: [{ token_ids, logprobs: { content } }], usage: usage([ids], ofCache) };
    }
    if (path !== '/v1/completions') return undefined;
    const {
      prompt: all,
      prompt_logprobs: k,
      allowed_token_ids: allowed,
    } = body as unknown as {
      prompt: number[][];
      prompt_logprobs?: number;
      allowed_token_ids?: [number];
    };
    const ofCache = k === undefined ? cached(all.at(-1) as number[]) : 0;
    const choices = all.flatMap((ids): object[] => {
      if (k !== undefined) {
        prompts.push(ids);
        const rows = ids.map((id, t) => {
          if (t === 0) return null;
          const own = after(ids, t);
          const shown = [[id, own[id] as number] as const, ...best(own, k)];
          return Object.fromEntries(shown.map(([token, logprob]) => [token, { logprob }]));
        });
        return [{ prompt_logprobs: rows }];
      }
      if (allowed !== undefined)
        return force(ids, allowed).map(({ written, logprob }) => {
          return { logprobs: { tokens: [`token_id:${written}`], token_logprobs: [logprob] } };
        });
      const token_ids = write(ids, body.max_tokens as number, body.stop_token_ids as number[]);
      return Array.from({ length: body.n as number }, () => ({ token_ids }));
    });
    return {
      choices: choices.map((choice, index) => ({ index, ...choice })),
      usage: usage(all, ofCache),
    };
  }

  function sglang(path: string, body: Body): object | undefined {
    if (path === '/get_server_info') return { version: '0.0.0' };
    if (path === '/v1/models') return { data: [{ id: 'policy' }] };
    if (path !== '/generate') return undefined;
    const { input_ids: ids, sampling_params: sampling = {} } = body as Body & { input_ids: number[] };
    const from = (body.logprob_start_len as number | undefined) ?? ids.length;
    const meta = {
      prompt_tokens: (lies.reads?.(ids) ?? ids).length,
      cached_tokens: Math.min(from, cached(ids)),
    };
    if (body.return_logprob !== true) {
      const stop = sampling.stop_token_ids as number[];
      const output_ids = write(ids, sampling.max_new_tokens as number, stop);
      const isStopped = stop.includes(output_ids.at(-1) as number);
      const finish_reason = isStopped ? { type: 'stop', matched: output_ids.pop() } : { type: 'length' };
      return Array.from({ length: sampling.n as number }, () => ({
        output_ids,
        meta_info: { ...meta, finish_reason },
      }));
    }
    const places = ids.slice(from).map((id, i) => ({
      id: lies.writes?.(id) ?? id,
      t: from + i,
      own: i === 0 ? null : after(ids, from + i),
    }));
    const input_token_logprobs = places.map(({ id, own }) => [
      own && ((lies.forced?.(own) ?? own)[id] as number),
      id,
      null,
    ]);
    const input_top_logprobs = places.map(
      ({ own }) => own && best(own, body.top_logprobs_num as number).map(([id, lp]) => [lp, id, null]),
    );
    return { output_ids: [], meta_info: { ...meta, input_token_logprobs, input_top_logprobs } };
  }

  function answer(path: string, body: Body, response: ServerResponse): void {
    const fault = lies.fails?.(requests++, body);
    if (fault === 'silent') return;
    const found = (kind === 'vllm' ? vllm : sglang)(path, body);
    const status = typeof fault === 'number' ? fault : found === undefined ? 404 : 200;
    const said =
      status === 200 ? JSON.stringify(found) : JSON.stringify({ error: { message: `it is ${status}` } });
    const text = status === 200 && path !== '/v1/models' ? (lies.says?.(said) ?? said) : said;
    response.writeHead(status, {
      'content-length': Buffer.byteLength(text),
      'content-type': 'application/json',
    });
    if (fault === 'cut') response.write(text.slice(0, text.length / 2), () => response.destroy());
    else response.end(text);
  }
  const open = () => {
    const server = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const { url: path = '', headers } = request;
      const body = (parts.length === 0 ? {} : JSON.parse(Buffer.concat(parts).toString())) as Body;
      seen.push({ path, body, key: headers.authorization });
      answer(path, body, response);
    });
    return new Promise<typeof server>((resolve) => server.listen(port, '127.0.0.1', () => resolve(server)));
  };
  let server = await open();
  ({ port } = server.address() as AddressInfo);
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    /** From here on. */
    lie(next: Lies): void {
      [lies, requests] = [next, 0];
    },
    /** Ends it, whatever it is at. */
    async kill(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
    /** The same address, another process. @param other its checkpoint */
    async restart(other = checkpoint): Promise<void> {
      after = readerOf(other);
      server = await open();
    },
  };
}
