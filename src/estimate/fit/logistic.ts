// What logistic regressions are made of: the loss, the moments by which features are standardised, and a factor by which linear equations are solved.

// ------ nearly all the time of a fit is spent inside these two: four numbers at a time do not wait for each other

/** Σ_k x[i+k] y[j+k] of n numbers. */
export function dot(x: Float64Array, i: number, y: Float64Array, j: number, n: number): number {
  // a list of them would take as long again
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let k = 0;
  for (; k + 3 < n; k += 4) {
    a += (x[i + k] as number) * (y[j + k] as number);
    b += (x[i + k + 1] as number) * (y[j + k + 1] as number);
    c += (x[i + k + 2] as number) * (y[j + k + 2] as number);
    d += (x[i + k + 3] as number) * (y[j + k + 3] as number);
  }
  for (; k < n; k++) a += (x[i + k] as number) * (y[j + k] as number);
  return a + b + c + d;
}

/** x[i+k] += by · y[j+k] of n numbers. */
export function addTo(x: Float64Array, i: number, y: Float64Array, j: number, n: number, by: number): void {
  let k = 0;
  for (; k + 3 < n; k += 4) {
    x[i + k] = (x[i + k] as number) + by * (y[j + k] as number);
    x[i + k + 1] = (x[i + k + 1] as number) + by * (y[j + k + 1] as number);
    x[i + k + 2] = (x[i + k + 2] as number) + by * (y[j + k + 2] as number);
    x[i + k + 3] = (x[i + k + 3] as number) + by * (y[j + k + 3] as number);
  }
  for (; k < n; k++) x[i + k] = (x[i + k] as number) + by * (y[j + k] as number);
}

/** w_0 + Σ_f w_f z_f of the F numbers from `at` on. @param weights (1+F) */
export function logitOf(weights: Float64Array, z: Float64Array, at = 0): number {
  return (weights[0] as number) + dot(weights, 1, z, at, weights.length - 1);
}

/** gradient += error · (1, z) @param gradient (1+F) */
export function addSample(gradient: Float64Array, z: Float64Array, at: number, error: number): void {
  gradient[0] = (gradient[0] as number) + error;
  addTo(gradient, 1, z, at, gradient.length - 1, error);
}

/** 1 / (1 + e^−x), without overflow on either side. */
export function sigmoid(x: number): number {
  if (x >= 0) return 1 / (1 + Math.exp(-x));
  const e = Math.exp(x);
  return e / (1 + e);
}

/** −ζ log p − (1−ζ) log(1−p) of p = σ(logit), nats. */
export function crossEntropy(logit: number, target: number): number {
  return Math.max(logit, 0) + Math.log1p(Math.exp(-Math.abs(logit))) - target * logit;
}

/** Cholesky's decomposition A = L Lᵀ. @param A (P·P) lower triangle, which becomes L */
export function factorise(A: Float64Array, P: number): Float64Array {
  for (let i = 0; i < P; i++)
    for (let j = 0; j <= i; j++) {
      const left = (A[i * P + j] as number) - dot(A, i * P, A, j * P, j);
      A[i * P + j] = i === j ? Math.sqrt(left) : left / (A[j * P + j] as number);
    }
  return A;
}

/** Solves L Lᵀ x = b. @param A L, of {@link factorise} @param b (P) */
export function solveSymmetric(A: Float64Array, b: Float64Array): Float64Array {
  const P = b.length;
  const x = b.slice();
  for (let i = 0; i < P; i++) x[i] = ((x[i] as number) - dot(A, i * P, x, 0, i)) / (A[i * P + i] as number);
  for (let i = P - 1; i >= 0; i--) {
    const own = (x[i] as number) / (A[i * P + i] as number);
    x[i] = own;
    addTo(x, 0, A, i * P, i, -own);
  }
  return x;
}

/** What features are standardised with: (F) each; `sd` is 1 for a feature that is always the same. */
export type Standardisation = Readonly<Record<'mean' | 'sd', Float64Array>>;

/** A spread this far below the mean is rounding. */
const FLAT_SPREAD = 1e-12;

/** Weighted moments by West's update: exact to rounding for features that are far from 0, too. */
export class Moments {
  #weight = 0;
  readonly #mean: Float64Array;
  readonly #squares: Float64Array;

  constructor(features: number) {
    this.#mean = new Float64Array(features);
    this.#squares = new Float64Array(features);
  }

  /** Takes the features that stand from `from` on. */
  add(features: Float64Array, from: number, weight: number): void {
    this.#weight += weight;
    for (let f = 0; f < this.#mean.length; f++) {
      const away = (features[from + f] as number) - (this.#mean[f] as number);
      const moved = (this.#mean[f] as number) + (away * weight) / this.#weight;
      this.#squares[f] =
        (this.#squares[f] as number) + weight * away * ((features[from + f] as number) - moved);
      this.#mean[f] = moved;
    }
  }

  get standardisation(): Standardisation {
    const sd = this.#squares.map((squares, f) => {
      const spread = Math.sqrt(squares / this.#weight);
      return spread > FLAT_SPREAD * Math.abs(this.#mean[f] as number) ? spread : 1;
    });
    return { mean: this.#mean.slice(), sd };
  }
}

/** All states of a trace standardised. @param features ((K+1)·F) */
export function standardised(features: Float64Array, { mean, sd }: Standardisation): Float64Array {
  const F = mean.length;
  const z = new Float64Array(features.length);
  for (let from = 0; from < z.length; from += F)
    for (let f = 0; f < F; f++)
      z[from + f] = ((features[from + f] as number) - (mean[f] as number)) / (sd[f] as number);
  return z;
}
