// From row to row of a file, to the mates nearby, and the keys that ask for it.
import { describe, expect, it } from 'vitest';
import { keysOf, statusLine } from '../../dist/commands/pager.js';
import type { ReadRows } from '../../dist/io/read/peek.js';
import { rejectRow } from '../../dist/rows.js';
import { matesOf, NEAR, Neighbours, rowAfter, rowAt, rowBefore } from '../../dist/scored/pick.js';
import { inputRow } from '../support/io-helpers.js';

/** Rows 0 to 1999, groups of four, every tenth not readable. */
const rows = Array.from({ length: 2000 }, (_, n) => {
  const row = inputRow({ id: `t${n}`, group: `g${Math.floor(n / 4)}`, reward: n % 2 }, n);
  return n % 10 === 9 ? rejectRow(row, { code: 'json', reason: '' }) : row;
});
let parsed = 0;
const read: ReadRows = async function* (opts) {
  for (const row of rows)
    if (opts.wanted?.(row.ordinal) ?? true) {
      parsed++;
      yield row;
    }
};
const any = () => true;

describe('rows', () => {
  it('are found by their place, before and behind another, past what cannot be read', async () => {
    expect((await rowAt(7, read))?.row).toBe(7);
    expect(await rowAt(9, read)).toBe(undefined);
    expect((await rowAfter(8, read, any))?.row).toBe(10);
    expect((await rowBefore(10, read, any))?.row).toBe(8);
    expect([await rowBefore(0, read, any), await rowAfter(1999, read, any)]).toEqual([undefined, undefined]);
    expect((await rowBefore(1500, read, ({ row }) => row <= 3))?.row).toBe(3);
  });

  it('have the others of their group as mates, and no more of the file is parsed than what is near', async () => {
    const row = await rowAt(1000, read);
    parsed = 0;
    const mates = await matesOf(row as Exclude<typeof row, undefined>, read);
    expect(mates.map(({ id, reward }) => [id, reward])).toEqual([
      ['t1001', 1],
      ['t1002', 0],
      ['t1003', 1],
    ]);
    expect(parsed).toBeLessThanOrEqual(2 * NEAR + 1);
    const own = await matesOf(row as Exclude<typeof row, undefined>, read, true);
    expect(own[0]?.ordinal).toBe(1000);
    expect(await matesOf(inputRow({ id: 'x' }), read)).toEqual([]);
  });
});

it('mates of several rows are those of each, in one reading of what is near', async () => {
  const asked = [3, 702, 1998];
  const neighbours = new Neighbours(asked);
  parsed = 0;
  for await (const row of read({ wanted: neighbours.isNear })) if (row.kind === 'row') neighbours.add(row);
  // 0 to 1214, and 1486 to 1999
  expect(parsed).toBe(1215 + 514);
  for (const ordinal of asked) {
    const row = (await rowAt(ordinal, read)) as Exclude<Awaited<ReturnType<typeof rowAt>>, undefined>;
    expect(neighbours.matesOf(ordinal)).toEqual(await matesOf(row, read));
  }
  expect(neighbours.matesOf(4)).toEqual([]);
});

describe('the last line', () => {
  const of = (width: number) => statusLine('row 12', ' · lines 1 to 49 of 210', width);

  it('says how to leave at every width, and as much else as there is room for', () => {
    for (let width = 20; width < 200; width++) {
      expect(of(width), `${width}`).toContain('q quit');
      expect(of(width).length).toBeLessThanOrEqual(width);
    }
    expect(of(120)).toContain('↑↓ space scroll');
    expect(of(79)).toBe('row 12 · lines 1 to 49 of 210 · n next · p prev · m mate · a all · q quit');
    expect(of(59)).toBe('row 12 · lines 1 to 49 of 210 · n p m a · q quit');
    expect(of(20)).toBe('n p m a · q quit · …');
  });
});

it('keys of one chunk are told apart', () => {
  expect(keysOf('n\u001b[A\u001b[6~q')).toEqual(['n', '\u001b[A', '\u001b[6~', 'q']);
});
