// Rows find their chunks and windows, chunks their shards, and their size follows from the number of rows alone.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  chunkCount,
  chunkOf,
  defaultRowsPerChunk,
  MAX_ROW_GROUPS,
  ownChunks,
  shardOf,
  windowOf,
} from '../../../dist/io/files/chunks.js';

const range = (length: number) => Array.from({ length }, (_, n) => n);

describe('chunks', () => {
  const cut = fc.record({
    rows: fc.integer({ min: 1, max: 3000 }),
    rowsPerChunk: fc.integer({ min: 1, max: 200 }),
    shards: fc.integer({ min: 1, max: 9 }),
  });

  it('hold rows that follow each other; no window spans two', () => {
    fc.assert(
      fc.property(cut, ({ rows, rowsPerChunk }) => {
        const chunks = range(rows).map((row) => chunkOf(row, rowsPerChunk));
        expect(chunks).toEqual(range(rows).map((row) => Math.floor(row / rowsPerChunk)));
        expect(chunkCount(rows, rowsPerChunk)).toBe((chunks.at(-1) as number) + 1);
        const windows = new Map<number, number[]>();
        for (const row of range(rows)) {
          const window = windowOf(row, rowsPerChunk);
          windows.set(window, [...(windows.get(window) ?? []), row]);
        }
        expect([...windows.keys()]).toEqual([...windows.keys()].sort((a, b) => a - b));
        for (const members of windows.values()) {
          expect(members.length).toBeLessThanOrEqual(64);
          expect(new Set(members.map((row) => chunkOf(row, rowsPerChunk))).size).toBe(1);
        }
      }),
    );
  });

  it('belong to one shard each, in turn', () => {
    fc.assert(
      fc.property(cut, ({ rows, rowsPerChunk, shards }) => {
        const count = chunkCount(rows, rowsPerChunk);
        const owners = range(count).map((chunk) => shardOf(chunk, shards).index);
        for (const index of range(shards)) {
          const own = owners.filter((owner) => owner === index).length;
          expect(ownChunks(count, { index, count: shards })).toBe(own);
        }
        expect(owners.slice(0, shards)).toEqual(range(Math.min(count, shards)));
      }),
    );
  });

  it('of a run without rows are one', () => {
    expect(chunkCount(0, 64)).toBe(1);
    expect(ownChunks(1, { index: 1, count: 2 })).toBe(0);
  });
});

describe('rows a chunk', () => {
  it('are whole windows, and leave work for two processes from 128 rows on', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e9 }), fc.boolean(), (rows, hasPolicy) => {
        const size = defaultRowsPerChunk(rows, hasPolicy, undefined);
        expect(defaultRowsPerChunk(rows, hasPolicy, 2048)).toBe(size);
        expect(defaultRowsPerChunk(rows, false, 1e6)).toBe(defaultRowsPerChunk(rows, false, undefined));
        expect(size % 64).toBe(0);
        expect(size).toBeGreaterThanOrEqual(64);
        expect(size).toBeLessThanOrEqual(hasPolicy ? 512 : 16_384);
        if (rows >= 128) expect(chunkCount(rows, size)).toBeGreaterThanOrEqual(2);
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
    [1e8, 512, 16_384],
    [undefined, 512, 16_384],
  ])('of %s rows: %i with a policy, %i without', (rows, withPolicy, without) => {
    expect(defaultRowsPerChunk(rows, true, undefined)).toBe(withPolicy);
    expect(defaultRowsPerChunk(rows, false, undefined)).toBe(without);
  });

  it.each([
    // ten traces of 10,000 tokens of one byte each, and of four
    [10, 10_100, 2],
    [10, 40_100, 1],
    [1000, 4096, 32],
    [1000, 40_000, 1],
    [100_000, 40_000, 4],
    [1e8, 40_000, 512],
  ])('of %i rows of %i bytes, with a policy: %i', (rows, rowBytes, expected) => {
    expect(defaultRowsPerChunk(rows, true, rowBytes)).toBe(expected);
  });

  it('of long rows are never more than of short ones, and no more chunks than a Parquet file can hold', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e7 }), fc.integer({ min: 1, max: 1e9 }), (rows, rowBytes) => {
        const size = defaultRowsPerChunk(rows, true, rowBytes);
        expect(size).toBeGreaterThanOrEqual(1);
        expect(size).toBeLessThanOrEqual(defaultRowsPerChunk(rows, true, undefined));
        expect(chunkCount(rows, size)).toBeLessThanOrEqual(MAX_ROW_GROUPS);
      }),
    );
  });
});
