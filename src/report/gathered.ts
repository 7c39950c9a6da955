// What the numbers of a scored file are gathered in: quantiles, the largest, means by prediction and by place, none of which grows with the traces.

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
  private readonly counts = new Float64Array(BINS);
  private readonly predictions = new Float64Array(BINS);
  private readonly rewards = new Float64Array(BINS);
  private squares = 0;

  add(prediction: number, reward: number): void {
    const k = Math.min(BINS - 1, Math.max(0, Math.floor(prediction * BINS)));
    this.counts[k] = (this.counts[k] as number) + 1;
    this.predictions[k] = (this.predictions[k] as number) + prediction;
    this.rewards[k] = (this.rewards[k] as number) + reward;
    this.squares += (prediction - reward) ** 2;
  }

  get curve() {
    const n = this.counts.reduce((sum, count) => sum + count, 0);
    const bins = Array.from(this.counts, (count, k) => ({
      from: k / BINS,
      to: (k + 1) / BINS,
      n: count,
      predicted: count === 0 ? null : (this.predictions[k] as number) / count,
      reward: count === 0 ? null : (this.rewards[k] as number) / count,
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

/** Traces of a group that are looked at together. */
const MOST = 4096;

/** Gathers them; a group is what stands together under one name. */
export class GroupMeans {
  private readonly reliability = new Reliability();
  private current: string | undefined;
  private rewards: number[] = [];

  add(group: string | undefined, reward: number | null): void {
    if (group !== this.current || this.rewards.length === MOST) this.end();
    this.current = group;
    if (group !== undefined && reward !== null) this.rewards.push(reward);
  }

  private end(): void {
    const { rewards } = this;
    const sum = rewards.reduce((total, reward) => total + reward, 0);
    if (rewards.length > 1)
      for (const reward of rewards) this.reliability.add((sum - reward) / (rewards.length - 1), reward);
    this.rewards = [];
  }

  /** Of all that were added. */
  get curve(): ReliabilityCurve {
    this.end();
    return this.reliability.curve;
  }
}

const STRETCHES = 20;

/** Gathers them; traces weigh alike, whatever their length. */
export class Positions {
  private readonly sums = { right: new Float64Array(STRETCHES), wrong: new Float64Array(STRETCHES) };
  private readonly counts = { right: new Float64Array(STRETCHES), wrong: new Float64Array(STRETCHES) };

  /** @param sigma (T), which sums to 1 @param side of the reward; unknown is left out */
  add(sigma: Float32Array, side: 'right' | 'wrong' | 'unknown'): void {
    if (side === 'unknown') return;
    const T = sigma.length;
    for (let k = 0; k < STRETCHES; k++) {
      const [from, to] = [Math.floor((k * T) / STRETCHES), Math.floor(((k + 1) * T) / STRETCHES)];
      // a trace of fewer tokens has nothing in some of them
      if (to === from) continue;
      let sum = 0;
      for (let t = from; t < to; t++) sum += sigma[t] as number;
      this.sums[side][k] = (this.sums[side][k] as number) + (sum * T) / (to - from);
      this.counts[side][k] = (this.counts[side][k] as number) + 1;
    }
  }

  /** Mean σ·T of each stretch, from a trace's beginning to its end: 1 everywhere is uniform; null without traces. */
  get profile() {
    const of = (side: 'right' | 'wrong') =>
      this.counts[side].every((n) => n === 0)
        ? null
        : Array.from(this.sums[side], (sum, k) => sum / Math.max(1, this.counts[side][k] as number));
    return { right: of('right'), wrong: of('wrong') };
  }
}
