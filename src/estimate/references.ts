// Turns a trace's references into what is scored at every exit point: exit template, solution, answer.
import { TraceRejected } from '../errors.js';
import type { ExitTemplate } from '../model/onnx/folder.js';
import type { Reference } from '../trace.js';
import type { Nature } from './nature.js';

/** Token ids of a text that continues a sequence. */
type Encode = (text: string) => Int32Array | Promise<Int32Array>;

/** One scored continuation of the bank: its tokens after a state, of which `scoredFrom`.. are scored. */
export interface Suffix {
  readonly ids: Int32Array;
  readonly scoredFrom: number;
  /** another token in the place of the last one: its log-probability follows those of the others */
  readonly also?: number;
  readonly utility: number;
}

/**
 * The bank is a set (METHOD §3): identical (y, u) count once, with the largest utility they were given. Estimators that
 * score answers do not read u, so for them one entry an answer is left.
 */
export function bankOf(references: readonly Reference[], nature: Pick<Nature, 'scores'>): Reference[] {
  const bank = new Map<string, Reference>();
  for (const reference of references) {
    const { answer, solution, utility } = reference;
    const key = nature.scores === 'continuations' ? JSON.stringify([answer, solution ?? '']) : answer;
    if (utility > (bank.get(key)?.utility ?? -1)) bank.set(key, reference);
  }
  return [...bank.values()];
}

/**
 * Makes a bank's continuations, `close {u} open {y} closer` (METHOD §3), each tokenised as one text: a tokenizer may have
 * `{\` or `}}` as a single token, and apart an answer would get tokens that no policy writes. `joint` and `joint-log`
 * score everything. What scores answers leaves u out, and scores from the first token in which an answer of the bank, or
 * an empty one, differs from the bare template, to the end of the closer: what a merge may swallow of the template counts
 * for every answer alike, at every exit.
 * @returns the maker; it throws RangeError where nothing would be scored: an empty answer before an empty closer
 */
export async function suffixMaker(
  { close, open, closer }: ExitTemplate,
  nature: Pick<Nature, 'scores'>,
  encode: Encode,
): Promise<(bank: readonly Reference[]) => Promise<Suffix[]>> {
  const isWhole = nature.scores === 'continuations';
  const bare = await encode(close + open);
  const least = sharedTokens(bare, await encode(close + open + closer));
  return async (bank) => {
    const branches: Int32Array[] = [];
    for (const { answer, solution = '' } of bank)
      branches.push(await encode(`${close}${isWhole ? solution : ''}${open}${answer}${closer}`));
    const scoredFrom = isWhole ? 0 : Math.min(least, ...branches.map((ids) => sharedTokens(bare, ids)));
    return bank.map(({ answer, utility }, n) => {
      const ids = branches[n] as Int32Array;
      if (ids.length <= scoredFrom || (!isWhole && answer + closer === ''))
        throw new RangeError('the reference and the closer have no token to score');
      return { ids, scoredFrom, utility };
    });
  };
}

/** Tokens with which two lists of ids begin alike. */
export function sharedTokens(a: Int32Array, b: Int32Array): number {
  const at = a.findIndex((id, t) => id !== b[t]);
  return at < 0 ? a.length : at;
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
 * Makes the continuations of traces under one policy.
 * @throws TraceRejected (`no_reference`) from the returned function, where a trace has nothing to score
 */
export async function bankMaker(
  template: ExitTemplate,
  nature: Nature,
  encode: Encode,
): Promise<(references: readonly Reference[]) => Promise<ScoredBank>> {
  const suffixesOf = await suffixMaker(template, nature, encode);
  const isWhole = nature.scores === 'continuations';
  return async (references) => {
    if (nature.scores === 'nothing') return { bank: [], continuations: [], status: [] };
    // u = "" is no solution: it would be far likelier than any, and outweigh them
    const usable = isWhole ? references.filter(({ solution = '' }) => solution.trim() !== '') : references;
    if (isWhole && !usable.some(({ utility }) => utility > 0))
      throw new TraceRejected(
        'no_reference',
        `no reference has a solution and a utility above 0, expected one for --estimator ${nature.name}: --map solution=<path>`,
      );
    const status = usable.length < references.length ? ['bank:no-solution'] : [];
    const bank = bankOf(usable, nature);
    try {
      return { bank, continuations: await suffixesOf(bank), status };
    } catch (error) {
      throw error instanceof RangeError ? new TraceRejected('no_reference', error.message) : error;
    }
  };
}
