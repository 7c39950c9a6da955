// Intervals by resampling groups: segments of one trace depend on each other, and so do traces of one prompt; groups do not.

/** A figure that is made of sums over traces. */
export interface Figure {
  /** (n, m) what each trace adds to each of m sums; all zeros for one that does not count */
  readonly terms: Float64Array;
  readonly m: number;
  /** the figure, of the m sums; NaN where they make none */
  value(sums: Float64Array): number;
}

export interface Interval {
  readonly value: number;
  /** 2.5 and 97.5 percent of the resamples; NaN where traces of fewer than two groups count, or most resamples make no figure */
  readonly low: number;
  readonly high: number;
}

/** A stream of whole numbers below 2³² by a seed (PCG's output permutation over a 32-bit Weyl sequence, mulberry32). */
export function randomStream(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
}

/**
 * Figures with their percentile intervals. For a seed all figures see the same resamples, in one call or in several, so that
 * they can be compared with each other.
 * @param groups (n) number of each trace's group, from 0; the traces of a group are drawn together
 * @param resamples how often so many groups as there are get drawn with replacement
 */
export function withIntervals(
  figures: readonly Figure[],
  groups: Int32Array,
  { resamples, seed }: { readonly resamples: number; readonly seed: number },
): Interval[] {
  const units = groups.reduce((most, group) => Math.max(most, group + 1), 0);
  const found = figures.map(() => new Float64Array(resamples));
  const grouped = figures.map(({ terms, m }) => ofGroups(terms, m, groups, units));
  const random = randomStream(seed);
  const weights = new Float64Array(units);
  for (let b = 0; b < resamples; b++) {
    weights.fill(0);
    for (let i = 0; i < units; i++) {
      const drawn = Math.floor((random() / 2 ** 32) * units);
      weights[drawn] = (weights[drawn] as number) + 1;
    }
    for (const [f, { m, value }] of figures.entries())
      (found[f] as Float64Array)[b] = value(weighted(grouped[f] as Float64Array, m, weights));
  }
  const once = new Float64Array(groups.length).fill(1);
  return figures.map(({ terms, m, value }, f) => {
    const counting = new Set(
      groups.filter((_, i) => terms.subarray(i * m, (i + 1) * m).some((term) => term !== 0)),
    );
    const sure = (found[f] as Float64Array).filter((value) => !Number.isNaN(value)).sort();
    const isKnown = counting.size >= 2 && sure.length > resamples / 2;
    return {
      value: value(weighted(terms, m, once)),
      low: isKnown ? quantile(sure, 0.025) : Number.NaN,
      high: isKnown ? quantile(sure, 0.975) : Number.NaN,
    };
  });
}

/** So few say nothing: a tenth of what an interval draws is one. */
const FEW_GROUPS = 10;

/**
 * `few-groups`, where an interval has few groups to draw.
 * @param groups (n) number of each trace's group
 * @param counts whether a trace has a part in the figure
 */
export function fewGroups(groups: Int32Array, counts: (trace: number) => boolean): string[] {
  const counting = new Set(groups.filter((_, i) => counts(i)));
  return counting.size < FEW_GROUPS ? ['few-groups'] : [];
}

/** (units, m) a figure's terms, added up over the traces of a group: they are gone through a thousand times. */
function ofGroups(terms: Float64Array, m: number, groups: Int32Array, units: number): Float64Array {
  const sums = new Float64Array(units * m);
  for (const [i, unit] of groups.entries())
    for (let j = 0; j < m; j++)
      sums[unit * m + j] = (sums[unit * m + j] as number) + (terms[i * m + j] as number);
  return sums;
}

/** (m) sums over n rows of terms. @param weights (n) how often each counts */
function weighted(terms: Float64Array, m: number, weights: Float64Array): Float64Array {
  const sums = new Float64Array(m);
  for (let i = 0; i < weights.length; i++) {
    const weight = weights[i] as number;
    // one in three is not drawn
    if (weight === 0) continue;
    for (let j = 0; j < m; j++) sums[j] = (sums[j] as number) + weight * (terms[i * m + j] as number);
  }
  return sums;
}

/** Of sorted numbers, between neighbours in proportion (the definition that NumPy takes). */
export function quantile(sorted: Float64Array, q: number): number {
  const at = q * (sorted.length - 1);
  const below = sorted[Math.floor(at)] as number;
  const above = sorted[Math.ceil(at)] as number;
  return below + (at - Math.floor(at)) * (above - below);
}
