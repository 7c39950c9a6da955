// Counts predictions and what came of them in the ten bins of a reliability curve.

/** Predictions of one bin. */
export interface ReliabilityBin {
  readonly from: number;
  readonly to: number;
  readonly n: number;
  readonly predicted: number | null;
  readonly reward: number | null;
}

export interface ReliabilityCurve {
  readonly n: number;
  readonly bins: readonly ReliabilityBin[];
  /** mean |predicted − reward| of the bins, each weighing as much as it holds; null without predictions */
  readonly error: number | null;
  /** mean squared difference of prediction and reward */
  readonly brier: number | null;
}

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

  get curve(): ReliabilityCurve {
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
    return { n, bins, error: n === 0 ? null : off / n, brier: n === 0 ? null : this.squares / n };
  }
}
