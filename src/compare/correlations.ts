// How two credits go together, as figures over traces: inside the traces, and pooled.
import { type Figure, fewGroups } from './bootstrap.js';
import {
  type Credit,
  type CreditTable,
  type PairedCredits,
  pairedCredits,
  type Slice,
} from './credit-table.js';
import { twoSided } from './p-value.js';
import { midranks, tieCounts } from './ranks.js';
import { kendallSums, pearsonSums, type Sums, spearmanSums } from './within.js';

/** A figure with what is known of it beside its interval. */
export interface Measured {
  readonly figure: Figure;
  /** by permuting segments inside their traces, in the normal limit; NaN for a figure without one */
  readonly p: number;
  readonly traces: number;
  readonly segments: number;
  readonly notes: readonly string[];
}

const WITHIN = { pearson: pearsonSums, spearman: spearmanSums, kendall: kendallSums } as const;
const POOLED = { pooled_pearson: (values: Float64Array) => values, pooled_spearman: midranks } as const;

export const CORRELATIONS = [...Object.keys(WITHIN), ...Object.keys(POOLED)] as readonly Correlation[];
export type Correlation = keyof typeof WITHIN | keyof typeof POOLED;

/** The normal limit of so few is off by a hundredth. */
const FEW_SEGMENTS = 30;

/** All correlations of two credits over a slice of the table. */
export function correlate(
  table: CreditTable,
  a: Credit,
  b: Credit,
  slice: Slice,
): Record<Correlation, Measured> {
  const pairs = Array.from(table.rewards, (_, i) => pairedCredits(table, a, b, i, slice));
  const counting = pairs.filter(({ x }) => x.length > 1);
  const segments = counting.reduce((sum, { x }) => sum + x.length, 0);
  const sizes = { traces: counting.length, segments };
  const notes = [
    ...fewGroups(table.groups, (i) => (pairs[i] as PairedCredits).x.length > 1),
    ...(segments < FEW_SEGMENTS ? ['few-segments'] : []),
    ...flatNotes(counting),
  ];
  const within = Object.entries(WITHIN).map(([name, sumsOf]) => {
    const sums = pairs.map(({ x, y }) => sumsOf(x, y));
    return [name, { figure: ratioOf(sums), p: permutationP(sums), ...sizes, notes }] as const;
  });
  const pooled = Object.entries(POOLED).map(
    ([name, scale]) =>
      [
        name,
        { figure: pooledFigure(pairs, scale), p: Number.NaN, ...sizes, notes: [...notes, 'pooled'] },
      ] as const,
  );
  return Object.fromEntries([...within, ...pooled]) as Record<Correlation, Measured>;
}

/** `flat`: half of the traces or more have a constant credit; `ties`: half of the pairs of segments or more are equal. */
function flatNotes(pairs: readonly PairedCredits[]): string[] {
  const notes: string[] = [];
  const sides = [pairs.map(({ x }) => x), pairs.map(({ y }) => y)];
  const isFlat = (values: Float64Array) => values.every((value) => value === values[0]);
  if (pairs.length > 0 && sides.some((side) => side.filter(isFlat).length >= side.length / 2))
    notes.push('flat');
  const twos = (n: number) => (n * (n - 1)) / 2;
  const all = pairs.reduce((sum, { x }) => sum + twos(x.length), 0);
  const tied = (side: readonly Float64Array[]) =>
    side.reduce((sum, values) => sum + tieCounts(values).reduce((own, count) => own + twos(count), 0), 0);
  if (all > 0 && sides.some((side) => tied(side) >= all / 2)) notes.push('ties');
  return notes;
}

function ratioOf(sums: readonly Sums[]): Figure {
  const terms = new Float64Array(3 * sums.length);
  for (const [i, { cross, ownX, ownY }] of sums.entries()) terms.set([cross, ownX, ownY], 3 * i);
  return {
    terms,
    m: 3,
    value: ([cross, ownX, ownY]) => ratio(cross as number, ownX as number, ownY as number),
  };
}

/** NaN where either side is constant. */
function ratio(cross: number, ownX: number, ownY: number): number {
  if (!(ownX > 0 && ownY > 0)) return Number.NaN;
  return Math.max(-1, Math.min(1, cross / Math.sqrt(ownX * ownY)));
}

/** Of Σ cross against its distribution where segments change places inside their traces. */
function permutationP(sums: readonly Sums[]): number {
  const cross = sums.reduce((sum, trace) => sum + trace.cross, 0);
  const variance = sums.reduce((sum, trace) => sum + trace.variance, 0);
  return variance > 0 ? twoSided(cross / Math.sqrt(variance)) : Number.NaN;
}

/** Over all segments alike. Ranks are those of the whole, also in a resample. */
function pooledFigure(
  pairs: readonly PairedCredits[],
  scale: (values: Float64Array) => Float64Array,
): Figure {
  const N = pairs.reduce((sum, { x }) => sum + x.length, 0);
  const side = (of: 'x' | 'y') => {
    const all = new Float64Array(N);
    let at = 0;
    for (const pair of pairs) {
      all.set(pair[of], at);
      at += pair[of].length;
    }
    return standardised(scale(all));
  };
  const [x, y] = [side('x'), side('y')];
  const terms = new Float64Array(6 * pairs.length);
  let at = 0;
  for (const [i, pair] of pairs.entries()) {
    let [n, sumU, sumV, uu, vv, uv] = [0, 0, 0, 0, 0, 0];
    for (const end = at + pair.x.length; at < end; at++) {
      const [u, v] = [x[at] as number, y[at] as number];
      n++;
      sumU += u;
      sumV += v;
      uu += u * u;
      vv += v * v;
      uv += u * v;
    }
    terms.set([n, sumU, sumV, uu, vv, uv], 6 * i);
  }
  const value = (sums: Float64Array) => {
    const [n, u, v, uu, vv, uv] = sums as unknown as [number, number, number, number, number, number];
    const spread = (square: number, sum: number) =>
      square - (sum * sum) / n > 1e-12 * square ? square - (sum * sum) / n : 0;
    return ratio(uv - (u * v) / n, spread(uu, u), spread(vv, v));
  };
  return { terms, m: 6, value };
}

/** Mean 0 and a root mean square of 1, so that sums of squares keep their digits; a constant becomes 0. */
function standardised(values: Float64Array): Float64Array {
  const mean = values.reduce((sum, value) => sum + value / values.length, 0);
  const size = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2 / values.length, 0));
  const isConstant = values.every((value) => value === values[0]);
  return values.map((value) => (isConstant ? 0 : (value - mean) / size));
}
