// How two credits go together, as figures over traces: inside the traces, and pooled.
import { type Figure, fewGroups } from './bootstrap.js';
import { type CreditTable, isIn, type NamedCredit, type Outcome, pairedCredits } from './credit-table.js';
import { kendallSums, midranks, pearsonSums, spearmanSums, twoSided } from './within.js';

/** A figure with what is known of it beside its interval. */
export interface Measured {
  readonly figure: Figure;
  /** by permuting segments inside their traces, in the normal limit; NaN for a figure without one */
  readonly p: number;
  /** what guessing would make of it; NaN where that depends on the credit, or nobody guesses */
  readonly chance: number;
  readonly traces: number;
  /** null where traces are counted alone */
  readonly segments: number | null;
  readonly notes: readonly string[];
}

const WITHIN = { pearson: pearsonSums, spearman: spearmanSums, kendall: kendallSums } as const;
const POOLED = { pooled_pearson: (values: Float64Array) => values, pooled_spearman: midranks } as const;

export const CORRELATIONS = [...Object.keys(WITHIN), ...Object.keys(POOLED)] as readonly Correlation[];
export type Correlation = keyof typeof WITHIN | keyof typeof POOLED;

/** The normal limit of so few is off by a hundredth. */
const FEW_SEGMENTS = 30;

/** Two credits over the last share of each trace's segments: what the figures of every outcome are made of. Numbers in rows, for millions of segments. */
export interface PairedTraces {
  /** (n+1) where each trace begins among the N segments that have both credits */
  readonly offsets: Int32Array;
  readonly x: Float64Array; // (N)
  readonly y: Float64Array; // (N)
  /** (n, 4) what each trace adds: cross, ownX, ownY and variance of {@link Sums} */
  readonly sums: { readonly [name in keyof typeof WITHIN]: Float64Array };
}

/** Pairs the credits of a table. @param last the share of a trace's segments, rounded up */
export function pairTraces(table: CreditTable, a: NamedCredit, b: NamedCredit, last: number): PairedTraces {
  const n = table.rewards.length;
  const offsets = new Int32Array(n + 1);
  const [x, y] = [a, b].map(({ values }) => new Float64Array(values.length)) as [Float64Array, Float64Array];
  const rows = () => new Float64Array(4 * n);
  const sums = { pearson: rows(), spearman: rows(), kendall: rows() };
  for (let i = 0; i < n; i++) {
    const own = pairedCredits(table, a, b, i, last);
    const from = offsets[i] as number;
    x.set(own.x, from);
    y.set(own.y, from);
    offsets[i + 1] = from + own.x.length;
    for (const name of Object.keys(WITHIN) as (keyof typeof WITHIN)[]) {
      const { cross, ownX, ownY, variance } = WITHIN[name](own.x, own.y);
      sums[name].set([cross, ownX, ownY, variance], 4 * i);
    }
  }
  return { offsets, x: x.subarray(0, offsets[n]), y: y.subarray(0, offsets[n]), sums };
}

/** All correlations of two credits over the traces of an outcome. */
export function correlate(
  { rewards, groups }: CreditTable,
  paired: PairedTraces,
  outcome: Outcome,
): Record<Correlation, Measured> {
  const { offsets, sums } = paired;
  const sizeOf = (i: number) => (offsets[i + 1] as number) - (offsets[i] as number);
  const own = Int32Array.from(rewards.keys()).filter((i) => isIn(outcome, rewards[i] as number));
  const counting = own.filter((i) => sizeOf(i) > 1);
  const segments = counting.reduce((sum, i) => sum + sizeOf(i), 0);
  const common = { chance: Number.NaN, traces: counting.length, segments };
  const counts = new Set(counting);
  const notes = [
    ...fewGroups(groups, (i) => counts.has(i)),
    ...(segments < FEW_SEGMENTS ? ['few-segments'] : []),
    ...flatNotes(counting, sizeOf, sums),
  ];
  const within = Object.entries(sums).map(([name, each]) => {
    const found = { figure: ratioOf(each, own), p: permutationP(each, own), ...common, notes };
    return [name, found] as const;
  });
  const pooled = Object.entries(POOLED).map(([name, scale]) => {
    const figure = pooledFigure(paired, own, scale);
    return [name, { figure, p: Number.NaN, ...common, notes: [...notes, 'pooled'] }] as const;
  });
  return Object.fromEntries([...within, ...pooled]) as Record<Correlation, Measured>;
}

/**
 * `flat`: half of the traces or more have a constant credit; `ties`: half of the pairs of segments or more are equal.
 * @param counting the traces that count
 */
function flatNotes(
  counting: Int32Array,
  sizeOf: (trace: number) => number,
  { pearson, kendall }: PairedTraces['sums'],
): string[] {
  const pairs = (i: number) => (sizeOf(i) * (sizeOf(i) - 1)) / 2;
  const all = counting.reduce((sum, i) => sum + pairs(i), 0);
  // of a side: traces in which it does not move, and pairs of segments that are not equal
  const of = (side: 1 | 2) => ({
    flat: counting.filter((i) => pearson[4 * i + side] === 0).length,
    untied: counting.reduce((sum, i) => sum + (kendall[4 * i + side] as number), 0),
  });
  const [x, y] = [of(1), of(2)];
  const isHalf = counting.length > 0 && Math.max(x.flat, y.flat) >= counting.length / 2;
  const isTied = all > 0 && Math.min(x.untied, y.untied) <= all / 2;
  return [...(isHalf ? ['flat'] : []), ...(isTied ? ['ties'] : [])];
}

/** @param own the traces that count */
function ratioOf(sums: Float64Array, own: Int32Array): Figure {
  const terms = new Float64Array((3 * sums.length) / 4);
  for (const i of own) terms.set(sums.subarray(4 * i, 4 * i + 3), 3 * i);
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
function permutationP(sums: Float64Array, own: Int32Array): number {
  const cross = own.reduce((sum, i) => sum + (sums[4 * i] as number), 0);
  const variance = own.reduce((sum, i) => sum + (sums[4 * i + 3] as number), 0);
  return variance > 0 ? twoSided(cross / Math.sqrt(variance)) : Number.NaN;
}

/** Over all segments alike. Ranks are those of the whole, also in a resample. */
function pooledFigure(
  { offsets, x: xs, y: ys }: PairedTraces,
  own: Int32Array,
  scale: (values: Float64Array) => Float64Array,
): Figure {
  const bounds = (i: number) => [offsets[i] as number, offsets[i + 1] as number] as const;
  const N = own.reduce((sum, i) => sum + bounds(i)[1] - bounds(i)[0], 0);
  const side = (of: Float64Array) => {
    const all = new Float64Array(N);
    let at = 0;
    for (const i of own) {
      const [from, to] = bounds(i);
      for (let k = from; k < to; k++) all[at++] = of[k] as number;
    }
    return standardised(scale(all));
  };
  const [x, y] = [side(xs), side(ys)];
  const terms = new Float64Array(6 * (offsets.length - 1));
  let at = 0;
  for (const i of own) {
    const [from, to] = bounds(i);
    let [sumU, sumV, uu, vv, uv] = [0, 0, 0, 0, 0];
    for (const end = at + to - from; at < end; at++) {
      const [u, v] = [x[at] as number, y[at] as number];
      sumU += u;
      sumV += v;
      uu += u * u;
      vv += v * v;
      uv += u * v;
    }
    terms.set([to - from, sumU, sumV, uu, vv, uv], 6 * i);
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
