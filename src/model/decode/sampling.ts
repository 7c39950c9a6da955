// How a policy samples: what is asked of rows that write and what they wrote, in a file that loads no ONNX Runtime.
import { createHash } from 'node:crypto';
import { usageError } from '../../errors.js';
import { type AnswerMarks, ownAnswer, plainReferences } from '../../estimate/answer-text.js';
import { compareAnswer, type Reward } from '../../estimate/reward.js';
import type { Log } from '../../report/log.js';
import type { Reference } from '../../trace.js';
import type { PolicyFolder } from '../onnx/folder.js';
import type { PolicyTokenizer } from '../text/tokenizer.js';

/** Rows that write at once, by default: beyond, a CPU gains nothing (bench/decode.mjs). */
export const DEFAULT_BATCH = 64;
/** A prefix's length is padded to a multiple of it, see `rowAttention`. */
export const PREFIX_MULTIPLE = 64;

/** How tokens are chosen. */
export interface Choosing {
  /** 0 takes the likeliest token */
  readonly temperature: number;
  /** 1 takes all tokens */
  readonly topP: number;
  /** tokens after which a row ends; they are part of what it wrote */
  readonly stops: readonly number[];
}

/** What the flags say of it. */
export interface SamplingOptions extends Omit<Choosing, 'stops'> {
  /** new tokens at most */
  readonly maxTokens: number;
  readonly seed: number;
  /** a token that ends a completion, beside the policy's own: its text, or its id */
  readonly stop?: string;
  /** rows that write at once: no part of what is written */
  readonly batch: number;
}

/** One continuation that is wanted. */
export interface Start {
  /** tokens of the trace in its state, 1 to all of them */
  readonly exit: number;
  /** what its random numbers come from: the same key writes the same, whatever is written beside it */
  readonly key: RowKey;
  /** tokens that it may write; at least 1 */
  readonly most: number;
}

/** A row before its first token. */
export interface RowStart extends Start {
  /** which prefix it continues, of those that were read together */
  readonly trace: number;
  /** the last token of its state */
  readonly token: number;
}

/** Rows that write together, on prefixes that a run has kept. */
export interface DecodeJob extends Choosing {
  /** number under which the prefixes' keys and values are kept */
  readonly kept: number;
  readonly rows: readonly RowStart[];
}

/** What a row wrote. */
export interface Written {
  readonly ids: Int32Array;
  /** under the policy itself, nats: temperature 1, all tokens */
  readonly logprobs: Float32Array;
  readonly finish: 'stop' | 'length';
}

/** What one call has brought. */
export interface Advance {
  /** tokens that were written */
  readonly tokens: number;
  /** rows that have ended, by their number in the job */
  readonly ended: readonly (Written & { readonly row: number })[];
  readonly isDone: boolean;
}

/**
 * The tokens after which a policy's own completions end, the user's beside its own; where there is none, that is told.
 * @param stop raw value of `--stop`: an id, or a text that is one token
 * @throws RredcotError (exit 2) for what is no token
 */
export async function stopsOf(
  { decoding, architecture: { vocab } }: Pick<PolicyFolder, 'architecture' | 'decoding'>,
  stop: string | undefined,
  tokenizer: PolicyTokenizer,
  log: Pick<Log, 'warn'>,
): Promise<readonly number[]> {
  const own = decoding?.stops ?? [];
  if (stop === undefined) {
    if (own.length === 0)
      log.warn(
        'no_stop',
        'the policy names no end token: a limit of tokens alone ends what it writes, and mc counts nothing that is cut: --stop <text|id> names one',
      );
    return own;
  }
  const ids = /^\d+$/.test(stop) ? Int32Array.of(Number(stop)) : await tokenizer.encode(stop);
  const [id] = ids;
  if (ids.length === 1 && id !== undefined && id >= 0 && id < vocab) return [...new Set([...own, id])];
  throw usageError(
    `--stop ${stop}: ${ids.length === 1 ? `the policy has ${vocab} tokens` : `is ${ids.length} tokens of the policy (${ids.join(', ')})`}, expected one`,
    'rredcot policy info <folder> shows how it spells a text; give the id of one token',
  );
}

/** By the documented comparison (docs/answers.md), or letter by letter. */
export const JUDGES = ['compare', 'exact'] as const;
export type Judge = (typeof JUDGES)[number];

/**
 * ζ of a sampled text. `exact` takes an answer for right where it is a reference, spaces around it left out, and everything
 * else for wrong; `compare` leaves open what it cannot tell.
 * @param text of the completion, whole
 * @param prompt what comes before it: the thought may have been opened there
 */
export function judged(
  text: string,
  references: readonly Reference[],
  marks: AnswerMarks,
  judge: Judge,
  prompt = '',
): Reward {
  if (judge === 'compare') return compareAnswer(text, references, { ...marks, opening: prompt });
  const own = ownAnswer(text, marks);
  const equal = plainReferences(references).filter(({ answer }) => answer === own);
  return { reward: Math.max(0, ...equal.map(({ utility }) => utility)), status: ['reward:compared'] };
}

// ------ random numbers that depend on nothing but what they are for: a seed, names, and a position

/** Two words that stand for a row's names: the same ones everywhere, whatever else is drawn. */
export type RowKey = readonly [high: number, low: number];

/** @param names e.g. the seed, a trace's id, the number of its exit, the number of the sample */
export function rowKey(...names: readonly (string | number)[]): RowKey {
  const digest = createHash('sha256').update(JSON.stringify(names)).digest();
  return [digest.readUInt32LE(0), digest.readUInt32LE(4)];
}

/** The number of a position: in [0, 1), a multiple of 2^-24, so that float32 holds it. */
export function uniformAt([high, low]: RowKey, position: number): number {
  const first = mixed(low ^ Math.imul(position + 1, 0x9e3779b1));
  return (mixed(first ^ high ^ Math.imul(position, 0x85ebca6b)) >>> 8) / 2 ** 24;
}

/** The last step of MurmurHash3 (Austin Appleby, public domain): every bit of x reaches every bit of the result. */
function mixed(x: number): number {
  let h = x;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
