/** Equations (1) to (4) on a language model whose every continuation can be summed. */
import { describe, expect, test } from 'vitest';
import {
  answerNowValue,
  type Continuation,
  continuations,
  exactSum,
  exactValue,
  jointValue,
  randomToy,
  seeded,
  toyLogprobs,
} from './toy.js';

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

  test('(3) stays below (1), equals it at full cover, and (4) is the sum outside the bank', () => {
    for (const s of STATES) {
      const all = continuations(s);
      const v = exactValue(model, s, zeta);
      expect(jointValue(model, s, all, zeta)).toBeCloseTo(v, 12);
      for (const share of [0, 0.1, 0.5, 0.9]) {
        const inside = all.filter(() => random() < share);
        const outside = all.filter((continuation) => !inside.includes(continuation));
        const value = jointValue(model, s, inside, zeta);
        expect(value).toBeLessThanOrEqual(v + 1e-12);
        expect(value - v).toBeCloseTo(-exactSum(model, s, outside, zeta), 12);
        // a set in any order: repeats and permutations change nothing
        expect(jointValue(model, s, [...inside, ...inside].reverse(), zeta)).toBeCloseTo(value, 12);
      }
    }
  });

  test('(3) as the mean under q: with q = 1/N the mean of p·ζ/q over the bank is Σ p·ζ', () => {
    const bank = continuations('ab').filter((_, i) => i % 3 === 0);
    const q = 1 / bank.length;
    const weighted = bank.map((continuation) => {
      const logprobs = toyLogprobs(model, 'ab', continuation.u + continuation.y);
      return (Math.exp(logprobs.reduce((a, b) => a + b, 0)) / q) * zeta('ab', continuation);
    });
    const mean = weighted.reduce((a, b) => a + b, 0) / bank.length;
    expect(mean).toBeCloseTo(jointValue(model, 'ab', bank, zeta), 12);
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
