// How much of the truth is not noise: its reliability, whose root no credit's correlation with it can be expected to pass.
import type { Figure } from './bootstrap.js';
import { type Credit, type CreditTable, pairedCredits, type Slice } from './credit-table.js';
import { pearsonSums } from './within.js';

const WHOLE: Slice = { outcome: 'all', last: 1 };

/** √ of Spearman and Brown's 2r/(1+r), r the correlation inside traces of two halves of the truth's samples. */
export function ceilingOfHalves(table: CreditTable, a: Credit, b: Credit): Figure {
  const sums = Array.from(table.rewards, (_, i) => {
    const { x, y } = pairedCredits(table, a, b, i, WHOLE);
    return pearsonSums(x, y);
  });
  return {
    terms: Float64Array.from(sums.flatMap(({ cross, ownX, ownY }) => [cross, ownX, ownY])),
    m: 3,
    value: ([cross, ownX, ownY]) => {
      const r = (cross as number) / Math.sqrt((ownX as number) * (ownY as number));
      return root((2 * r) / (1 + r));
    },
  };
}

/**
 * √ of 1 − noise/all, both as sums of squares inside traces of the truth's differences.
 * @param deviations (N+n) standard deviations of the truth's values at exits 0..K, trace after trace; exits' errors are
 * independent, so of a trace's centred differences Σ(sd_k² + sd_{k−1}²) − (sd_0² + sd_K²)/K is noise
 */
export function ceilingOfDeviations(table: CreditTable, truth: Credit, deviations: Float64Array): Figure {
  const { offsets } = table;
  const terms = Array.from(table.rewards, (_, i) => {
    const [from, to] = [offsets[i] as number, offsets[i + 1] as number];
    const K = to - from;
    const { x } = pairedCredits(table, truth, truth, i, WHOLE);
    const squares = deviations.subarray(from + i, to + i + 1).map((sd) => sd * sd);
    if (x.length < K || K < 2 || !squares.every(Number.isFinite)) return [0, 0];
    const ends = (squares[0] as number) + (squares[K] as number);
    const noise = 2 * squares.reduce((sum, square) => sum + square, 0) - ends - ends / K;
    return [noise, pearsonSums(x, x).ownX];
  });
  return {
    terms: Float64Array.from(terms.flat()),
    m: 2,
    value: ([noise, all]) => root(1 - (noise as number) / (all as number)),
  };
}

/** 0 where nothing but noise is left. */
function root(reliability: number): number {
  return Number.isNaN(reliability) ? Number.NaN : Math.sqrt(Math.max(0, Math.min(1, reliability)));
}
