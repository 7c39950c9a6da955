// What the numbers of a scored file are gathered in: quantiles, the largest, means by prediction and by place, and the few traces that are
// worth a page, of the right and the wrong some by chance, and those that turned the most. None of it grows with the traces.

import { extremes } from '../scored/choose.js';
import { isFallback, type OutputRow } from '../scored.js';

/** What is told of a list of numbers. */
export type Distribution = Sketch['distribution'];

/** Numbers below this are 0: there is a smallest bin. */
const SMALLEST = 1e-6;
/** 900 bins a power of ten and sign. */
const DIGITS = 3;
const BARS = 24;

/** Gathers numbers; what is not finite is left out. */
export class Sketch {
  private readonly bins = new Map<number, number>();
  private n = 0;
  private sum = 0;
  private min = Number.POSITIVE_INFINITY;
  private max = Number.NEGATIVE_INFINITY;

  add(x: number): void {
    if (!Number.isFinite(x)) return;
    this.n++;
    this.sum += x;
    this.min = Math.min(this.min, x);
    this.max = Math.max(this.max, x);
    const bin = Math.abs(x) < SMALLEST ? 0 : Number(x.toPrecision(DIGITS));
    this.bins.set(bin, (this.bins.get(bin) ?? 0) + 1);
  }

  /** Quantiles are off by half a percent at most; without numbers all but `n` and `bars` are null. */
  get distribution() {
    const { n, sum, min, max } = this;
    const sorted = [...this.bins].sort(([a], [b]) => a - b);
    const at = (share: number) => (n === 0 ? null : quantile(sorted, share * n, min, max));
    return {
      n,
      mean: n === 0 ? null : sum / n,
      min: n === 0 ? null : min,
      ...{ p05: at(0.05), p25: at(0.25), median: at(0.5), p75: at(0.75), p95: at(0.95) },
      max: n === 0 ? null : max,
      /** how many lie from `from` (inclusive) to `to`: from the smallest to the 99th percentile; the last one holds what lies beyond */
      bars: n === 0 ? [] : barsOf(sorted, min, quantile(sorted, 0.99 * n, min, max), max),
    };
  }
}

type Bins = readonly (readonly [x: number, n: number])[];

/** The number below which, or at which, `rank` of them lie. */
function quantile(sorted: Bins, rank: number, min: number, max: number): number {
  let below = 0;
  for (const [x, n] of sorted) {
    below += n;
    // a bin is named after its middle, which may lie beyond the numbers in it
    if (below >= rank) return Math.min(max, Math.max(min, x));
  }
  return max;
}

function barsOf(sorted: Bins, low: number, high: number, max: number) {
  if (high <= low) return [{ from: low, to: max, n: sorted.reduce((sum, [, n]) => sum + n, 0) }];
  const width = (high - low) / BARS;
  const counts = new Array<number>(BARS).fill(0);
  for (const [x, n] of sorted) {
    const k = Math.min(BARS - 1, Math.max(0, Math.floor((x - low) / width)));
    counts[k] = (counts[k] as number) + n;
  }
  return counts.map((n, k) => ({
    from: low + k * width,
    to: k === BARS - 1 ? max : low + (k + 1) * width,
    n,
  }));
}

/** Holds `size` things at most, those of the largest keys; of equal keys the first that came. */
export class Top<T> {
  private readonly kept: { readonly key: number; readonly thing: T }[] = [];

  constructor(private readonly size: number) {}

  add(key: number, thing: T): void {
    const { kept, size } = this;
    if (size === 0 || Number.isNaN(key)) return;
    if (kept.length === size && key <= (kept[size - 1]?.key as number)) return;
    let at = kept.length;
    while (at > 0 && (kept[at - 1]?.key as number) < key) at--;
    kept.splice(at, 0, { key, thing });
    if (kept.length > size) kept.pop();
  }

  /** from the largest on */
  get things(): readonly T[] {
    return this.kept.map(({ thing }) => thing);
  }
}

export type ReliabilityCurve = Reliability['curve'];

const BINS = 10;

/** Gathers predictions from 0 to 1, and the rewards that followed. */
export class Reliability {
  private readonly bins = Array.from({ length: BINS }, () => ({ n: 0, predicted: 0, reward: 0 }));
  private n = 0;
  private squares = 0;

  add(prediction: number, reward: number): void {
    const k = Math.min(BINS - 1, Math.max(0, Math.floor(prediction * BINS)));
    const bin = this.bins[k] as (typeof this.bins)[number];
    bin.n++;
    bin.predicted += prediction;
    bin.reward += reward;
    this.n++;
    this.squares += (prediction - reward) ** 2;
  }

  get curve() {
    const { n } = this;
    const bins = this.bins.map((bin, k) => ({
      ...{ from: k / BINS, to: (k + 1) / BINS, n: bin.n },
      predicted: bin.n === 0 ? null : bin.predicted / bin.n,
      reward: bin.n === 0 ? null : bin.reward / bin.n,
    }));
    const off = bins.reduce(
      (sum, bin) => sum + bin.n * Math.abs((bin.predicted ?? 0) - (bin.reward ?? 0)),
      0,
    );
    return {
      ...{ n, bins },
      /** mean |predicted − reward| of the bins, each weighing as much as it holds; null without predictions */
      error: n === 0 ? null : off / n,
      /** mean squared difference of prediction and reward */
      brier: n === 0 ? null : this.squares / n,
    };
  }
}

const STRETCHES = 20;

/** Gathers them; traces weigh alike, whatever their length. */
export class Positions {
  private readonly sums = { right: stretches(), wrong: stretches() };

  /** @param sigma (T), which sums to 1 @param side of the reward; unknown is left out */
  add(sigma: Float32Array, side: 'right' | 'wrong' | 'unknown'): void {
    if (side === 'unknown') return;
    const T = sigma.length;
    for (const [k, stretch] of this.sums[side].entries()) {
      const [from, to] = [Math.floor((k * T) / STRETCHES), Math.floor(((k + 1) * T) / STRETCHES)];
      // a trace of fewer tokens has nothing in some of them
      if (to === from) continue;
      stretch.sum += (sigma.subarray(from, to).reduce((sum, s) => sum + s, 0) * T) / (to - from);
      stretch.n++;
    }
  }

  /** Mean σ·T of each stretch, from a trace's beginning to its end: 1 everywhere is uniform; null without traces. */
  get profile() {
    const of = (side: 'right' | 'wrong') =>
      this.sums[side].every(({ n }) => n === 0)
        ? null
        : this.sums[side].map(({ sum, n }) => sum / Math.max(1, n));
    return { right: of('right'), wrong: of('wrong') };
  }
}

const stretches = () => Array.from({ length: STRETCHES }, () => ({ sum: 0, n: 0 }));

/** Why a trace has a page. */
export type Kind = 'right' | 'wrong' | 'decisive' | 'harmful';

export const KINDS: readonly Kind[] = ['harmful', 'decisive', 'wrong', 'right'];

/** A name's hash (FNV-1a, 32 bits), for what is to look like chance and be the same every time. */
function fnv1a(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** Chooses; the same traces whatever their order, but for equal ones. */
export class TraceChoice {
  private readonly tops: ReadonlyMap<Kind, Top<number>>;

  /** @param isMagnitude the estimator's differences are magnitudes, whatever their sign */
  constructor(
    private readonly most: number,
    private readonly isMagnitude: boolean,
  ) {
    this.tops = new Map(KINDS.map((kind) => [kind, new Top<number>(most)]));
  }

  add(row: OutputRow): void {
    const { reward, status } = row;
    const { id, source } = row.trace;
    const { ordinal } = source;
    const isRight = reward !== null && reward > 0.5;
    if (reward !== null) this.tops.get(isRight ? 'right' : 'wrong')?.add(fnv1a(id), ordinal);
    if (status.some(isFallback)) return;
    const { rise, fall } = extremes(row, this.isMagnitude);
    if (rise > 0) this.tops.get('decisive')?.add(rise, ordinal);
    if (fall > 0) this.tops.get('harmful')?.add(fall, ordinal);
  }

  /** The chosen by number of their row, each with why; a kind at a time, so that none crowds out another. */
  get chosen(): ReadonlyMap<number, readonly Kind[]> {
    const found = new Map<number, Kind[]>();
    for (let rank = 0; rank < this.most; rank++)
      for (const kind of KINDS) {
        const ordinal = this.tops.get(kind)?.things[rank];
        if (ordinal === undefined) continue;
        const kinds = found.get(ordinal);
        if (kinds !== undefined) kinds.push(kind);
        else if (found.size < this.most) found.set(ordinal, [kind]);
      }
    return found;
  }
}
