// L-BFGS (Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 3.1): the least of a smooth convex function that is evaluated elsewhere, a pass over the data at a time.
import { addTo, dot } from './logistic.js';

/** Steps that are kept in mind. */
const MEMORY = 10;
/** A step has to bring this share of what its slope promises, or is halved; so often halved it is nothing but rounding. */
const [LEAST_GAIN, MOST_HALVES] = [1e-4, 30];
/** A loss that rises by less than this share has only been rounded: gradients still say where to go. */
const ROUNDING = 1e-12;
/** No search that settles takes so many. */
const MOST_STEPS = 200;

/** What is to be evaluated stands in `at`; `take` is told what it came to, and moves on. */
export class Lbfgs {
  readonly at: Float64Array;
  hasEnded = false;
  #from: Readonly<Record<'at' | 'gradient' | 'direction', Float64Array>> & { readonly loss: number };
  #step = 0;
  #steps = 0;
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
    const none = new Float64Array(start.length);
    this.#from = { at: start, gradient: none, direction: none, loss: Number.POSITIVE_INFINITY };
  }

  /** @param gradient (P) at `at`; it is kept */
  take(loss: number, gradient: Float64Array): void {
    const from = this.#from;
    const promised = this.#step * product(from.gradient, from.direction);
    if (!(loss <= from.loss + LEAST_GAIN * promised + ROUNDING * Math.abs(loss))) {
      this.#step /= 2;
      this.hasEnded = this.#step < 2 ** -MOST_HALVES;
      this.#move(this.hasEnded ? 0 : this.#step);
      return;
    }
    if (this.#step > 0) {
      const s = this.at.map((x, i) => x - (from.at[i] as number));
      const y = gradient.map((g, i) => g - (from.gradient[i] as number));
      const sy = product(s, y);
      if (sy > 0) this.#pairs.push({ s, y, sy });
      if (this.#pairs.length > MEMORY) this.#pairs.shift();
    }
    this.#from = { at: this.at.slice(), loss, gradient, direction: this.#newDirection(gradient) };
    this.#step = 1;
    this.hasEnded = ++this.#steps > MOST_STEPS || gradient.every((g) => Math.abs(g) <= this.tolerance);
    if (!this.hasEnded) this.#move(1);
  }

  #move(step: number): void {
    this.at.set(this.#from.at);
    addTo(this.at, 0, this.#from.direction, 0, this.at.length, step);
  }

  /** −H·gradient, H from the last steps and what they changed. */
  #newDirection(gradient: Float64Array): Float64Array {
    const q = gradient.map((g) => -g);
    const weights = this.#pairs.toReversed().map(({ s, y, sy }) => {
      const weight = product(s, q) / sy;
      addTo(q, 0, y, 0, q.length, -weight);
      return weight;
    });
    const direction = this.solve(q);
    for (const { s, y, sy } of this.#pairs)
      addTo(direction, 0, s, 0, s.length, (weights.pop() as number) - product(y, direction) / sy);
    return direction;
  }
}

const product = (x: Float64Array, y: Float64Array) => dot(x, 0, y, 0, x.length);
