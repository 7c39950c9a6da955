// L-BFGS (Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 3.1): the least of a smooth convex function that is evaluated elsewhere, a pass over the data at a time.

/** Steps that are kept in mind: more of them saved no passes. */
const MEMORY = 10;
/** A step has to bring this share of what its slope promises. */
const LEAST_GAIN = 1e-4;
/** Halved more often, a step is nothing but rounding. */
const MOST_HALVES = 30;

interface Point {
  readonly at: Float64Array;
  readonly loss: number;
  readonly gradient: Float64Array;
}

/** What is to be evaluated stands in `at`; `take` is told what it came to, and moves on. */
export class Lbfgs {
  readonly at: Float64Array;
  hasEnded = false;
  #from: Point | undefined;
  #direction: Float64Array = new Float64Array(0);
  #step = 0;
  #halves = 0;
  readonly #pairs: { readonly s: Float64Array; readonly y: Float64Array; readonly sy: number }[] = [];

  /**
   * @param start (P)
   * @param tolerance largest entry of the gradient at which it is done
   * @param solve applies the inverse of what the second derivative is about
   */
  constructor(
    start: Float64Array,
    private readonly tolerance: number,
    private readonly solve: (gradient: Float64Array) => Float64Array,
  ) {
    this.at = start.slice();
  }

  /** @param gradient (P) at `at`; it is kept */
  take(loss: number, gradient: Float64Array): void {
    const { at } = this;
    const from = this.#from;
    if (from !== undefined) {
      const promised = this.#step * dot(from.gradient, this.#direction);
      if (!(loss <= from.loss + LEAST_GAIN * promised)) {
        this.#halve(from);
        return;
      }
      const s = at.map((x, i) => x - (from.at[i] as number));
      const y = gradient.map((g, i) => g - (from.gradient[i] as number));
      const sy = dot(s, y);
      if (sy > 0) this.#pairs.push({ s, y, sy });
      if (this.#pairs.length > MEMORY) this.#pairs.shift();
    }
    this.#from = { at: at.slice(), loss, gradient };
    this.#halves = 0;
    if (gradient.every((g) => Math.abs(g) <= this.tolerance)) {
      this.hasEnded = true;
      return;
    }
    this.#direction = this.#newDirection(gradient);
    this.#step = 1;
    this.#move(at);
  }

  #halve(from: Point): void {
    this.#step /= 2;
    this.hasEnded = ++this.#halves > MOST_HALVES;
    if (this.hasEnded) this.at.set(from.at);
    else this.#move(from.at);
  }

  #move(from: Float64Array): void {
    for (let i = 0; i < from.length; i++)
      this.at[i] = (from[i] as number) + this.#step * (this.#direction[i] as number);
  }

  /** −H·gradient, H from the last steps and what they changed. */
  #newDirection(gradient: Float64Array): Float64Array {
    let q = gradient.map((g) => -g);
    const weights = this.#pairs.toReversed().map(({ s, y, sy }) => {
      const weight = dot(s, q) / sy;
      addTo(q, y, -weight);
      return weight;
    });
    q = this.solve(q) as typeof q;
    for (const [n, { s, y, sy }] of this.#pairs.entries())
      addTo(q, s, (weights[weights.length - 1 - n] as number) - dot(y, q) / sy);
    return q;
  }
}

/** x += by · y */
function addTo(x: Float64Array, y: Float64Array, by: number): void {
  for (let i = 0; i < x.length; i++) x[i] = (x[i] as number) + by * (y[i] as number);
}

function dot(x: Float64Array, y: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += (x[i] as number) * (y[i] as number);
  return sum;
}
