// Values of a trace's states from the log-probabilities of its references (METHOD §3).
import type { Estimator } from './references.js';

/** What one reference scored at one exit point: log-probabilities of its scored tokens, nats. */
export type TokenLogprobs = Float32Array;

/**
 * v̂(s) of one state; for `joint` its logarithm.
 *
 * - `pr`: Σ_n ζ_n · exp(Σ_i log p(y_n,i)), METHOD eq. (3) with u empty
 * - `pr-mean`: max_n ζ_n · mean_i p(y_n,i) (RLPR's reading)
 * - `joint`: log Σ_n ζ_n · p(u_n, y_n | s), METHOD eq. (3) in full
 *
 * @param logprobs (N) token log-probabilities of each reference of the bank
 * @param utilities (N) ζ_n in [0, 1]
 */
export function stateValue(
  logprobs: readonly TokenLogprobs[],
  utilities: Float32Array,
  estimator: Estimator,
): number {
  if (estimator === 'pr-mean')
    return logprobs.reduce(
      (best, lp, n) => Math.max(best, (utilities[n] as number) * meanProbability(lp)),
      0,
    );
  const weighted = logprobs.map((lp, n) => sum(lp) + Math.log(utilities[n] as number)); // −∞ where ζ_n = 0
  return estimator === 'joint'
    ? logSumExp(weighted)
    : weighted.reduce((total, logWeight) => total + Math.exp(logWeight), 0);
}

/** A trace's values; N references at K+1 exit points. */
export interface TraceValues {
  /** (K+1) v̂(s_k); log v̂ for `joint` */
  readonly values: Float32Array;
  /** (K+1) of (N) summed log-probabilities, nats */
  readonly referenceLogprobs: readonly Float32Array[];
}

/** Values of all states of a trace, as they are stored (float32). @param branches (K+1) of (N) token log-probabilities */
export function traceValues(
  branches: readonly (readonly TokenLogprobs[])[],
  utilities: Float32Array,
  estimator: Estimator,
): TraceValues {
  return {
    values: Float32Array.from(branches, (logprobs) => stateValue(logprobs, utilities, estimator)),
    referenceLogprobs: branches.map(summedLogprobs),
  };
}

/** Σ_i log p(y_n,i) of every reference: the row of `reference_logprobs` for one exit point. */
export function summedLogprobs(logprobs: readonly TokenLogprobs[]): Float32Array {
  return Float32Array.from(logprobs, sum);
}

/** log Σ exp(x), stable; −∞ for nothing but −∞. */
export function logSumExp(x: readonly number[]): number {
  const largest = x.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  if (largest === Number.NEGATIVE_INFINITY) return largest;
  return largest + Math.log(x.reduce((total, value) => total + Math.exp(value - largest), 0));
}

function sum(x: Float32Array): number {
  return x.reduce((total, value) => total + value, 0);
}

function meanProbability(logprobs: Float32Array): number {
  return logprobs.reduce((total, lp) => total + Math.exp(lp), 0) / logprobs.length;
}
