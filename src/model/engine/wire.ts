// Ids of questions, and what is believed of what comes back (docs/engines.md).
import { createHash } from 'node:crypto';
import type { Likeliest } from '../../trace.js';
import type { EngineQuestion, LogprobQuestion, Said, SaidNumbers, SampleQuestion } from './engine.js';

/** What an answer is found by: the question's name, and a hash of all that decides the answer. */
export function idOf(question: EngineQuestion): string {
  const { name, ids } = question;
  const asks =
    'samples' in question
      ? `samples ${question.samples} ${question.maxTokens} ${question.stop}`
      : `from ${question.from}`;
  const bytes = new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
  const hash = createHash('sha256').update(bytes).update(asks).digest('hex').slice(0, 16);
  return `${name}#${hash}${question.fresh ? FRESH : ''}`;
}

/** The code of a trace about which an engine said nothing that can be. */
export const UNANSWERED = 'unanswered';

/** The end of an id that is asked again, to be computed anew. */
export const FRESH = '!';

/** (n) of `ids[from..]`, nats. */
export interface LogprobAnswer {
  readonly logprobs: Float32Array;
  /** (n) of the predicting distributions, nats; where they were asked for */
  readonly entropies?: Float32Array;
  /** by how much those can be off, nats, in the mean; 0 where they are exact */
  readonly entropyWidth?: number;
  /** (n) the likeliest tokens, where it was told which they are */
  readonly likeliest?: readonly Likeliest[];
}

/** Of samples, the token ids of each: those behind a token that stops are not there; that token is. */
export type AnswerTo<Q> = Q extends SampleQuestion ? readonly Int32Array[] : LogprobAnswer;

/**
 * The answer to a question, checked.
 * @param vocab tokens of the policy's vocabulary
 * @returns what is wrong with it, as half a sentence, where it cannot be one
 */
export function checked<Q extends EngineQuestion>(
  said: Said | undefined,
  question: Q,
  vocab: number,
): AnswerTo<Q> | string {
  if (said === undefined || typeof said === 'string') return said ?? 'has no answer';
  const found =
    'samples' in question ? checkedSamples(said, question, vocab) : checkedLogprobs(said, question, vocab);
  return found as AnswerTo<Q> | string;
}

/** How far rounding may take a log-probability or an entropy out of its range. */
const ROUNDING = 1e-3;

/** vLLM and SGLang say −9999 of what is no number. */
const LEAST = -9998;

export function checkedLogprobs(
  { logprobs, entropies, top, top_ids: topIds }: SaidNumbers,
  question: LogprobQuestion,
  vocab: number,
): LogprobAnswer | string {
  const n = question.ids.length - question.from;
  if (logprobs?.length !== n) return `has ${logprobs?.length ?? 'no'} logprobs, expected ${n}`;
  const bad = logprobs.findIndex((lp) => !(lp >= LEAST && lp <= ROUNDING));
  if (bad >= 0) return `logprobs[${bad}] is ${logprobs[bad]}, expected a number up to 0`;
  const found = { logprobs: Float32Array.from(logprobs, (lp) => Math.min(lp, 0)) };
  if (question.top === undefined) return found;
  const most = Math.log(vocab);
  const bounds = entropies?.map((h) => [h, h] as const) ?? top?.map((row) => entropyBounds(row, vocab));
  const what = entropies ? 'entropies' : 'lists in top, and no entropies';
  if (bounds?.length !== n) return `has ${bounds?.length ?? 'no'} ${what}, expected ${n}`;
  const odd = bounds.findIndex(
    ([low, high]) => !(low >= -ROUNDING && low <= high && high <= most + ROUNDING),
  );
  if (odd >= 0)
    return entropies
      ? `entropies[${odd}] is ${entropies[odd]}, expected 0 to ${most.toFixed(2)} (ln V)`
      : `top[${odd}] is no list of log-probabilities, largest first: ${top?.[odd]}`;
  const unlike = topIds?.findIndex((ids, t) => new Set(ids).size !== top?.[t]?.length) ?? -1;
  if (unlike >= 0) return `top_ids[${unlike}] names ${topIds?.[unlike]}, expected as many as in top`;
  const likeliest = topIds?.map((ids, t): Likeliest => ({ ids, logprobs: top?.[t] ?? [] }));
  return {
    ...found,
    ...(likeliest && { likeliest }),
    entropies: Float32Array.from(bounds, ([low, high]) => Math.min(Math.max(0, (low + high) / 2), most)),
    entropyWidth: bounds.reduce((sum, [low, high]) => sum + high - low, 0) / n,
  };
}

/**
 * What an entropy can be where only the likeliest tokens are known. At least: what is left lies on as few tokens as can be, none
 * likelier than the last that is known. At most: it lies on all the others alike.
 * @param top nats, descending @param vocab V
 * @returns nats; NaN for what cannot be probabilities in that order
 */
export function entropyBounds(top: readonly number[], vocab: number): readonly [low: number, high: number] {
  const isOrdered = top.every((lp, n) => lp <= (top[n - 1] ?? 0) + ROUNDING);
  const p = top.map((lp) => Math.exp(Math.min(lp, 0)));
  const rest = p.reduce((left, each) => left - each, 1);
  if (!isOrdered || rest < -top.length * ROUNDING) return [Number.NaN, Number.NaN];
  const share = (each: number) => (each > 0 ? -each * Math.log(each) : 0);
  const known = p.reduce((sum, each) => sum + share(each), 0);
  const others = vocab - top.length;
  if (rest < 1e-9 || others <= 0) return [known, known];
  const high = others * share(rest / others);
  const last = p.at(-1) as number;
  const full = Math.floor(rest / last);
  const low = full >= others ? high : full * share(last) + share(rest - full * last);
  return [known + Math.min(low, high), known + high];
}

export function checkedSamples(
  { ids }: SaidNumbers,
  { samples, maxTokens, stop }: SampleQuestion,
  vocab: number,
): readonly Int32Array[] | string {
  if (ids?.length !== samples) return `has ${ids?.length ?? 'no'} lists of ids, expected ${samples}`;
  for (const [n, sample] of ids.entries()) {
    if (sample.length > maxTokens)
      return `ids[${n}] has ${sample.length} tokens, expected ${maxTokens} at most`;
    const odd = sample.find((id) => id >= vocab);
    if (odd !== undefined) return `ids[${n}] has the id ${odd}, the policy has ${vocab} tokens`;
    const early = sample.findIndex((id) => stop.includes(id));
    if (early >= 0 && early < sample.length - 1)
      return `ids[${n}] goes on behind ${sample[early]}, which ends it`;
  }
  return ids.map((sample) => Int32Array.from(sample));
}
