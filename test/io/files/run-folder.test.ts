// Rows find their parts and windows, and the size of a part follows from the number of rows alone.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { defaultRowsPerPart, partCount, partOfRow, windowOf } from '../../../dist/io/files/run-folder.js';

const range = (length: number) => Array.from({ length }, (_, n) => n);

describe('parts', () => {
  const cut = fc.record({
    rows: fc.integer({ min: 1, max: 3000 }),
    rowsPerPart: fc.integer({ min: 1, max: 200 }),
  });

  it('hold rows that follow each other; no window spans two', () => {
    fc.assert(
      fc.property(cut, ({ rows, rowsPerPart }) => {
        const parts = range(rows).map((row) => partOfRow(row, rowsPerPart));
        expect(parts).toEqual(range(rows).map((row) => Math.floor(row / rowsPerPart)));
        expect(partCount(rows, rowsPerPart)).toBe((parts.at(-1) as number) + 1);
        const windows = new Map<number, number[]>();
        for (const row of range(rows)) {
          const window = windowOf(row, rowsPerPart);
          windows.set(window, [...(windows.get(window) ?? []), row]);
        }
        expect([...windows.keys()]).toEqual([...windows.keys()].sort((a, b) => a - b));
        for (const members of windows.values()) {
          expect(members.length).toBeLessThanOrEqual(64);
          expect(new Set(members.map((row) => partOfRow(row, rowsPerPart))).size).toBe(1);
        }
      }),
    );
  });

  it('of a run without rows are one', () => {
    expect(partCount(0, 64)).toBe(1);
  });
});

describe('rows a part', () => {
  it('are whole windows, and leave work for two processes from 128 rows on', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1.6e7 }), fc.boolean(), (rows, hasPolicy) => {
        const size = defaultRowsPerPart(rows, hasPolicy, undefined);
        expect(defaultRowsPerPart(rows, hasPolicy, 2048)).toBe(size);
        expect(defaultRowsPerPart(rows, false, 1e6)).toBe(defaultRowsPerPart(rows, false, undefined));
        expect(size % 64).toBe(0);
        expect(size).toBeGreaterThanOrEqual(64);
        expect(size).toBeLessThanOrEqual(hasPolicy ? 512 : 16_384);
        if (rows >= 128) expect(partCount(rows, size)).toBeGreaterThanOrEqual(2);
      }),
    );
  });

  it.each([
    [0, 64, 64],
    [128, 64, 64],
    [512, 64, 64],
    [2048, 64, 256],
    [2049, 128, 320],
    [16_384, 512, 2048],
    [1e7, 512, 16_384],
  ])('of %s rows: %i with a policy, %i without', (rows, withPolicy, without) => {
    expect(defaultRowsPerPart(rows, true, undefined)).toBe(withPolicy);
    expect(defaultRowsPerPart(rows, false, undefined)).toBe(without);
  });

  it.each([
    // ten traces of 10,000 tokens of one byte each, and of four
    [10, 10_100, 2],
    [10, 40_100, 1],
    [1000, 4096, 32],
    [1000, 40_000, 1],
    [100_000, 40_000, 4],
    [1e8, 40_000, 3052],
  ])('of %i rows of %i bytes, with a policy: %i', (rows, rowBytes, expected) => {
    expect(defaultRowsPerPart(rows, true, rowBytes)).toBe(expected);
  });

  it('of long rows are never more than of short ones, and no more parts than a reader likes', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e7 }), fc.integer({ min: 1, max: 1e9 }), (rows, rowBytes) => {
        const size = defaultRowsPerPart(rows, true, rowBytes);
        expect(size).toBeGreaterThanOrEqual(1);
        expect(size).toBeLessThanOrEqual(defaultRowsPerPart(rows, true, undefined));
        expect(partCount(rows, size)).toBeLessThanOrEqual(32_768);
      }),
    );
  });
});
