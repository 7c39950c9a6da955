// Keeps quantiles and bars of numbers in memory that does not grow with how many there are.

/** A bar of a histogram: how many lie from `from` (inclusive) to `to`. */
export interface Bar {
  readonly from: number;
  readonly to: number;
  readonly n: number;
}

/** What is told of a list of numbers. Quantiles are off by half a percent at most. */
export interface Distribution {
  readonly n: number;
  readonly mean: number | null;
  readonly min: number | null;
  readonly p05: number | null;
  readonly p25: number | null;
  readonly median: number | null;
  readonly p75: number | null;
  readonly p95: number | null;
  readonly max: number | null;
  /** from the smallest to the 99th percentile; the last one holds what lies beyond */
  readonly bars: readonly Bar[];
}

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

  get distribution(): Distribution {
    const { n, sum, min, max } = this;
    const sorted = [...this.bins].sort(([a], [b]) => a - b);
    const at = (share: number) => (n === 0 ? null : quantile(sorted, share * n, min, max));
    return {
      n,
      mean: n === 0 ? null : sum / n,
      min: n === 0 ? null : min,
      ...{ p05: at(0.05), p25: at(0.25), median: at(0.5), p75: at(0.75), p95: at(0.95) },
      max: n === 0 ? null : max,
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

function barsOf(sorted: Bins, low: number, high: number, max: number): Bar[] {
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
