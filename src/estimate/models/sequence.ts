// `--estimator attention` and `gradient`: a trace and its references as one sequence out, and from its tokens' numbers those of segments.
import type { Sequence } from '../../policy/run/attribution-run.js';
import { joinIds, type Suffix } from '../references.js';
import { type Ablated, answerLogprob } from './deletions.js';

/** The weight of each reference in ∂φ: ζ_n p_n / Σ ζ p, which sums to 1; all 0 where no reference earns anything. */
export function posteriors(
  logprobs: readonly Float32Array[],
  continuations: readonly Suffix[],
): Float64Array {
  const total = answerLogprob(logprobs, continuations);
  if (total === Number.NEGATIVE_INFINITY) return new Float64Array(continuations.length);
  return Float64Array.from(continuations, (suffix, n) =>
    Math.exp(answerLogprob([logprobs[n] as Float32Array], [suffix]) - total),
  );
}

/**
 * The trace up to the end of its thought, and behind it every reference that has a weight, each as if it came next. The last
 * token of a reference predicts nothing that is scored: it is left out.
 * @param weights (N) of the references
 * @param isMean whether a reference's weight is shared out among its scored tokens
 */
export function sequenceOf(
  { promptIds, completionIds, exits, continuations }: Ablated,
  weights: Float64Array,
  isMean: boolean,
): Sequence {
  const trunk = joinIds(promptIds, completionIds.subarray(0, exits[exits.length - 1]));
  const T = trunk.length;
  const parts = [trunk];
  const [pos, number] = [Array.from(trunk.keys()), Array.from(trunk, () => -1)];
  const [rows, targets, counted]: [number[], number[], number[]] = [[], [], []];
  for (const [n, { ids, scoredFrom }] of continuations.entries()) {
    const weight = weights[n] as number;
    if (weight === 0) continue;
    const first = pos.length;
    for (let j = scoredFrom; j < ids.length; j++) {
      rows.push(j === 0 ? T - 1 : first + j - 1);
      targets.push(ids[j] as number);
      counted.push(isMean ? weight / (ids.length - scoredFrom) : weight);
    }
    for (let j = 0; j < ids.length - 1; j++) {
      pos.push(T + j);
      number.push(n);
    }
    parts.push(ids.subarray(0, ids.length - 1));
  }
  return {
    ids: joinIds(...parts),
    pos: Int32Array.from(pos),
    number: Int32Array.from(number),
    rows: Int32Array.from(rows),
    targets: Int32Array.from(targets),
    weights: Float32Array.from(counted),
  };
}

/** Numbers of a sequence's tokens summed over each segment. @returns (K) */
export function overSegments(tokens: Float32Array, { promptIds, exits }: Ablated): Float64Array {
  return Float64Array.from({ length: exits.length - 1 }, (_, k) => {
    const at = (exit: number) => promptIds.length + (exits[exit] as number);
    return tokens.subarray(at(k), at(k + 1)).reduce((sum, x) => sum + x, 0);
  });
}
