/** How traces' branches become groups of rows: index arithmetic only, every property over several traces at once. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { packBranches } from '../../../dist/model/onnx/pack.js';
import type { Branch } from '../../../dist/model/onnx/placed.js';

const anyBranch = fc
  .record({
    exit: fc.integer({ min: 0, max: 50 }),
    ids: fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 2, maxLength: 90 }),
    from: fc.nat(),
    also: fc.option(fc.nat(300)),
  })
  .map(({ exit, ids, from, also }): Branch => {
    const scoredFrom = 1 + (from % (ids.length - 1));
    return { exit, ids: Int32Array.from(ids), scoredFrom, ...(also !== null && { also }) };
  });
/** (B) branches of each trace, of which some have none; at least one in all */
const anyTraces = fc
  .array(fc.array(anyBranch, { maxLength: 12 }), { minLength: 1, maxLength: 6 })
  .filter((traces) => traces.some((branches) => branches.length > 0));

/** Where groups cut their keys. */
type Cuts = Record<'prefix_from' | 'prefix_to' | 'suffix_from' | 'suffix_to', readonly number[]>;

/** The trace that each branch belongs to, branches numbered through all traces. */
const owners = (traces: readonly (readonly Branch[])[]) =>
  traces.flatMap((branches, b) => branches.map(() => b));

describe('packBranches', () => {
  test('a gap leaves places free before a token of the branch', () => {
    const branch = { exit: 4, ids: Int32Array.of(7, 8, 9), scoredFrom: 1, gap: { before: 1, tokens: 5 } };
    const { pos, exit } = packBranches([[branch]]);
    expect([...pos.subarray(0, 3)]).toEqual([4n, 10n, 11n]);
    expect([...exit.subarray(0, 3)]).toEqual([4n, 4n, 4n]);
  });

  test("every branch lies whole in its trace's part of one group, in consecutive rows, its positions from its exit on", () => {
    fc.assert(
      fc.property(anyTraces, (traces) => {
        const { groups, lanes: W, rowsPerGroup: R, ids, pos, exit, number, places } = packBranches(traces);
        for (const array of [ids, pos, exit, number]) expect(array).toHaveLength(groups * W * R);
        const owner = owners(traces);
        for (const [i, { exit: e, ids: suffix }] of traces.flat().entries()) {
          const first = number.indexOf(BigInt(i));
          const last = first + suffix.length - 1;
          expect(first).toBeGreaterThanOrEqual(0);
          expect(number.lastIndexOf(BigInt(i))).toBe(last);
          const part = Math.floor(first / R);
          expect(Math.floor(last / R)).toBe(part);
          // the group's first trace, and how many behind it this one stands
          expect((places.prefix_from?.[2 * Math.floor(part / W)] as number) + (part % W)).toBe(owner[i]);
          for (const [j, id] of suffix.entries()) {
            expect(ids[first + j]).toBe(BigInt(id));
            expect(pos[first + j]).toBe(BigInt(e + j));
            expect(exit[first + j]).toBe(BigInt(e));
            expect(number[first + j]).toBe(BigInt(i));
          }
        }
      }),
    );
  });

  test('every scored token is read out once, in the order given, from the row of the token before it', () => {
    fc.assert(
      fc.property(anyTraces, (traces) => {
        const { ids, number, pos, rows, targets } = packBranches(traces);
        const expected = traces.flat().flatMap(({ exit, ids: suffix, scoredFrom, also }, i) => [
          ...Array.from(suffix.subarray(scoredFrom), (target, j) => [i, exit + scoredFrom + j - 1, target]),
          // in the place of the last one
          ...(also === undefined ? [] : [[i, exit + suffix.length - 2, also]]),
        ]);
        const found = Array.from(rows, (row, n) => [Number(number[row]), Number(pos[row]), targets[n]]);
        expect(found).toEqual(expected);
        // inside a branch the target of a row is the token in the next row, the first time that it is read out
        const first = [...rows.entries()].filter(([n, row]) => rows.indexOf(row) === n);
        const others = traces.flat().filter(({ also }) => also !== undefined);
        expect(first.length).toBe(rows.length - others.length);
        for (const [n, row] of first) expect(ids[row + 1]).toBe(BigInt(targets[n] as number));
      }),
    );
  });

  test("a group has as many keys as its farthest exit sees, and exits rise along a trace's parts", () => {
    fc.assert(
      fc.property(anyTraces, (traces) => {
        const { groups, lanes: W, rowsPerGroup: R, exit, number, places } = packBranches(traces);
        const { prefix_from: from, prefix_to: to } = places as Cuts;
        const least = traces.map(() => 0);
        for (let g = 0; g < groups; g++) {
          const farthest = Array.from({ length: W }, (_, w) => {
            const exits = Array.from({ length: R }, (_, r) => (g * W + w) * R + r)
              .filter((row) => number[row] !== -1n)
              .map((row) => Number(exit[row]));
            const b = (from[2 * g] as number) + w;
            if (exits.length > 0) expect(Math.min(...exits)).toBeGreaterThanOrEqual(least[b] as number);
            least[b] = Math.max(least[b] as number, ...exits);
            return Math.max(0, ...exits);
          });
          expect(to[2 * g + 1]).toBe(Math.max(...farthest));
        }
      }),
    );
  });

  test('behind a prompt: a suffix in pieces as long as a group, each of which sees the prompt and the pieces before it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.array(anyBranch, { maxLength: 4 }), fc.integer({ min: 1, max: 300 })), {
          minLength: 1,
          maxLength: 4,
        }),
        fc.integer({ min: 1, max: 40 }),
        (grown, prompt) => {
          const branches = grown.map(([own]) => own);
          const suffixes = grown.map(([, length], n) => Int32Array.from({ length }, (_, t) => 1000 * n + t));
          const places = grown.map((_, number) => ({ prefix: 7, suffix: { number, from: prompt } }));
          const packed = packBranches(branches, places, suffixes);
          const { rowsPerGroup: R, ids, pos, exit, number } = packed;
          const { suffixRows } = packed;
          const { prefix_from: from, prefix_to: to, ...behind } = packed.places as Cuts;
          for (const [n, rows] of suffixRows.entries()) {
            expect(Array.from(rows, (row) => Number(ids[row]))).toEqual([...(suffixes[n] as Int32Array)]);
            for (const [t, row] of rows.entries()) {
              expect([pos[row], exit[row]]).toEqual([BigInt(prompt + t), BigInt(prompt + t - (t % R))]);
              // alone in its piece
              expect(number.indexOf(number[row] as bigint)).toBe(rows[t - (t % R)]);
              expect(behind.suffix_from[2 * Math.floor(row / R)]).toBe(n);
            }
          }
          for (let g = 0; g < packed.groups; g++) {
            expect([from[2 * g], to[2 * g]]).toEqual([7, 8]);
            const keys = Math.max(...[...exit.subarray(g * R, (g + 1) * R)].map(Number));
            expect(to[2 * g + 1]).toBe(Math.min(keys, prompt));
            expect(behind.suffix_to[2 * g + 1]).toBe(Math.max(0, keys - prompt));
          }
          expect(suffixRows).toHaveLength(suffixes.length);
        },
      ),
      { numRuns: 25 }, // each compares token by token
    );
  });

  const anyGrown = fc.array(
    fc.tuple(fc.array(anyBranch, { maxLength: 6 }), fc.integer({ min: 0, max: 120 })),
    { minLength: 1, maxLength: 5 },
  );
  test('of a GPU every lane is of one trace, on its own prefix and suffix, and no group has more scores than there is room for', () => {
    fc.assert(
      fc.property(anyGrown, fc.integer({ min: 1, max: 40_000 }), fc.boolean(), (grown, scores, isShared) => {
        const branches = grown.map(([own]) => own);
        // some stand on a prompt of 9 that they share
        const suffixes = grown.map(([, length]) => new Int32Array(length)).filter(() => isShared);
        const places = grown.map((_, n) =>
          isShared ? { prefix: 3, suffix: { number: n, from: 9 } } : { prefix: n },
        );
        const gpu = { keys: 60, scores };
        const lanes = packBranches(branches, places, suffixes, gpu);
        const cut = packBranches(branches, places, suffixes);
        expect([...lanes.targets]).toEqual([...cut.targets]);
        for (const part of ['ids', 'pos', 'exit', 'number'] as const)
          expect(Array.from(lanes.rows, (row) => lanes[part][row])).toEqual(
            Array.from(cut.rows, (row) => cut[part][row]),
          );
        const { groups: G, lanes: W, rowsPerGroup: R } = lanes;
        const owner = owners(branches);
        const { lane_prefix, lane_suffix, lane_from } = lanes.places;
        for (const [n, rows] of lanes.suffixRows.entries())
          for (const [t, row] of rows.entries())
            expect([lane_suffix?.[Math.floor(row / R)], lanes.pos[row]]).toEqual([n, BigInt(9 + t)]);
        for (const [row, number] of lanes.number.entries()) {
          const [lane, b] = [Math.floor(row / R), owner[Number(number)]];
          if (number === -1n || b === undefined) continue;
          const place = isShared ? [3, b, 9] : [b, 0, 60];
          expect([lane_prefix?.[lane], lane_suffix?.[lane], lane_from?.[lane]]).toEqual(place);
        }
        const longest = Math.max(1, ...branches.flat().map(({ ids }) => ids.length));
        expect(R === longest || R * (60 + R) <= scores).toBe(true);
        expect(W === 1 || W * R * (60 + R) <= scores).toBe(true);
        expect(lanes.ids).toHaveLength(G * W * R);
      }),
    );
    const row = { exit: 1, ids: new Int32Array(16), scoredFrom: 1 };
    const of = (scores: number, ...counts: number[]) =>
      packBranches(
        counts.map((count) => new Array(count).fill(row)),
        undefined,
        undefined,
        { keys: 4000, scores },
      );
    expect(of(2 ** 28, 40)).toMatchObject({ groups: 1, lanes: 1, rowsPerGroup: 640 });
    expect(of(2 ** 28, 40, 40, 40)).toMatchObject({ groups: 1, lanes: 3, rowsPerGroup: 640 });
    // one long trace beside short ones stands in several lanes: 40 branches as 8 of 5 beside 7 of 5
    expect(of(2 ** 28, 40, ...new Array(7).fill(5))).toMatchObject({
      groups: 1,
      lanes: 15,
      rowsPerGroup: 80,
    });
    expect(of(640 * 4640 - 1, 40)).toMatchObject({ groups: 1, lanes: 2, rowsPerGroup: 320 });
    expect(of(320 * 4320, 40)).toMatchObject({ groups: 2, lanes: 1, rowsPerGroup: 320 });
    expect(of(640 * 4640, 40, 40, 40)).toMatchObject({ groups: 3, lanes: 1, rowsPerGroup: 640 });
  });

  test('rows of a trace are divided so that few are padding, and short traces stand lanes', () => {
    const branchOf = (length: number) => ({ exit: 1, ids: new Int32Array(length), scoredFrom: 1 });
    const of = (...traces: number[][]) => packBranches(traces.map((lengths) => lengths.map(branchOf)));
    expect(of([2, 3])).toMatchObject({ groups: 1, lanes: 1, rowsPerGroup: 5 });
    expect(of([32, 32])).toMatchObject({ groups: 1, rowsPerGroup: 64 });
    // 7 branches of 12 rows: 2 groups of 48 in place of 2 of 64, of which one is nearly empty
    expect(of(new Array(7).fill(12))).toMatchObject({ groups: 2, rowsPerGroup: 48 });
    // one branch needs more than 64
    expect(of([100, 2])).toMatchObject({ groups: 2, rowsPerGroup: 100 });
    expect(of([2, 3], [2, 2, 2])).toMatchObject({ groups: 1, lanes: 2, rowsPerGroup: 6 });
    // of 7 traces of one branch 4 stand lanes, the last ones beside one that is done; of 5 it would pad too much
    const last = of(...new Array(7).fill([64]));
    expect(last).toMatchObject({ groups: 2, lanes: 4, rowsPerGroup: 64 });
    expect(last.places.prefix_from).toEqual([0, 0, 3, 0]);
    expect(last.number.subarray(256, 320).every((i) => i === -1n)).toBe(true);
    expect(of(...new Array(5).fill([64]))).toMatchObject({ groups: 5, lanes: 1, rowsPerGroup: 64 });
  });

  test.each([1, 3])('without a branch there is one idle group of one row, of the first of %i traces', (B) => {
    const packed = packBranches(Array.from({ length: B }, () => []));
    expect(packed).toEqual({
      groups: 1,
      lanes: 1,
      rowsPerGroup: 1,
      ids: BigInt64Array.of(0n),
      pos: BigInt64Array.of(0n),
      exit: BigInt64Array.of(0n),
      number: BigInt64Array.of(-1n),
      places: { prefix_from: [0, 0], prefix_to: [1, 0], suffix_from: [0, 0], suffix_to: [1, 0] },
      suffixRows: [],
      branches: Array.from({ length: B }, () => []),
      rows: [],
      targets: [],
    });
  });

  test('a branch that scores nothing, or its first token, is refused', () => {
    for (const scoredFrom of [0, 3, 4, -1])
      expect(() => packBranches([[], [{ exit: 1, ids: new Int32Array(3), scoredFrom }]])).toThrow(RangeError);
  });
});
