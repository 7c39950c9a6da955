// Means and standard deviations of features that come one by one.

/** What features are standardised with. */
export interface Standardisation {
  /** (F) */
  readonly mean: Float64Array;
  /** (F) 1 for a feature that is always the same */
  readonly sd: Float64Array;
}

/** A spread this far below the mean is rounding. */
const ROUNDING = 1e-12;

/** Weighted moments by West's update: exact to rounding for features that are far from 0, too. What is not known (NaN) does not count. */
export class Moments {
  readonly #weights: Float64Array;
  readonly #mean: Float64Array;
  readonly #squares: Float64Array;

  constructor(features: number) {
    this.#weights = new Float64Array(features);
    this.#mean = new Float64Array(features);
    this.#squares = new Float64Array(features);
  }

  /** Takes the features that stand from `from` on. */
  add(features: Float64Array, from: number, weight: number): void {
    for (let f = 0; f < this.#mean.length; f++) {
      const away = (features[from + f] as number) - (this.#mean[f] as number);
      if (Number.isNaN(away)) continue;
      const sum = (this.#weights[f] as number) + weight;
      this.#weights[f] = sum;
      const moved = (this.#mean[f] as number) + (away * weight) / sum;
      this.#squares[f] =
        (this.#squares[f] as number) + weight * away * ((features[from + f] as number) - moved);
      this.#mean[f] = moved;
    }
  }

  get standardisation(): Standardisation {
    const sd = this.#squares.map((squares, f) => {
      const spread = Math.sqrt(squares / (this.#weights[f] as number));
      return spread > ROUNDING * Math.abs(this.#mean[f] as number) ? spread : 1;
    });
    return { mean: this.#mean.slice(), sd };
  }
}

/** Writes the standardised features of one state to `out` (F); what is not known (NaN) counts as the mean. */
export function standardise(
  features: Float64Array,
  from: number,
  { mean, sd }: Standardisation,
  out: Float64Array,
): void {
  for (let f = 0; f < out.length; f++) {
    const feature = features[from + f] as number;
    out[f] = Number.isNaN(feature) ? 0 : (feature - (mean[f] as number)) / (sd[f] as number);
  }
}
