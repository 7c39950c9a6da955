// The log-ratio of two policies: against probabilities of a toy language model, and by what has to hold of any two.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ratioValues } from '../../../dist/estimate/value.js';
import { randomToy, seeded, toyLogprobs } from '../../oracle/toy.js';

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
  const nats = fc.float32Array({ minLength: 8, maxLength: 8, min: -20, max: 0, noNaN: true });
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
