// What lines say, and what is believed of the lines that come back.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkedLogprobs, checkedSamples, entropyBounds, idOf } from '../../../src/model/engine/wire.js';

const question = { name: 'a@3:0', ids: Int32Array.of(5, 6, 7, 8), shared: 2, from: 2 };

describe('an id', () => {
  it('says what is asked: other tokens, another place or another number of samples is another question', () => {
    const sample = { name: 'a@3:0', ids: question.ids, shared: 4, samples: 2, maxTokens: 8, stop: [1] };
    const others = [
      question,
      { ...question, ids: Int32Array.of(5, 6, 7, 9) },
      { ...question, from: 3 },
      { ...question, fresh: true as const },
      sample,
      { ...sample, samples: 3 },
      { ...sample, maxTokens: 9 },
      { ...sample, stop: [1, 2] },
    ].map(idOf);
    expect(new Set(others).size).toBe(others.length);
    // where the tokens lie in memory, and what they share, changes nothing
    const view = Int32Array.of(4, 5, 6, 7, 8).subarray(1);
    expect(idOf({ ...question, ids: view, shared: 0 })).toBe(idOf(question));
  });
});

describe('the entropy that the likeliest tokens tell', () => {
  it('lies between its bounds, which meet where all tokens are known', () => {
    const weights = fc.array(fc.double({ min: 1e-6, max: 1, noNaN: true }), { minLength: 2, maxLength: 40 });
    fc.assert(
      fc.property(weights, fc.double({ min: 0.3, max: 12, noNaN: true }), fc.nat(), (some, power, cut) => {
        const raised = some.map((w) => w ** power);
        const total = raised.reduce((sum, w) => sum + w, 0);
        const p = raised.map((w) => w / total).sort((a, b) => b - a);
        fc.pre(p.every((each) => each > 0));
        const entropy = p.reduce((sum, each) => sum - each * Math.log(each), 0);
        const k = 1 + (cut % p.length);
        const [low, high] = entropyBounds(p.slice(0, k).map(Math.log), p.length);
        expect(entropy).toBeGreaterThanOrEqual(low - 1e-7);
        expect(entropy).toBeLessThanOrEqual(high + 1e-7);
        if (k === p.length) expect(high - low).toBeLessThan(1e-9);
      }),
    );
  });

  it('is exact at both ends: what is left on as few, and on as many tokens as can be', () => {
    // .5 known, .5 left: on two tokens of .25 each at least where the last known one has .25
    const [low, high] = entropyBounds([0.25, 0.25].map(Math.log), 12);
    expect(low).toBeCloseTo(4 * 0.25 * Math.log(4), 12);
    expect(high).toBeCloseTo(2 * 0.25 * Math.log(4) + 0.5 * Math.log(20), 12);
  });
});

describe('an answer', () => {
  const checked = (answer: object, more = {}) => checkedLogprobs(answer, { ...question, ...more }, 100);

  it('is taken as it is where it can be one', () => {
    expect(checked({ logprobs: [-1, -0.5] })).toEqual({ logprobs: Float32Array.of(-1, -0.5) });
    expect(checked({ logprobs: [-1, 1e-7] })).toEqual({ logprobs: Float32Array.of(-1, 0) });
    const told = checked({ logprobs: [-1, -2], entropies: [0.5, 1] }, { top: 20 });
    expect(told).toMatchObject({ entropies: Float32Array.of(0.5, 1), entropyWidth: 0 });
  });

  it.each([
    ['has no logprobs, expected 2', {}, {}],
    ['has 1 logprobs, expected 2', { logprobs: [-1] }],
    ['logprobs[1] is 0.4', { logprobs: [-1, 0.4] }],
    ['logprobs[0] is -Infinity', { logprobs: [Number.NEGATIVE_INFINITY, -1] }],
    ['logprobs[0] is NaN', { logprobs: [Number.NaN, -1] }],
    ['and no entropies', { logprobs: [-1, -1] }, { top: 3 }],
    ['entropies[1] is 4.7', { logprobs: [-1, -1], entropies: [0, 4.7] }, { top: 3 }],
    ['largest first', { logprobs: [-1, -1], top: [[-1, -0.5], [-1]] }, { top: 3 }],
    ['largest first', { logprobs: [-1, -1], top: [[-0.1, -0.1], [-1]] }, { top: 3 }],
  ])('is refused: %s', (why, answer, more: object = {}) => {
    expect(checked(answer, more)).toContain(why);
  });

  it('of samples has as many as were asked for, none too long, none beyond its end', () => {
    const asked = { name: '', ids: question.ids, shared: 4, samples: 2, maxTokens: 3, stop: [9] };
    expect(
      checkedSamples(
        {
          ids: [
            [1, 9],
            [1, 2, 3],
          ],
        },
        asked,
        10,
      ),
    ).toEqual([Int32Array.of(1, 9), Int32Array.of(1, 2, 3)]);
    expect(checkedSamples({ ids: [[1]] }, asked, 10)).toContain('1 lists of ids, expected 2');
    expect(checkedSamples({ ids: [[1], [1, 2, 3, 4]] }, asked, 10)).toContain('has 4 tokens');
    expect(checkedSamples({ ids: [[1], [9, 1]] }, asked, 10)).toContain('goes on behind 9');
    expect(checkedSamples({ ids: [[1], [10]] }, asked, 10)).toContain('the policy has 10 tokens');
  });
});
