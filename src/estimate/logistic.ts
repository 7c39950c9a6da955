// Logistic regression with an L2 penalty by Newton's method, and the moments by which features are standardised: over samples that come one by one, pass after pass.

/** A step that promises to lower the loss by less than this share is the last: what remains is of the step's square. */
const LAST_GAIN = 1e-13;
/** A loss that rises by less than this share has only been rounded. */
const ROUNDING = 1e-9;

/**
 * Fits P(ζ = 1) = σ(w_0 + Σ_f w_f z_f), for any ζ in [0, 1], by the least Σ weight · cross-entropy + l2/2 Σ_f w_f². The
 * intercept is free. What is kept are sums, so a pass needs no memory for its samples; the weights depend on the samples
 * and their order alone.
 */
export class LogisticFit {
  /** (P) intercept first, P = 1 + F */
  readonly weights: Float64Array;
  readonly #gradient: Float64Array; // (P)
  readonly #hessian: Float64Array; // (P·P) lower triangle
  #loss = 0;
  #before: { readonly weights: Float64Array; readonly loss: number } | undefined;
  /** whether more passes change nothing */
  hasEnded = false;

  /** @param features F, of which a sample has as many */
  constructor(
    features: number,
    private readonly l2: number,
  ) {
    const P = 1 + features;
    this.weights = new Float64Array(P);
    this.#gradient = new Float64Array(P);
    this.#hessian = new Float64Array(P * P);
  }

  /** Takes a sample of the pass. @param z (F) standardised features @param target ζ in [0, 1] */
  add(z: Float64Array, target: number, weight: number): void {
    if (this.hasEnded) return;
    const logit = logitOf(this.weights, z);
    this.#loss += weight * crossEntropy(logit, target);
    const p = sigmoid(logit);
    const error = weight * (p - target);
    const curvature = weight * p * (1 - p);
    const P = this.weights.length;
    const feature = (i: number) => (i === 0 ? 1 : (z[i - 1] as number));
    for (let i = 0; i < P; i++) {
      const zi = feature(i);
      this.#gradient[i] = (this.#gradient[i] as number) + error * zi;
      for (let j = 0; j <= i; j++)
        this.#hessian[i * P + j] = (this.#hessian[i * P + j] as number) + curvature * zi * feature(j);
    }
  }

  /** Ends a pass: takes Newton's step, or half of the last one back where that had gone too far. */
  endPass(): void {
    if (this.hasEnded) return;
    const { weights, l2 } = this;
    const loss = this.#loss + weights.reduce((sum, w, at) => sum + (at === 0 ? 0 : (l2 / 2) * w * w), 0);
    const before = this.#before;
    if (before !== undefined && !(loss <= before.loss + ROUNDING * Math.abs(before.loss)))
      weights.set(weights.map((w, at) => (w + (before.weights[at] as number)) / 2));
    else this.#step(loss);
    this.#gradient.fill(0);
    this.#hessian.fill(0);
    this.#loss = 0;
  }

  #step(loss: number): void {
    const { weights, l2 } = this;
    const P = weights.length;
    for (let i = 1; i < P; i++) {
      this.#gradient[i] = (this.#gradient[i] as number) + l2 * (weights[i] as number);
      this.#hessian[i * P + i] = (this.#hessian[i * P + i] as number) + l2;
    }
    const step = solveSymmetric(factorise(this.#hessian, P), this.#gradient);
    this.#before = { weights: weights.slice(), loss };
    let gain = 0; // twice what the quadratic model promises
    for (let i = 0; i < P; i++) {
      weights[i] = (weights[i] as number) - (step[i] as number);
      gain += (step[i] as number) * (this.#gradient[i] as number);
    }
    this.hasEnded = gain <= LAST_GAIN * loss;
  }
}

/** w_0 + Σ_f w_f z_f. @param weights (1+F) intercept first */
export function logitOf(weights: ArrayLike<number>, z: Float64Array): number {
  let logit = weights[0] as number;
  for (let f = 0; f < z.length; f++) logit += (weights[f + 1] as number) * (z[f] as number);
  return logit;
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
      let sum = A[i * P + j] as number;
      for (let k = 0; k < j; k++) sum -= (A[i * P + k] as number) * (A[j * P + k] as number);
      A[i * P + j] = i === j ? Math.sqrt(sum) : sum / (A[j * P + j] as number);
    }
  return A;
}

/** Solves L Lᵀ x = b. @param A L, of {@link factorise} @param b (P) */
export function solveSymmetric(A: Float64Array, b: Float64Array): Float64Array {
  const P = b.length;
  const x = b.slice();
  for (let i = 0; i < P; i++) {
    let sum = x[i] as number;
    for (let k = 0; k < i; k++) sum -= (A[i * P + k] as number) * (x[k] as number);
    x[i] = sum / (A[i * P + i] as number);
  }
  for (let i = P - 1; i >= 0; i--) {
    let sum = x[i] as number;
    for (let k = i + 1; k < P; k++) sum -= (A[k * P + i] as number) * (x[k] as number);
    x[i] = sum / (A[i * P + i] as number);
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

/** Writes the standardised features of one state to `out` (F). */
export function standardise(
  features: Float64Array,
  from: number,
  { mean, sd }: Readonly<Record<'mean' | 'sd', ArrayLike<number>>>,
  out: Float64Array,
): void {
  for (let f = 0; f < out.length; f++)
    out[f] = ((features[from + f] as number) - (mean[f] as number)) / (sd[f] as number);
}
