// Hierarchical credit: outcome, progress of the segment and entropy of the token, joined into one advantage a token (METHOD §5).
import { sum } from './rules.js';

/** How the three are joined. */
export interface HierarchicalOptions {
  /** α: what a segment's progress counts for beside the outcome */
  readonly alpha: number;
  /** β: how far a token's entropy takes its share from the others of its segment */
  readonly beta: number;
}

/** METHOD §5. */
export const HIERARCHICAL: HierarchicalOptions = { alpha: 1, beta: 0.5 };

/** What keeps the outcome finite in a group whose rewards are all the same, as TRL has it. */
const LEAST_STD = 1e-4;

/** What of a trace its credit follows from, whatever the rule, as stored. */
export interface StoredTrace {
  /** (K or K+1) segment ends, exclusive */
  readonly ends: Int32Array;
  /** (K+1) values of the states 0..K, a prover's for this credit; logarithms where the estimator's are */
  readonly values: Float32Array;
  /** (T) nats, the policy's own; read besides where `within` is `entropy`, and by rules that are called so */
  readonly entropies: Float32Array;
  /** ζ; null where unknown */
  readonly reward: number | null;
  /** b; undefined where the trace has none */
  readonly baseline: number | undefined;
  /** standard deviation of the group's rewards, where b is their mean */
  readonly groupStd?: number | undefined;
}

/** The three parts, and what they make; rounded to float32 once each. */
export interface Hierarchical {
  /** A_outcome; null where reward or baseline is unknown */
  readonly outcome: number | null;
  /** (K or K+1) P_k, 0 for the answer */
  readonly progress: Float32Array;
  /** (T) m_t, with mean 1 in each segment */
  readonly factors: Float32Array;
  /** (T) A_k · m_t; null where the outcome is */
  readonly advantages: Float32Array | null;
}

/**
 * A_t = (A_outcome + α P_k) · m_t, with A_outcome = (ζ − mean)/(std + 1e-4) of the group, else ζ − b, and P_k the progress of the
 * segment under the prover. No σ: it does not sum to 1, and is not return-equivalent.
 */
export function hierarchical(input: StoredTrace, { alpha, beta }: HierarchicalOptions): Hierarchical {
  const { ends, values, entropies, reward, baseline, groupStd } = input;
  const steps = Float64Array.from(ends, (_, k) =>
    k + 1 < values.length ? (values[k + 1] as number) - (values[k] as number) : 0,
  );
  const factors = tokenFactors(entropies, ends, beta);
  const parts = { progress: Float32Array.from(steps), factors: Float32Array.from(factors) };
  if (reward === null || baseline === undefined) return { ...parts, outcome: null, advantages: null };
  const outcome = (reward - baseline) / (groupStd === undefined ? 1 : groupStd + LEAST_STD);
  const advantages = new Float32Array(factors.length);
  let t = 0;
  for (const [k, end] of ends.entries())
    for (; t < end; t++) advantages[t] = (outcome + alpha * (steps[k] as number)) * (factors[t] as number);
  return { ...parts, outcome: Math.fround(outcome), advantages };
}

/** m_t = 1 + β(H_t / the segment's mean H − 1), held between 0 and 2, over its mean in the segment; 1 where all H are 0. */
function tokenFactors(entropies: Float32Array, ends: Int32Array, beta: number): Float64Array {
  const factors = new Float64Array(ends[ends.length - 1] as number).fill(1);
  let start = 0;
  for (const end of ends) {
    const own = factors.subarray(start, end);
    const H = entropies.subarray(start, end);
    const mean = sum(H) / own.length;
    if (mean > 0) {
      for (let i = 0; i < own.length; i++)
        own[i] = Math.min(2, Math.max(0, 1 + beta * ((H[i] as number) / mean - 1)));
      const kept = sum(own) / own.length;
      for (let i = 0; i < own.length; i++) own[i] = (own[i] as number) / kept;
    }
    start = end;
  }
  return factors;
}
