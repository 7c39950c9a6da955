/** Equations (1), (3) and (4) on a language model small enough to sum, through the reference set and the estimator as shipped. */
import { describe, expect, test } from 'vitest';
import { referenceSetOf } from '../../dist/estimate/references.js';
import { stateValue } from '../../dist/estimate/value.js';
import type { Reference } from '../../dist/trace.js';
import {
  type Continuation,
  continuations,
  exactSum,
  exactValue,
  randomToy,
  seeded,
  type ToyModel,
  toyLogprobs,
} from '../oracle/toy.js';
import { named } from '../support/estimators.js';

const STATES = ['', 'a', 'ab', 'abc', 'abca'];
const right = (y: string) => (y === '1' ? 1 : y === '2' ? 0.25 : 0);
const zeta = (_s: string, { y }: Continuation) => right(y);

const references = (referenceSet: readonly Continuation[]): Reference[] =>
  referenceSet.map(({ u, y }) => ({ answer: y, solution: u, utility: right(y) }));

/** `joint` v̂(s) of a reference set of continuations: everything after s is scored. */
function joint(model: ToyModel, s: string, referenceSet: readonly Continuation[]): number {
  const entries = referenceSetOf(references(referenceSet), named('joint'));
  const logprobs = entries.map(({ solution = '', answer }) =>
    Float32Array.from(toyLogprobs(model, s, solution + answer)),
  );
  const utilities = Float32Array.from(entries, ({ utility }) => utility);
  return Math.exp(stateValue(logprobs, utilities, named('joint')));
}

// token log-probabilities are float32: each is off by 6e-8 of itself at most, here at most 5 of about 10 nats
const ROUNDING = 3e-6;

describe.each([1, 2, 3, 4, 5, 6, 7, 8])('toy %i', (seed) => {
  const random = seeded(seed);
  const model = randomToy(random);

  test.each(STATES)('from "%s": v̂ ≤ v, and v̂ − v is −Σ p·ζ of what is left out (eq. 4)', (s) => {
    const all = continuations(s);
    const v = exactValue(model, s, zeta);
    for (const share of [0, 0.05, 0.3, 0.6, 0.95, 1]) {
      const inside = all.filter(() => random() < share);
      const outside = all.filter((continuation) => !inside.includes(continuation));
      const value = joint(model, s, inside);
      expect(value).toBeLessThanOrEqual(v * (1 + ROUNDING));
      expect(Math.abs(value - v + exactSum(model, s, outside, zeta))).toBeLessThan(ROUNDING * v);
    }
  });
});
