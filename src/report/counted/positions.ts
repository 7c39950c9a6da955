// Counts where in a trace σ lies: means over twenty stretches of equal length.

/** Mean σ·T of each stretch, from a trace's beginning to its end: 1 everywhere is uniform; null without traces. */
export interface PositionProfile {
  readonly right: readonly number[] | null;
  readonly wrong: readonly number[] | null;
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

  get profile(): PositionProfile {
    const of = (side: 'right' | 'wrong') =>
      this.counts[side].every((n) => n === 0)
        ? null
        : Array.from(this.sums[side], (sum, k) => sum / Math.max(1, this.counts[side][k] as number));
    return { right: of('right'), wrong: of('wrong') };
  }
}
