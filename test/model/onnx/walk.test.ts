/** The order of rows through a delta net: each token once, and each branch behind the tokens of its trace up to its exit. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { PrefixPlace } from '../../../dist/model/onnx/placed.js';
import { placesIn, walkOf } from '../../../dist/model/onnx/walk.js';

const anyRun = fc.array(
  fc.record({
    length: fc.integer({ min: 1, max: 12 }),
    /** of traces on one prefix the suffixes, cut into pieces; none: the trace is the prefix */
    suffixes: fc.array(fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 3 }), { maxLength: 3 }),
    exits: fc.array(
      fc.record({ share: fc.double({ min: 0, max: 1, noNaN: true }), ids: fc.integer({ min: 1, max: 4 }) }),
      {
        maxLength: 6,
      },
    ),
  }),
  { minLength: 1, maxLength: 4 },
);

test.each([0, 7])('with %i rows of an earlier run', (before) => {
  fc.assert(
    fc.property(anyRun, (prefixesOf) => {
      let row = before;
      const rowsOf = (length: number) => Int32Array.from({ length }, () => row++);
      const prefixes = prefixesOf.map(({ length }) => rowsOf(length));
      const [suffixes, places, traces]: [Int32Array[], PrefixPlace[], Int32Array[]] = [[], [], []];
      const shares: (typeof prefixesOf)[number]['exits'][] = [];
      for (const [prefix, { length, suffixes: own, exits }] of prefixesOf.entries())
        for (const pieces of own.length > 0 ? own : [undefined]) {
          // padding between the pieces
          const parts = pieces?.map((n) => rowsOf(n + 1).subarray(0, n)) ?? [];
          const suffix = Int32Array.from(parts.flatMap((part) => [...part]));
          places.push({
            prefix,
            ...(pieces && { suffix: { number: suffixes.push(suffix) - 1, from: length } }),
          });
          traces.push(Int32Array.of(...(prefixes[prefix] as Int32Array), ...suffix));
          shares.push(exits);
        }
      const branches = traces.map((trace, t) =>
        (shares[t] as (typeof prefixesOf)[number]['exits']).map(({ share, ids }) => {
          const exit = Math.round(share * trace.length);
          return { exit, ids: new Int32Array(ids), first: rowsOf(ids)[0] as number };
        }),
      );
      const walk = walkOf(prefixes, suffixes, branches, places);
      const states: number[][] = [[], [], [], []];
      const behind = new Map<number, readonly number[]>(); // a branch's first row → what came before it
      const outputs: number[] = [];
      for (const [first, end, from, to] of walk) {
        expect(end).toBeGreaterThan(first);
        expect(to).toBeGreaterThan(0);
        behind.set(first, states[from] as number[]);
        const own = Array.from({ length: end - first }, (_, i) => first + i);
        states[to] = [...(states[from] as number[]), ...own];
        outputs.push(...own);
      }
      for (const [t, trace] of traces.entries()) {
        for (const { exit, first } of branches[t] ?? [])
          expect(behind.get(first)).toEqual([...trace.subarray(0, exit)]);
        expect(outputs).toEqual(expect.arrayContaining([...trace]));
      }
      expect(new Set(outputs).size).toBe(outputs.length);
      const found = placesIn(walk, before, row - before);
      for (let r = before; r < row; r++) expect(Number(found[r - before])).toBe(outputs.indexOf(r) + 1);
    }),
    { numRuns: 300 },
  );
});
