// Questions and answers as JSON lines: what any engine can read and write (docs/engines.md), and the check of what it says.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { TraceRejected } from '../../errors.js';
import type { LogprobAnswer, LogprobQuestion, SampleQuestion } from './engine.js';

export type WireQuestion = LogprobQuestion | SampleQuestion;

function isOfSamples(question: WireQuestion): question is SampleQuestion {
  return 'samples' in question;
}

/** What an answer is found by: the question's name, and a hash of all that decides the answer. */
export function idOf(question: WireQuestion): string {
  const { name, ids } = question;
  if (!isOfSamples(question))
    return `${name}#${hashOf(ids, `from ${question.from}`)}${question.fresh ? FRESH : ''}`;
  const { samples, maxTokens, stop } = question;
  return `${name}#${hashOf(ids, `samples ${samples} ${maxTokens} ${stop}`)}`;
}

function hashOf(ids: Int32Array, what: string): string {
  const bytes = new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
  return createHash('sha256').update(bytes).update(what).digest('hex').slice(0, 16);
}

/** Of the line with what a question begins with, where that is not asked about. */
export function baseId({ name, ids, shared }: WireQuestion): string {
  return `${name.replace(/@[^@]*$/, '')}#${hashOf(ids.subarray(0, shared), '')}`;
}

/** The end of an id that is asked again, to be computed anew. */
export const FRESH = '!';

/** The first line of a file of questions. @param vocab tokens of the policy's vocabulary */
export function headerLine(vocab: number): string {
  return `${JSON.stringify({ rredcot: 'requests', vocab })}\n`;
}

/** A line that asks nothing: others refer to it. */
export function baseLine(id: string, ids: Int32Array): string {
  return `{"id":${JSON.stringify(id)},"token_ids":[${ids.join()}]}\n`;
}

/** A question's line. @param base id of an earlier line that begins as it does, for `shared` tokens */
export function questionLine(question: WireQuestion, base: string | undefined): string {
  const { ids, shared } = question;
  const prefix = base === undefined ? '' : `"prefix":${JSON.stringify({ of: base, length: shared })},`;
  const own = base === undefined ? ids : ids.subarray(shared);
  const rest = isOfSamples(question)
    ? { samples: question.samples, max_tokens: question.maxTokens, stop: question.stop }
    : { from: question.from, top: question.top, fresh: question.fresh };
  const head = `{"id":${JSON.stringify(idOf(question))},${prefix}"token_ids":[${own.join()}]`;
  return `${head},${JSON.stringify(rest).slice(1)}\n`;
}

// ------ what comes back

const Numbers = z.array(z.number());
const AnswerSchema = z.object({
  id: z.string(),
  logprobs: Numbers.exactOptional(),
  entropies: Numbers.exactOptional(),
  top: z.array(Numbers.min(1)).exactOptional(),
  ids: z.array(z.array(z.int().min(0))).exactOptional(),
  cached: z.int().min(0).nullish(),
  error: z.string().exactOptional(),
});

/** A line of a file of answers that is one. */
export type WireAnswer = z.infer<typeof AnswerSchema>;

/** @returns what is wrong with it, as half a sentence, where it is no answer */
export function parseAnswer(value: unknown): WireAnswer | string {
  const parsed = AnswerSchema.safeParse(value);
  if (parsed.success) return parsed.data.error === undefined ? parsed.data : `says: ${parsed.data.error}`;
  const [issue] = parsed.error.issues;
  return `${issue?.path.join('.') || 'it'}: ${issue?.message}`;
}

/** How far rounding may take a log-probability beyond 0. */
const ROUNDING = 1e-3;

/**
 * The answer to a question, checked.
 * @param vocab tokens of the policy's vocabulary
 * @returns what is wrong with it, as half a sentence, where it cannot be one
 */
export function checkedLogprobs(
  { logprobs, entropies, top, cached }: Pick<WireAnswer, 'logprobs' | 'entropies' | 'top' | 'cached'>,
  question: LogprobQuestion,
  vocab: number,
): LogprobAnswer | string {
  const n = question.ids.length - question.from;
  const most = Math.log(vocab);
  if (logprobs?.length !== n) return `has ${logprobs?.length ?? 'no'} logprobs, expected ${n}`;
  const bad = logprobs.findIndex((lp) => !(lp <= ROUNDING && lp > Number.NEGATIVE_INFINITY));
  if (bad >= 0) return `logprobs[${bad}] is ${logprobs[bad]}, expected a number up to 0`;
  const found = {
    logprobs: Float32Array.from(logprobs, (lp) => Math.min(lp, 0)),
    ...(typeof cached === 'number' && { cached }),
  };
  if (question.top === undefined) return found;
  if (entropies !== undefined) {
    if (entropies.length !== n) return `has ${entropies.length} entropies, expected ${n}`;
    const odd = entropies.findIndex((h) => !(h >= -ROUNDING && h <= most + ROUNDING));
    if (odd >= 0) return `entropies[${odd}] is ${entropies[odd]}, expected 0 to ${most.toFixed(2)} (ln V)`;
    return { ...found, entropies: Float32Array.from(entropies), entropyWidth: 0 };
  }
  if (top?.length !== n) return `has ${top?.length ?? 'no'} lists in top, and no entropies: expected ${n}`;
  const bounds = top.map((row) => entropyBounds(row, vocab));
  const none = bounds.findIndex(([low, high]) => !(low <= high));
  if (none >= 0) return `top[${none}] is no list of log-probabilities, largest first: ${top[none]}`;
  return {
    ...found,
    entropies: Float32Array.from(bounds, ([low, high]) => (low + high) / 2),
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
  let [known, mass, last] = [0, 0, Number.POSITIVE_INFINITY];
  for (const lp of top) {
    if (!(lp <= last + ROUNDING)) return [Number.NaN, Number.NaN];
    last = Math.min(lp, 0);
    const p = Math.exp(last);
    mass += p;
    known -= p === 0 ? 0 : p * last;
  }
  if (mass > 1 + top.length * ROUNDING) return [Number.NaN, Number.NaN];
  const others = vocab - top.length;
  const rest = Math.max(0, 1 - mass);
  if (rest < 1e-9 || others <= 0) return [known, known];
  const high = -rest * Math.log(rest / others);
  const full = Math.floor(rest / Math.exp(last));
  const left = rest - full * Math.exp(last);
  const low = full >= others ? high : -full * Math.exp(last) * last - (left > 0 ? left * Math.log(left) : 0);
  return [known + Math.min(low, high), known + high];
}

/** The same of samples. */
export function checkedSamples(
  { ids }: Pick<WireAnswer, 'ids'>,
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

/** A trace that an engine could not be asked about to the end. */
export function unanswered(engine: string, name: string, why: string): TraceRejected {
  return new TraceRejected('unanswered', `${engine}: ${name}: ${why}`);
}
