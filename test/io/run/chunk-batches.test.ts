// Chunks read again by a thread that serves one after the other: batches end where they are told to, and a damaged file is no end of it.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { FILE, GROUP } from '../../../dist/io/parquet/part.js';
import { openParquet } from '../../../dist/io/parquet/reader.js';
import {
  i64,
  integer,
  readThrift,
  structs,
  type ThriftStruct,
  writeThrift,
} from '../../../dist/io/parquet/thrift.js';
import { openChunkBatches } from '../../../dist/io/run/join.js';
import { queryDuckdb, temporaryFolder } from '../../support/io-helpers.js';

/** rows of a group of the file, the last one's fewer */
const GROUP_ROWS = 2048;
const ROWS = 6000;

let path: string;

beforeEach(async () => {
  path = join(await temporaryFolder(), 'x.parquet');
  const rows = `select i::int as a, repeat(i::varchar, 20) as b from range(${ROWS}) t(i)`;
  await queryDuckdb(`copy (${rows}) to '${path}' (format parquet, row_group_size ${GROUP_ROWS})`);
});

async function read(file: string) {
  const values: unknown[] = [];
  const ends: number[] = [];
  for await (const batch of (await openChunkBatches(file, 'parquet')).batches) {
    values.push(...(batch.getChild('a')?.toArray() ?? []));
    ends.push(values.length);
  }
  return { values, ends };
}

describe('a chunk', () => {
  it('comes in batches that end at every row group', async () => {
    const { values, ends } = await read(path);
    expect(values).toEqual(Array.from({ length: ROWS }, (_, n) => n));
    expect(ends).toEqual([2048, 4096, ROWS]);
  });

  it('tells its columns', async () => {
    const { schema } = await openChunkBatches(path, 'parquet');
    expect(schema.names).toEqual(['a', 'b']);
  });
});

describe('the next chunk is read', () => {
  it('after one that was not read to its end', async () => {
    for await (const _ of (await openChunkBatches(path, 'parquet')).batches) break;
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

/** The footer says other counts of rows than the pages hold. */
async function withCounts(change: (footer: ThriftStruct) => void): Promise<string> {
  const bytes = await readFile(path);
  const length = bytes.readUInt32LE(bytes.length - 8);
  const footer = readThrift(bytes.subarray(-8 - length, -8));
  change(footer);
  const changed = writeThrift(footer);
  const tail = Buffer.alloc(4);
  tail.writeUInt32LE(changed.length);
  const lying = `${path}.lying.parquet`;
  await writeFile(lying, Buffer.concat([bytes.subarray(0, -8 - length), changed, tail, Buffer.from('PAR1')]));
  return lying;
}
const addRows = (struct: ThriftStruct, field: number, rows: bigint) =>
  struct.set(field, i64(integer(struct, field) + rows));

describe('rows are counted', () => {
  it.each([1n, 100n])('%d more in the footer than in the pages', async (more) => {
    const lying = await withCounts((footer) => {
      addRows(footer, FILE.rows, more);
      addRows(structs(footer, FILE.groups)[1] as ThriftStruct, GROUP.rows, more);
    });
    await expect(read(lying)).rejects.toThrow(
      `${lying}: row group 1, from row 4096 on, cannot be read: 2048 of ${2048n + more} rows came`,
    );
    const input = await openParquet(lying);
    const readAll = async () => {
      for await (const _ of input.batches());
    };
    await expect(readAll()).rejects.toThrow(/row group 1, from row \d+ on,/);
    await input.close();
  });

  it.each([1n, -1n])('%d more in the footer than in its row groups', async (more) => {
    const lying = await withCounts((footer) => addRows(footer, FILE.rows, more));
    const message = `it counts ${6000n + more} rows, its row groups 6000`;
    await expect(read(lying)).rejects.toThrow(message);
    await expect(openParquet(lying)).rejects.toThrow(message);
  });
});
