// An engine's server on loopback, of vLLM or of SGLang, as far as the program asks it: a checkpoint read in float64, and faults and lies that a test
// puts between.
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
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
type VllmBody = Body & {
  prompt?: number[][];
  token_ids?: number[];
  prompt_logprobs?: number;
  allowed_token_ids?: [number];
};
type SglangBody = Body & {
  input_ids: number[];
  logprob_start_len?: number;
  top_logprobs_num: number;
  sampling_params: { max_new_tokens: number; stop_token_ids: number[]; n: number };
};

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
  /** the ids that it has for a text */
  spells?: (ids: readonly number[]) => readonly number[];
  /** where its model lies */
  root?: string;
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
  const [told, config] = ['tokenizer.json', 'tokenizer_config.json'].map((file) =>
    JSON.parse(readFileSync(join(checkpoint, file), 'utf8')),
  );
  const tokenizer = new Tokenizer(told, config);
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

  const tokensOf = (text: string) => {
    const { ids } = tokenizer.encode(text, { add_special_tokens: false });
    return lies.spells?.(ids) ?? ids;
  };
  const best = (logprobs: Float64Array, n: number) =>
    [...logprobs.entries()].sort((a, b) => b[1] - a[1]).slice(0, n);
  const lengthOf = (ids: readonly number[]) => (lies.reads?.(ids) ?? ids).length;
  /** the ids behind a prompt, one by one, with what they are forced with */
  function force(ids: readonly number[], tokens: readonly number[]) {
    const read = [...(lies.reads?.(ids) ?? ids)];
    return tokens.map((token) => {
      const written = lies.writes?.(token) ?? token;
      const own = after(read, read.length);
      read.push(written);
      return { written, logprob: (lies.forced?.(own) ?? own)[written] as number };
    });
  }
  /** the likeliest way to go on */
  function write(ids: readonly number[], most: number, stop: readonly number[]): number[] {
    const read = [...ids];
    while (read.length < ids.length + most && !stop.includes(read.at(-1) as number))
      read.push(best(after(read, read.length), 1)[0]?.[0] as number);
    return read.slice(ids.length);
  }

  function vllm(path: string, body: VllmBody): object | undefined {
    if (path === '/version') return { version: '0.0.0' };
    const all = body.prompt ?? [body.token_ids ?? []];
    const last = all.at(-1) as number[];
    const { prompt_logprobs: k, allowed_token_ids: allowed, sampling_params: sampling } = body;
    const isRead = k !== undefined && prompts.push(last) > 0;
    const cached_tokens = isRead ? 0 : cached(last);
    const prompt_tokens = all.reduce((sum, ids) => sum + lengthOf(ids), 0);
    const usage = { prompt_tokens, prompt_tokens_details: { cached_tokens } };
    if (path === '/inference/v1/generate' && replays) {
      const forced = force(last, sampling?.trace_decode_token_ids as number[]);
      return {
        choices: [{ token_ids: forced.map(({ written }) => written), logprobs: { content: forced } }],
        usage,
      };
    }
    if (path !== '/v1/completions') return undefined;
    const rowOf = (ids: number[], t: number) => {
      const own = after(ids, t);
      const shown = [[ids[t], own[ids[t] as number]] as const, ...best(own, k as number)];
      return Object.fromEntries(shown.map(([token, logprob]) => [token, { logprob }]));
    };
    const choices = all.flatMap((ids): object[] => {
      if (isRead) return [{ prompt_logprobs: ids.map((_, t) => (t === 0 ? null : rowOf(ids, t))) }];
      if (allowed !== undefined)
        return force(ids, allowed).map(({ written, logprob }) => {
          return { logprobs: { tokens: [`token_id:${written}`], token_logprobs: [logprob] } };
        });
      const token_ids = write(ids, body.max_tokens as number, body.stop_token_ids as number[]);
      return Array.from({ length: body.n as number }, () => ({ token_ids }));
    });
    return { choices, usage };
  }

  function sglang(path: string, body: SglangBody): object | undefined {
    if (path === '/get_server_info') return { version: '0.0.0' };
    if (path !== '/generate') return undefined;
    const { input_ids: ids, sampling_params: sampling, logprob_start_len: from = ids.length } = body;
    const meta = { prompt_tokens: lengthOf(ids), cached_tokens: Math.min(from, cached(ids)) };
    if (from === ids.length) {
      const output_ids = write(ids, sampling.max_new_tokens, sampling.stop_token_ids);
      const isStopped = sampling.stop_token_ids.includes(output_ids.at(-1) as number);
      const finish_reason = isStopped ? { type: 'stop', matched: output_ids.pop() } : { type: 'length' };
      return Array.from({ length: sampling.n }, () => ({
        output_ids,
        meta_info: { ...meta, finish_reason },
      }));
    }
    const places = ids.slice(from).map((id, i) => ({ id, own: i === 0 ? null : after(ids, from + i) }));
    // as 0.5.23 names them
    const input_token_logprobs = places.map(({ id, own }) => [
      own?.[id] ?? null,
      own && id >= own.length - 1 ? 0 : id,
      null,
    ]);
    const input_top_logprobs = places.map(
      ({ own }) => own && best(own, body.top_logprobs_num).map(([id, logprob]) => [logprob, id, null]),
    );
    return { output_ids: [], meta_info: { ...meta, input_token_logprobs, input_top_logprobs } };
  }

  function answer(path: string, body: Body, response: ServerResponse): void {
    const fault = lies.fails?.(requests++, body);
    if (fault === 'silent') return;
    const engine = kind === 'vllm' ? vllm : sglang;
    const found =
      path === '/v1/models'
        ? { data: [{ id: 'policy', owned_by: kind, root: lies.root ?? checkpoint }] }
        : path === '/tokenize'
          ? { tokens: tokensOf(`${body.prompt}`) }
          : engine(path, body as VllmBody & SglangBody);
    const status = typeof fault === 'number' ? fault : found === undefined ? 404 : 200;
    const said = JSON.stringify(status === 200 ? found : { error: { message: `it is ${status}` } });
    const text = /completions|generate/.test(path) ? (lies.says?.(said) ?? said) : said;
    response.writeHead(status, { 'content-length': Buffer.byteLength(text) });
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
