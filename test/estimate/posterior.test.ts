/** A hint in a prompt; values by how it, or another policy, changes what is said of the tokens so far: against a language model small enough to sum. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { redistribute } from '../../dist/credit/sigma.js';
import { TraceRejected } from '../../dist/errors.js';
import { withHint } from '../../dist/estimate/hint.js';
import { posteriorValues } from '../../dist/estimate/posterior.js';
import { ratioValues } from '../../dist/estimate/ratio.js';
import { randomToy, seeded, toyLogprobs } from '../oracle/toy.js';
import { named } from '../support/estimators.js';

const nats = fc.float32Array({ minLength: 8, maxLength: 8, min: -20, max: 0, noNaN: true });

describe.each([1, 2, 3, 4])('toy %i', (seed) => {
  const [plain, told] = [randomToy(seeded(seed)), randomToy(seeded(seed + 100))];

  it.each(['abca|1', 'cab|2', 'b|0', '|1'])(
    'of %s is p(o | hint) / (p(o | hint) + p(o)) at each state',
    (o) => {
      const [own, hinted] = [plain, told].map((model) => Float32Array.from(toyLogprobs(model, '', o)));
      const exits = Int32Array.from({ length: o.length + 1 }, (_, t) => t);
      const values = posteriorValues(own as Float32Array, hinted as Float32Array, exits);
      for (const t of exits) {
        const product = (model: typeof plain) =>
          [...o.slice(0, t)].reduce(
            (p, symbol, i) => p * (model.next(o.slice(0, i)).get(symbol) as number),
            1,
          );
        const [p, q] = [product(plain), product(told)];
        expect(Math.abs((values[t] as number) - q / (q + p))).toBeLessThan(1e-6);
      }
    },
  );
});

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

  it('turns a trace down whose prompt has no such place', () => {
    expect(() => withHint(ids(1, 2), ids(9), ids(2, 1), 'end')).toThrow(TraceRejected);
    expect(() => withHint(ids(1), ids(9), ids(2, 1), 'end')).toThrow('no tokens of "end"');
  });
});

describe.each([1, 2, 3, 4])('toy %i', (seed) => {
  const [policy, older] = [randomToy(seeded(seed)), randomToy(seeded(seed + 100))];

  it.each(['abca|1', 'cab|2', 'b|0'])('of %s comes to log π(o) / π_ref(o)', (o) => {
    const [own, ref] = [policy, older].map((model) => Float32Array.from(toyLogprobs(model, '', o)));
    const ends = Int32Array.from({ length: o.length }, (_, t) => t + 1);
    const values = ratioValues(own as Float32Array, ref as Float32Array, ends);
    const probability = (model: typeof policy) =>
      [...o].reduce((p, symbol, t) => p * (model.next(o.slice(0, t)).get(symbol) as number), 1);
    expect(values.at(-1)).toBeCloseTo(Math.log(probability(policy) / probability(older)), 5);
    expect(values).toHaveLength(o.length + 1);
    expect(values[0]).toBe(0);
  });
});

describe('ratioValues', () => {
  it('is 0 of one policy and itself, changes its sign where the two are exchanged, and does not depend on the cuts', () => {
    fc.assert(
      fc.property(nats, nats, fc.integer({ min: 1, max: 7 }), (a, b, cut) => {
        const ends = Int32Array.of(cut, 8);
        expect([...ratioValues(a, a, ends)]).toEqual([0, 0, 0]);
        const [there, back] = [ratioValues(a, b, ends), ratioValues(b, a, ends)];
        for (const [k, value] of there.entries()) expect(value + (back[k] as number)).toBeCloseTo(0, 10);
        expect(there[2]).toBeCloseTo(ratioValues(a, b, Int32Array.of(8))[1] as number, 4);
        // what stands behind a cut does not count before it
        const other = b.map((lp, t) => (t < cut ? lp : -7));
        expect(ratioValues(a, other, ends)[1]).toBe(there[1]);
      }),
    );
  });
});
