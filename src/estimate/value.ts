// What the policy said of a trace, and the values of its states that follow from the log-probabilities of its references (METHOD §3).

import type { Nature, StoredReferences } from '../credit/nature.js';
import { sum } from '../credit/rules.js';
import { FLOAT32_LIST, requestedColumn } from '../io/arrow/output-columns.js';
import type { Answers } from '../question.js';
import type { Reference } from '../trace.js';

/**
 * v̂(s) of one state; its logarithm where values are logarithms. Where it follows from what a row stores it is computed from that
 * alone, so that a file gives it again bit for bit.
 * @param logprobs (N) token log-probabilities of each reference of the reference set
 * @param utilities (N) ζ_n in [0, 1]
 */
export function stateValue(
  logprobs: readonly Float32Array[],
  utilities: Float32Array,
  { name, fromStored, fromTokens }: Nature,
): number {
  const { referenceLogprobs, referenceTokens: tokens } = scoredReferences([logprobs]);
  const stored = { logprobs: referenceLogprobs[0] as Float32Array, tokens, utilities };
  const value = fromStored?.(stored) ?? fromTokens?.(logprobs, utilities);
  if (value === undefined) throw new Error(`${name} has no value of references`);
  return value;
}

/** A trace's values; K+1 exit points. */
export interface TraceValues {
  /** (K+1) v̂(s_k); log v̂ for `joint` and `joint-log` */
  readonly values: Float32Array;
  /** what a row stores as said of the references, where that is not what the policy's branches say */
  readonly branches?: Answers['branches'];
  /** what the columns hold that come with the values, by name */
  readonly columns?: Readonly<Record<string, unknown>>;
  /** what the user should know of the values: status codes */
  readonly status?: readonly string[];
}

/** (K+1) values of all states of a trace, as they are stored (float32). @param branches (K+1) of (N) token log-probabilities */
export function stateValues(branches: Answers['branches'], utilities: Float32Array, nature: Nature) {
  return Float32Array.from(branches, (logprobs) => stateValue(logprobs, utilities, nature));
}

/** (K+1) the same from what a row stores; NaN where they do not follow from that. @param exits (K+1) of (N) summed log-probabilities */
export function rowValues(
  exits: readonly Float32Array[],
  tokens: Int32Array,
  utilities: Float32Array,
  { fromStored }: Nature,
): Float32Array {
  return Float32Array.from(exits, (logprobs) => Number(fromStored?.({ logprobs, tokens, utilities })));
}

/** What is stored of the references that were scored: Σ_i log p(y_n,i) at every exit, and their tokens, the same at all. @param branches as of {@link stateValues} */
export function scoredReferences(branches: Answers['branches']) {
  return {
    referenceLogprobs: branches.map((exit) => Float32Array.from(exit, sum)),
    referenceTokens: Int32Array.from(branches[0] ?? [], ({ length }) => length),
  };
}

/** A column that comes with values: a number for each exit, or for each token. */
export function listColumn(name: string, meaning: string) {
  return requestedColumn(name, FLOAT32_LIST, meaning);
}

/** log Σ exp(x), stable; −∞ for nothing but −∞. */
export function logSumExp(x: readonly number[]): number {
  const largest = x.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  if (largest === Number.NEGATIVE_INFINITY) return largest;
  return largest + Math.log(x.reduce((total, value) => total + Math.exp(value - largest), 0));
}

/** (K) a_k → (K+1) v_0 = 0, v_k = a_1 + … + a_k, summed in float64: Δ_k of the values is a_k. */
export function summedAttributions(attributions: Float64Array): Float32Array {
  let total = 0;
  return Float32Array.from([0, ...attributions], (attribution) => (total += attribution));
}

/** Σ_n p_n ζ_n / Σ_n p_n, over right and wrong answers. */
export function contrast(referenceSet: StoredReferences): number {
  const { logprobs } = referenceSet;
  return logprobs.length === 0 ? 0 : Math.exp(logSumExp(weighted(referenceSet)) - logSumExp([...logprobs]));
}

/** (N) log ζ_n p_n; −∞ where ζ_n = 0 */
export function weighted({ logprobs, utilities }: StoredReferences): number[] {
  return Array.from(logprobs, (lp, n) => lp + Math.log(utilities[n] as number));
}

/** (N) ζ_n of a trace's referenceSet */
export function utilitiesOf({ referenceSet }: { readonly referenceSet: readonly Reference[] }): Float32Array {
  return Float32Array.from(referenceSet, ({ utility }) => utility);
}
