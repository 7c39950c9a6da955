// Which state of a peer corresponds to which of a trace: the best alignment of their pieces' tokens.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { align, pieceBags } from '../../dist/estimate/alignment.js';
import { oracleBest, oracleDice } from '../oracle/siblings.js';

type Pieces = readonly (readonly number[])[];

function bags(pieces: Pieces) {
  let end = 0;
  return pieceBags(
    Int32Array.from(pieces.flat()),
    0,
    Int32Array.from(pieces, (piece) => (end += piece.length)),
  );
}
const aligned = (a: Pieces, b: Pieces) => align(bags(a), bags(b));

/** Three tokens that no other peer has. */
const piece = (n: number) => [n, n + 10, n + 20] as const;
const thought = fc.array(fc.array(fc.nat(6), { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 5 });

describe('alignment', () => {
  it('has the largest sum of similarities that any alignment in order has', () => {
    fc.assert(
      fc.property(thought, thought, (a, b) => {
        const similar = a.map((x) => b.map((y) => oracleDice(x, y, [...a, ...b])));
        const { similarity } = aligned(a, b);
        expect(similarity).toBeCloseTo((2 * oracleBest(similar)) / (a.length + b.length), 10);
      }),
      { numRuns: 300 },
    );
  });

  it('leads to states that never fall, from s_0 at s_0 to the end at the end; of a thought beside itself, to its own', () => {
    fc.assert(
      fc.property(thought, thought, (a, b) => {
        const { states } = aligned(a, b);
        expect(states).toHaveLength(a.length + 1);
        expect(states[0]).toBe(0);
        expect(states.at(-1)).toBe(b.length);
        for (let k = 1; k < states.length; k++)
          expect(states[k]).toBeGreaterThanOrEqual(states[k - 1] as number);
      }),
    );
    const distinct = [[1, 2], [3, 4, 5], [6], [7, 8]];
    expect([...aligned(distinct, distinct).states]).toEqual([0, 1, 2, 3, 4]);
    expect(aligned(distinct, distinct).similarity).toBeCloseTo(1, 12);
  });

  it('finds the same steps in a peer that has others between them, or lacks some', () => {
    const [a, b, c, d] = [piece(1), piece(2), piece(3), piece(4)];
    const aside = [90, 91, 92];
    // the state after b, though the peer went aside before c: its last one before c
    expect([...aligned([a, b, c, d], [a, b, aside, c, d]).states]).toEqual([0, 1, 3, 4, 5]);
    expect([...aligned([a, b, aside, c, d], [a, b, c, d]).states]).toEqual([0, 1, 2, 2, 3, 4]);
    expect([...aligned([a, b, c, d], [a, c, d]).states]).toEqual([0, 1, 1, 2, 3]);
  });

  it('of alignments that are equally good takes the one whose pieces lie latest', () => {
    const [a, b] = [piece(1), piece(2)];
    // the last of two that are the same
    expect([...aligned([a, b], [a, b, b]).states]).toEqual([0, 2, 3]);
    expect([...aligned([a, b, b], [a, b]).states]).toEqual([0, 1, 1, 2]);
    // what has nothing in common goes side by side, from the end
    expect([...aligned([a, a], [b, b]).states]).toEqual([0, 1, 2]);
    expect([...aligned([a, a, a], [b, b]).states]).toEqual([0, 0, 1, 2]);
  });
});
