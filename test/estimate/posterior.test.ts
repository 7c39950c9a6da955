/** A hint in a prompt, and values by how it changes what is said of the tokens so far. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { redistribute } from '../../dist/credit/sigma.js';
import type { Peer } from '../../dist/estimate/peers.js';
import { posteriorValues, wrongAnswer } from '../../dist/estimate/posterior.js';
import { withHint } from '../../dist/estimate/second-policy.js';
import { named } from '../support/estimators.js';

const nats = fc.float32Array({ minLength: 8, maxLength: 8, min: -20, max: 0, noNaN: true });

describe('posteriorValues', () => {
  it('begins at ½, stays there where the hint tells nothing, and turns round when the two are exchanged', () => {
    fc.assert(
      fc.property(nats, nats, (a, b) => {
        const exits = Int32Array.of(0, 3, 5, 8);
        expect([...posteriorValues(a, a, exits)]).toEqual([0.5, 0.5, 0.5, 0.5]);
        // a tag that the policy wrote stands before s_0, and counts for nothing
        const behind = posteriorValues(a, b, Int32Array.of(2, 5, 8));
        const alone = posteriorValues(a.subarray(2), b.subarray(2), Int32Array.of(0, 3, 6));
        expect([...behind]).toEqual([...alone]);
        expect(behind[0]).toBe(0.5);
        const [there, back] = [posteriorValues(a, b, exits), posteriorValues(b, a, exits)];
        for (const [k, value] of there.entries()) expect(value + (back[k] as number)).toBeCloseTo(1, 6);
      }),
    );
  });

  it('is a magnitude: σ of a wrong trace blames the segment that the hint changes most, whichever way', () => {
    const input = {
      ...{ ends: Int32Array.of(1, 2, 3), answered: true, values: Float32Array.of(0.5, 0.45, 0.95) },
      ...{ estimator: named('posterior'), entropies: new Float32Array(3), logprobs: new Float32Array(3) },
      ...{ baseline: 0.5 },
    };
    const opts = { rule: 'share', residual: 'uniform', within: 'uniform' } as const;
    const [right, wrong] = [1, 0].map((reward) => redistribute({ ...input, reward }, opts).sigma);
    expect(right).toEqual(wrong);
    expect(right?.[1]).toBeGreaterThan(0.8);
    // what is stored is the difference as it is
    expect(redistribute({ ...input, reward: 1 }, opts).deltas[0]).toBeCloseTo(-0.05, 6);
  });
});

describe('withHint', () => {
  const ids = (...list: number[]) => Int32Array.from(list);
  it('goes to the end of the prompt, or before the last place of a text', () => {
    expect([...withHint(ids(1, 2), ids(9), ids(), '')]).toEqual([1, 2, 9]);
    expect([...withHint(ids(5, 6, 1, 5, 6, 2), ids(9, 8), ids(5, 6), 'x')]).toEqual([5, 6, 1, 9, 8, 5, 6, 2]);
  });
});

describe('wrongAnswer', () => {
  const marks = { close: '</think>\n', open: 'answer: ', closer: '\n' };
  const peer = (answer: string, draws: number, reward = 0) =>
    ({ answer, draws, reward: { reward } }) as unknown as Peer;
  const textOf = (each: Peer) =>
    `<think>\nso\n</think>\nanswer: ${(each as unknown as { answer: string }).answer}\n`;
  const found = (peers: Peer[], right: string, ...others: string[]) => {
    const references = [right, ...others].map((answer) => ({ answer, utility: 1 }));
    return wrongAnswer({ peers, references }, right, textOf, marks);
  };

  it('is what most wrong completions of the group answered, of equals the first by its text', () => {
    expect(found([peer('4', 1), peer('5', 1), peer('4', 1), peer('8', 9, 1)], '8')).toBe('4');
    expect(found([peer('4', 1), peer('5', 2)], '8')).toBe('5');
    for (const peers of [
      [peer('4', 1), peer('5', 1)],
      [peer('5', 1), peer('4', 1)],
    ])
      expect(found(peers, '8')).toBe('4');
    expect(found([peer('**4**', 1), peer('4.', 1), peer('5', 1)], '8')).toBe('4');
  });

  it('is no answer that is a reference, however it was marked', () => {
    expect(found([peer('8.0', 3), peer('16/2', 3), peer('3', 1)], '8')).toBe('3');
    expect(found([peer('seven', 3), peer('4', 1)], '8', 'seven')).toBe('4');
    // nor one that may be
    expect(found([peer('8 apples', 3), peer('4', 1)], '8')).toBe('4');
  });

  it('is the reference with another last digit, or another letter, where nobody was wrong; none where it is neither, or that is a reference too', () => {
    expect(found([], '12')).toBe('13');
    expect(found([peer('12', 4, 1)], '\\\\frac{1}{9}')).toBe('\\\\frac{1}{0}');
    for (const [right, wrong] of ['AB', 'BA', 'ab', 'zy']) expect(found([], right as string)).toBe(wrong);
    expect(found([], '(C)')).toBe('(B)');
    expect(found([], 'x + y')).toBe(undefined);
    expect(found([], '12', '13')).toBe(undefined);
  });
});
