// How far a credit without error could go with a sampled truth, a credit's share of that, and how far values are off.
import type { Figure } from './bootstrap.js';

/** √ of Spearman and Brown's 2r/(1+r), which no credit's correlation with both halves together can be expected to pass. @param r of one half of the samples with the other */
function ceilingAt(r: number): number {
  return Math.sqrt(Math.max(0, Math.min(1, (2 * r) / (1 + r))));
}

/** The ceiling. @param halves the correlation of the truth's two halves */
export function ceilingOf({ terms, m, value }: Figure): Figure {
  return { terms, m, value: (sums) => ceilingAt(value(sums)) };
}

/**
 * A correlation divided by the ceiling of the same traces; NaN where the halves do not go together at all.
 * @param halves of as many traces; undefined where the truth is exact, whose ceiling is 1
 */
export function shareOfCeiling(correlation: Figure, halves: Figure | undefined): Figure {
  if (halves === undefined) return correlation;
  const m = correlation.m + halves.m;
  const n = correlation.terms.length / correlation.m;
  const terms = new Float64Array(n * m);
  for (let i = 0; i < n; i++) {
    terms.set(correlation.terms.subarray(i * correlation.m, (i + 1) * correlation.m), i * m);
    terms.set(halves.terms.subarray(i * halves.m, (i + 1) * halves.m), i * m + correlation.m);
  }
  return {
    terms,
    m,
    value(sums) {
      const ceiling = ceilingAt(halves.value(sums.subarray(correlation.m)));
      return ceiling > 0 ? correlation.value(sums.subarray(0, correlation.m)) / ceiling : Number.NaN;
    },
  };
}

/** The mean of a number a trace, over traces that have it. @param values (n) NaN where there is none */
export function meanOf(values: Float64Array): Figure {
  return {
    terms: Float64Array.from(Array.from(values, (x) => (Number.isNaN(x) ? [0, 0] : [x, 1])).flat()),
    m: 2,
    value: ([sum, n]) => (sum as number) / (n as number),
  };
}
