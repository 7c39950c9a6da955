// Chunks read again by a thread that serves all files: batches end where they are told to, and a damaged file is no end of it.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tableFromIPC } from 'apache-arrow';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ChunkReader, openChunkReader } from '../dist/io/chunk-reader.js';
import { queryDuckdb, temporaryFolder } from './io-helpers.js';

/** rows of a group of the file, the last one's fewer */
const GROUP_ROWS = 2048;
const ROWS = 6000;

let reader: ChunkReader;
let path: string;

beforeEach(async () => {
  reader = openChunkReader();
  path = join(await temporaryFolder(), 'x.parquet');
  const rows = `select i::int as a, repeat(i::varchar, 20) as b from range(${ROWS}) t(i)`;
  await queryDuckdb(`copy (${rows}) to '${path}' (format parquet, row_group_size ${GROUP_ROWS})`);
});
afterEach(() => reader.close());

async function read(file: string, cuts?: readonly number[]) {
  const values: unknown[] = [];
  const ends: number[] = [];
  for await (const { batch, ipc } of (await reader.open(file, cuts)).batches) {
    values.push(...(batch.getChild('a')?.toArray() ?? []));
    ends.push(values.length);
    expect(tableFromIPC(ipc).numRows).toBe(batch.numRows);
  }
  return { values, ends };
}

describe('a chunk', () => {
  it('comes in batches that end at every row group and every cut', async () => {
    const { values, ends } = await read(path, [1, 2, 2047, 2048, 2049, 4096, 5000, ROWS]);
    expect(values).toEqual(Array.from({ length: ROWS }, (_, n) => n));
    expect(ends).toEqual([1, 2, 2047, 2048, 2049, 4096, 5000, ROWS]);
    expect((await read(path)).ends).toEqual([2048, 4096, ROWS]);
  });

  it('tells its columns and how far it is compressed', async () => {
    const { schema, compression } = await reader.open(path);
    expect(schema.names).toEqual(['a', 'b']);
    const sizes = await queryDuckdb(`
      select sum(total_compressed_size) as compressed, sum(total_uncompressed_size) as raw
      from parquet_metadata('${path}')`);
    const { compressed, raw } = sizes[0] as Record<string, bigint>;
    expect(compression).toBeCloseTo(Number(compressed) / Number(raw), 2);
  });
});

describe('the next chunk is read', () => {
  it('after one that was not read to its end', async () => {
    for await (const _ of (await reader.open(path, [1, 2, 3, 4])).batches) break;
    expect((await read(path)).values).toHaveLength(ROWS);
  });

  const bytesAt = (bytes: Buffer, at: number) =>
    Buffer.concat([bytes.subarray(0, at), Buffer.alloc(40, 0xff), bytes.subarray(at + 40)]);
  it.each([
    ['with a page overwritten', (bytes: Buffer) => bytesAt(bytes, 4), /./],
    ['cut off', (bytes: Buffer) => bytes.subarray(0, -1), /begins as a Parquet file .* no footer/],
    ['of something else', () => Buffer.from('{"a": 1}\n'), /is no Parquet file/],
    ['without a byte', () => Buffer.alloc(0), /is no Parquet file/],
  ])('after one %s, which is named once', async (_, damage, message) => {
    const bad = `${path}.bad.parquet`;
    await writeFile(bad, damage(await readFile(path)));
    const error: Error = await read(bad).then(
      () => expect.unreachable(),
      (error) => error,
    );
    expect(error.name).toBe('Error');
    expect(error.message.split(bad)).toEqual(['', expect.stringMatching(message)]);
    expect((await read(path)).values).toHaveLength(ROWS);
  });
});
