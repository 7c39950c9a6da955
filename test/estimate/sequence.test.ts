/** A trace and its references as one sequence, by hand; what a session says of it as attributions; what cannot be. */
import { describe, expect, it } from 'vitest';
import { OutOfMemoryError } from '../../dist/errors.js';
import {
  type Ablated,
  type Attributes,
  attributionsOf,
  overSegments,
  posteriors,
  sequenceOf,
} from '../../dist/estimate/attributed.js';

const TRACE: Ablated = {
  promptIds: Int32Array.of(1, 2),
  completionIds: Int32Array.of(3, 4, 5, 6, 7),
  exits: Int32Array.of(1, 2, 4),
  continuations: [
    { ids: Int32Array.of(20, 21, 22), scoredFrom: 1, utility: 1 },
    { ids: Int32Array.of(30, 31), scoredFrom: 0, utility: 0.5 },
    { ids: Int32Array.of(40, 41), scoredFrom: 1, utility: 0 },
  ],
};
/** p = .2, .4 and .9, of which .2 · 1 and .4 · ½ earn something */
const LOGPROBS = [
  Float32Array.of(Math.log(0.4), Math.log(0.5)),
  Float32Array.of(Math.log(0.8), Math.log(0.5)),
  Float32Array.of(Math.log(0.9)),
];

const sessionOf = (attribute: Attributes['attribute']) => ({ attribute }) as Attributes;

describe('a sequence', () => {
  it('is the thought, and behind it each reference that earns something, as if it came next', () => {
    const weights = posteriors(LOGPROBS, TRACE.continuations);
    expect(Array.from(weights, (weight) => Number(weight.toFixed(5)))).toEqual([0.5, 0.5, 0]);
    const { ids, pos, number, rows, targets, ...counted } = sequenceOf(TRACE, weights, false);
    expect([...ids]).toEqual([1, 2, 3, 4, 5, 6, 20, 21, 30]);
    expect([...pos]).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 6]);
    expect([...number]).toEqual([-1, -1, -1, -1, -1, -1, 0, 0, 1]);
    // 21 after 20, 22 after 21; 30 after the thought's last token, 31 after 30
    expect([...rows]).toEqual([6, 7, 5, 8]);
    expect([...targets]).toEqual([21, 22, 30, 31]);
    for (const weight of counted.weights) expect(weight).toBeCloseTo(0.5, 5);
    for (const weight of sequenceOf(TRACE, weights, true).weights) expect(weight).toBeCloseTo(0.25, 5);
  });

  it("gives each segment its tokens' sum, without the prompt, what precedes the thought, and the references", () => {
    const tokens = Float32Array.of(100, 100, 100, 1, 2, 4, 100, 100, 100);
    expect([...overSegments(tokens, TRACE)]).toEqual([1, 6]);
  });
});

describe('attributions of a sequence', () => {
  const tokens = Float32Array.of(0.1, 0.1, 0.1, 0.04, 0.04, 0.05, 0, 0, 0);

  it('attention is a sum, the gradient a norm', async () => {
    const session = sessionOf(async () => tokens);
    const of = (estimator: 'attention' | 'gradient') =>
      attributionsOf(session, TRACE, LOGPROBS, { estimator });
    const [attention, gradient] = [await of('attention'), await of('gradient')];
    expect([...attention]).toEqual([expect.closeTo(0.04, 6), expect.closeTo(0.09, 6)]);
    expect([...gradient]).toEqual([expect.closeTo(0.2, 6), expect.closeTo(0.3, 6)]);
  });

  it('nothing is asked, and nothing counts, where no reference earns anything', async () => {
    const asked = sessionOf(() => Promise.reject(new Error('asked')));
    const continuations = TRACE.continuations.slice(2);
    for (const estimator of ['attention', 'gradient'] as const)
      expect([
        ...(await attributionsOf(asked, { ...TRACE, continuations }, LOGPROBS.slice(2), { estimator })),
      ]).toEqual([0, 0]);
  });

  it('numbers that cannot be are told, and a trace that memory does not hold is turned down', async () => {
    for (const broken of [Number.NaN, -0.1, Number.POSITIVE_INFINITY]) {
      const session = sessionOf(async () => Float32Array.of(0, 0, broken));
      await expect(attributionsOf(session, TRACE, LOGPROBS, { estimator: 'gradient' })).rejects.toMatchObject(
        { name: 'ImpossibleNumberError', message: expect.stringContaining('at token 2') },
      );
    }
    const full = sessionOf(() => Promise.reject(new OutOfMemoryError('full')));
    await expect(attributionsOf(full, TRACE, LOGPROBS, { estimator: 'attention' })).rejects.toMatchObject({
      code: 'out_of_memory',
      message: expect.stringContaining('9 × 9 numbers a head'),
    });
  });
});
