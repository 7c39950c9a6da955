/** Equations (1) and (2) on a language model whose every continuation can be summed; (3) and (4) are compared with it in test/estimate/toy.test.ts. */
import { describe, expect, test } from 'vitest';
import { answerNowValue, type Continuation, exactValue, randomToy, seeded } from './toy.js';

const STATES = ['', 'a', 'ab', 'abc', 'abca'];
const right = (y: string) => (y === '1' ? 1 : y === '2' ? 0.25 : 0);
const zeta = (_s: string, { y }: Continuation) => right(y);

describe.each([1, 2, 3, 4, 5])('toy %i', (seed) => {
  const random = seeded(seed);
  const model = randomToy(random);

  test('continuations are a distribution: ζ = 1 has value 1', () => {
    for (const s of STATES) expect(exactValue(model, s, () => 1)).toBeCloseTo(1, 12);
  });

  test('(1) is a martingale: v(s) is the mean of v over the next symbol', () => {
    for (const s of STATES.slice(0, -1)) {
      let mean = 0;
      for (const [symbol, p] of model.next(s)) {
        mean += p * (symbol === '|' ? answerNowValue(model, s, right) : exactValue(model, s + symbol, zeta));
      }
      expect(mean).toBeCloseTo(exactValue(model, s, zeta), 12);
    }
  });

  test('(2) telescopes: all differences and the answer step add up to ζ − v(s_0)', () => {
    const v = STATES.map((s) => exactValue(model, s, zeta));
    const steps = v.slice(1).map((value, k) => value - (v[k] as number));
    const answerStep = 1 - (v.at(-1) as number);
    expect(steps.reduce((a, b) => a + b, answerStep)).toBeCloseTo(1 - (v[0] as number), 12);
  });
});

test('the value of answering now is not bounded by v', () => {
  const gaps = [1, 2, 3, 4, 5].flatMap((seed) => {
    const model = randomToy(seeded(seed));
    return STATES.map((s) => answerNowValue(model, s, right) - exactValue(model, s, zeta));
  });
  expect(Math.max(...gaps)).toBeGreaterThan(0.05);
  expect(Math.min(...gaps)).toBeLessThan(-0.05);
});
