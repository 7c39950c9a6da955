// A second policy reads the same tokens or none; the best of K of a prover's answers, against all sequences of K of a toy language model.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TraceRejected } from '../../dist/errors.js';
import { pr } from '../../dist/estimate/one-pass.js';
import { progress } from '../../dist/estimate/progress.js';
import { tokenCheck } from '../../dist/estimate/second-policy.js';
import { stateValues } from '../../dist/estimate/value.js';
import { bestOfValue, randomToy, seeded, toyLogprobs } from '../oracle/toy.js';

/** its facts where the best of K answers counts */
const bestOf = (K: number, proverEstimator = 'pr') =>
  progress.withFlags?.({ proverEstimator, bestOf: `${K}` }) ?? progress;

describe('tokenCheck', () => {
  const spelling = (change: Readonly<Record<number, string>> = {}) => ({
    bytes: (id: number) => Buffer.from(change[id] ?? String.fromCharCode(id)),
  });
  const read = (prompt: number[], completion: number[]) => ({
    promptIds: Int32Array.from(prompt),
    completionIds: Int32Array.from(completion),
  });
  const suffix = { ids: new Int32Array(3), scoredFrom: 1 };
  const PROVER = { name: 'prover', code: 'prover', flag: '--prover' };
  const rejection = (check: () => void) => {
    try {
      check();
    } catch (error) {
      if (error instanceof TraceRejected) return `${error.code}: ${error.reason}`;
    }
    return undefined;
  };

  it('takes a prover that reads the same tokens, whatever the rest of its vocabulary', () => {
    const check = tokenCheck(spelling(), spelling({ 99: 'other' }), 128, 9, PROVER);
    expect(rejection(() => check(read([65, 66], [67, 68, 69, 70]), [suffix]))).toBe(undefined);
  });

  const unlike = (place: string, id: number, policy: string, own: string) =>
    `prover_tokens: ${place} is ${id}, which is "${policy}" for the policy and "${own}" for the prover`;
  const NONE = "prover_tokens: completion_ids[1] is 67, the prover's vocabulary has 67 tokens";
  const LONG = 'prover_too_long: prompt and completion have 4 tokens, the prover takes 3 with the reference';
  it.each([
    ['another text', { 67: 'c' }, 128, 99, unlike('completion_ids[1]', 67, 'C', 'c')],
    ['no text', { 66: '' }, 128, 99, unlike('prompt_ids[1]', 66, 'B', '')],
    ['no such token', {}, 67, 99, NONE],
    ['no room', {}, 128, 6, LONG],
  ] as const)('turns down a trace: %s', (_, change, vocab, most, expected) => {
    const check = tokenCheck(spelling(), spelling(change), vocab, most, PROVER);
    const turned = () => rejection(() => check(read([65, 66], [65, 67]), [suffix]));
    expect(turned()).toContain(expected);
    // and again: what was found once is not taken for known
    expect(turned()).toContain(expected);
  });
});

describe('the best of K', () => {
  it.each([1, 2, 3, 6])('is the expected best of %i answers, tried one after the other', (K) => {
    const states = ['', 'a', 'ab', 'abc', 'abca'];
    for (const seed of [1, 2, 3]) {
      const prover = randomToy(seeded(seed));
      const branches = states.map((s) => [Float32Array.from(toyLogprobs(prover, `${s}|`, '1'))]);
      const values = stateValues(branches, Float32Array.of(1), bestOf(K));
      for (const [k, s] of states.entries())
        expect(values[k]).toBeCloseTo(
          bestOfValue(prover, s, K, (y) => Number(y === '1')),
          6,
        );
    }
  });

  const logprobs = fc.float32Array({ minLength: 1, maxLength: 3, min: -20, max: -1.25, noNaN: true });
  it('is the value itself for K = 1, never less for more, and never above 1', () => {
    fc.assert(
      fc.property(logprobs, fc.integer({ min: 2, max: 50 }), (lp, K) => {
        const [tokens, utilities] = [new Int32Array(lp.length).fill(2), new Float32Array(lp.length).fill(1)];
        const value = (k: number) => bestOf(k).fromStored?.({ logprobs: lp, tokens, utilities }) as number;
        expect(value(1)).toBe(pr.fromStored?.({ logprobs: lp, tokens, utilities }));
        expect(value(K)).toBeGreaterThanOrEqual(value(K - 1));
        expect(value(K)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it('takes a probability that rounding has put above 1 for 1', () => {
    const [one, tokens] = [Float32Array.of(1), Int32Array.of(1)];
    const referenceSet = { logprobs: Float32Array.of(1e-4), tokens, utilities: one };
    for (const K of [2, 3]) expect(bestOf(K).fromStored?.(referenceSet)).toBe(1);
  });
});
