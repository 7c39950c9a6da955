// Values under another policy and the best of K of its answers, against all sequences of K answers of a toy language model.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { traceValues } from '../../../dist/estimate/value.js';
import { rightNow } from '../../../dist/estimators/one-pass.js';
import { progress } from '../../../dist/estimators/progress.js';
import { answerNowValue, bestOfValue, randomToy, seeded, toyLogprobs } from '../../oracle/toy.js';

const STATES = ['', 'a', 'ab', 'abc', 'abca'];
const right = (y: string) => (y === '1' ? 1 : 0);
const ROUNDING = 1e-6;

/** its facts where the best of K answers counts */
const bestOf = (K: number, proverEstimator = 'pr') =>
  progress.withFlags?.({ proverEstimator, bestOf: `${K}` }) ?? progress;

describe.each([1, 2, 3, 4, 5, 6])('toy prover %i', (seed) => {
  const prover = randomToy(seeded(seed));

  it.each([1, 2, 3, 6])('values a trace as its best of %i answers at each state', (K) => {
    const branches = STATES.map((s) => [Float32Array.from(toyLogprobs(prover, `${s}|`, '1'))]);
    const { values } = traceValues(branches, Float32Array.of(1), bestOf(K));
    for (const [k, s] of STATES.entries()) {
      expect(Math.abs((values[k] as number) - bestOfValue(prover, s, K, right))).toBeLessThan(ROUNDING);
      if (K === 1)
        expect(Math.abs((values[k] as number) - answerNowValue(prover, s, right))).toBeLessThan(ROUNDING);
    }
  });
});

describe('the best of K', () => {
  const logprobs = fc.float32Array({ minLength: 1, maxLength: 3, min: -20, max: -1.25, noNaN: true });
  it('is the value itself for K = 1, never less for more, and never above 1', () => {
    fc.assert(
      fc.property(logprobs, fc.integer({ min: 2, max: 50 }), (lp, K) => {
        const [tokens, utilities] = [new Int32Array(lp.length).fill(2), new Float32Array(lp.length).fill(1)];
        const value = (k: number) => bestOf(k).fromStored?.({ logprobs: lp, tokens, utilities }) as number;
        expect(value(1)).toBe(rightNow({ logprobs: lp, tokens, utilities }));
        expect(value(K)).toBeGreaterThanOrEqual(value(K - 1));
        expect(value(K)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it('takes a probability that rounding has put above 1 for 1', () => {
    const bank = { logprobs: Float32Array.of(1e-4), tokens: Int32Array.of(1), utilities: Float32Array.of(1) };
    for (const K of [2, 3]) expect(bestOf(K).fromStored?.(bank)).toBe(1);
  });

  it('has a meaning for probabilities alone', () => {
    for (const name of ['pr', 'snis']) expect(bestOf(2, name).config).toMatchObject({ bestOf: 2 });
    for (const name of ['pr-mean', 'pr-geo']) expect(() => bestOf(2, name)).toThrow('are no probabilities');
  });
});
