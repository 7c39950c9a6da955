// How two credits go together, as figures over traces: inside the traces, and pooled.
import { type Figure, fewGroups } from './bootstrap.js';
import {
  type Credit,
  type CreditTable,
  isIn,
  NONE,
  type PairedCredits,
  pairedCredits,
  type Slice,
} from './credit-table.js';
import {
  kendallSums,
  midranks,
  NOTHING,
  pearsonSums,
  type Sums,
  spearmanSums,
  tieCounts,
  twoSided,
} from './within.js';

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

/** Two credits in each trace, over the last share of its segments: what the figures of every outcome are made of. */
export interface PairedTraces {
  readonly pairs: readonly PairedCredits[];
  /** what each trace adds */
  readonly sums: { readonly [name in keyof typeof WITHIN]: readonly Sums[] };
  /** of either side, by trace: whether it is constant, and how many pairs of its segments are equal */
  readonly sides: readonly { readonly flat: readonly boolean[]; readonly tied: readonly number[] }[];
}

const twos = (n: number) => (n * (n - 1)) / 2;

/** Pairs the credits of a table. @param last the share of a trace's segments, rounded up */
export function pairTraces(table: CreditTable, a: Credit, b: Credit, last: number): PairedTraces {
  const pairs = Array.from(table.rewards, (_, i) => pairedCredits(table, a, b, i, last));
  const sumsOf = (name: keyof typeof WITHIN) => pairs.map(({ x, y }) => WITHIN[name](x, y));
  const isFlat = (values: Float64Array) => values.every((value) => value === values[0]);
  const tied = (values: Float64Array) => tieCounts(values).reduce((sum, count) => sum + twos(count), 0);
  const sideOf = (side: 'x' | 'y') => ({
    flat: pairs.map((pair) => isFlat(pair[side])),
    tied: pairs.map((pair) => tied(pair[side])),
  });
  return {
    pairs,
    sums: { pearson: sumsOf('pearson'), spearman: sumsOf('spearman'), kendall: sumsOf('kendall') },
    sides: [sideOf('x'), sideOf('y')],
  };
}

/** All correlations of two credits over the traces of an outcome. */
export function correlate(
  { rewards, groups }: CreditTable,
  { pairs, sums, sides }: PairedTraces,
  outcome: Slice['outcome'],
): Record<Correlation, Measured> {
  const own = Uint8Array.from(rewards, (reward) => Number(isIn(outcome, reward)));
  const counts = (i: number) => own[i] === 1 && (pairs[i] as PairedCredits).x.length > 1;
  const counting = [...pairs.keys()].filter(counts);
  const sizes = counting.map((i) => (pairs[i] as PairedCredits).x.length);
  const segments = sizes.reduce((sum, n) => sum + n, 0);
  const common = { chance: Number.NaN, traces: counting.length, segments };
  const notes = [
    ...fewGroups(groups, counts),
    ...(segments < FEW_SEGMENTS ? ['few-segments'] : []),
    ...flatNotes(counting, sizes, sides),
  ];
  const within = Object.entries(sums).map(([name, each]) => {
    const found = each.map((trace, i) => (own[i] ? trace : NOTHING));
    return [name, { figure: ratioOf(found), p: permutationP(found), ...common, notes }] as const;
  });
  const owned = pairs.map((pair, i) => (own[i] ? pair : NONE));
  const pooled = Object.entries(POOLED).map(
    ([name, scale]) =>
      [
        name,
        { figure: pooledFigure(owned, scale), p: Number.NaN, ...common, notes: [...notes, 'pooled'] },
      ] as const,
  );
  return Object.fromEntries([...within, ...pooled]) as Record<Correlation, Measured>;
}

/**
 * `flat`: half of the traces or more have a constant credit; `ties`: half of the pairs of segments or more are equal.
 * @param counting the traces that count, with `sizes` segments
 */
function flatNotes(
  counting: readonly number[],
  sizes: readonly number[],
  sides: PairedTraces['sides'],
): string[] {
  const notes: string[] = [];
  const half = counting.length / 2;
  if (counting.length > 0 && sides.some(({ flat }) => counting.filter((i) => flat[i]).length >= half))
    notes.push('flat');
  const all = sizes.reduce((sum, n) => sum + twos(n), 0);
  const tiedOf = (tied: readonly number[]) => counting.reduce((sum, i) => sum + (tied[i] as number), 0);
  if (all > 0 && sides.some(({ tied }) => tiedOf(tied) >= all / 2)) notes.push('ties');
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
