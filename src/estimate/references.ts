// Turns a trace's references into what is scored at every exit point: exit template, solution, answer.
import { TraceRejected } from '../errors.js';
import type { ExitTemplate } from '../policy/folder.js';
import type { Reference } from '../trace.js';
import { type Estimator, natureOf } from './estimators.js';

/** Token ids of a text that continues a sequence. */
type Encode = (text: string) => Int32Array | Promise<Int32Array>;

/** One scored continuation of the bank: its tokens after a state, of which `scoredFrom`.. are scored. */
export interface Suffix {
  readonly ids: Int32Array;
  readonly scoredFrom: number;
  readonly utility: number;
}

/** An exit template with its parts as token ids. */
export interface ExitTokens {
  readonly close: Int32Array;
  readonly open: Int32Array;
  readonly closer: Int32Array;
}

/**
 * The bank is a set (METHOD §3): identical (y, u) count once, with the largest utility they were given. Estimators that
 * score answers do not read u, so for them one entry an answer is left.
 */
export function bankOf(references: readonly Reference[], estimator: Estimator): Reference[] {
  const bank = new Map<string, Reference>();
  for (const reference of references) {
    const { answer, solution, utility } = reference;
    const key = scoresContinuations(estimator) ? JSON.stringify([answer, solution ?? '']) : answer;
    if (utility > (bank.get(key)?.utility ?? -1)) bank.set(key, reference);
  }
  return [...bank.values()];
}

/**
 * METHOD §3, `close {u} open {y} closer`: what scores answers leaves u out and scores y and the closer, given the rest;
 * `joint` and `joint-log` score everything. The parts are tokenised apart, so the scored span is the same at every exit point.
 * @throws RangeError where nothing would be scored: an empty answer before an empty closer
 */
export async function suffixOf(
  reference: Reference,
  estimator: Estimator,
  template: ExitTokens,
  encode: Encode,
): Promise<Suffix> {
  const { close, open, closer } = template;
  const answer = await encode(reference.answer);
  const isWhole = scoresContinuations(estimator);
  const u = isWhole ? await encode(reference.solution ?? '') : new Int32Array(0);
  const ids = joinIds(close, u, open, answer, closer);
  const scoredFrom = isWhole ? 0 : close.length + open.length;
  if (scoredFrom >= ids.length) throw new RangeError('the reference and the closer have no token to score');
  return { ids, scoredFrom, utility: reference.utility };
}

/** Token sequences one after the other. */
export function joinIds(...parts: readonly Int32Array[]): Int32Array {
  const joined = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** What is scored of a trace's references: the bank as a set, and each entry's continuation. */
export interface ScoredBank {
  /** (N) */
  readonly bank: readonly Reference[];
  /** (N) */
  readonly continuations: readonly Suffix[];
  /** what the user should know of the bank: status codes */
  readonly status: readonly string[];
}

/**
 * Makes the continuations of traces under one policy; the exit template is tokenised once.
 * @throws TraceRejected (`no_reference`) from the returned function, where a trace has nothing to score
 */
export async function bankMaker(
  template: ExitTemplate,
  estimator: Estimator,
  encode: Encode,
): Promise<(references: readonly Reference[]) => Promise<ScoredBank>> {
  const tokens = {
    close: await encode(template.close),
    open: await encode(template.open),
    closer: await encode(template.closer),
  };
  const isWhole = scoresContinuations(estimator);
  return async (references) => {
    if (natureOf(estimator).scores === 'nothing') return { bank: [], continuations: [], status: [] };
    // u = "" is no solution: it would be far likelier than any, and outweigh them
    const usable = isWhole ? references.filter(hasSolution) : references;
    if (isWhole && !usable.some(({ utility }) => utility > 0))
      throw new TraceRejected(
        'no_reference',
        `no reference has a solution and a utility above 0, expected one for --estimator ${estimator}: --map solution=<path>`,
      );
    const status = usable.length < references.length ? ['bank:no-solution'] : [];
    const bank = bankOf(usable, estimator);
    try {
      const continuations: Suffix[] = [];
      for (const reference of bank) continuations.push(await suffixOf(reference, estimator, tokens, encode));
      return { bank, continuations, status };
    } catch (error) {
      throw error instanceof RangeError ? new TraceRejected('no_reference', error.message) : error;
    }
  };
}

function scoresContinuations(estimator: Estimator): boolean {
  return natureOf(estimator).scores === 'continuations';
}

function hasSolution({ solution = '' }: Reference): boolean {
  return solution.trim() !== '';
}
