// A Parquet file that is read again: the thread that decoded the last one is taken again, whatever became of that, and what it had open is not.
import { open, readFile, rename, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as arrow from 'apache-arrow';
import { Table as Wasm, writeParquet } from 'parquet-wasm/node';
import { beforeEach, describe, expect, it } from 'vitest';
import { openParquet } from '../../../dist/io/parquet/reader.js';
import { queryDuckdb, temporaryFolder } from '../../support/io-helpers.js';
import { ROOT } from '../../support/program.js';

/** rows of the file, and of its row groups but for the last one */
const ROWS = 6000;
const GROUP_ROWS = 2048;

let path: string;

const write = (to: string, rows: string) =>
  queryDuckdb(`copy (${rows}) to '${to}' (format parquet, row_group_size ${GROUP_ROWS})`);
const numbers = (from: number, to: number) =>
  `select range::int as a, repeat(range::varchar, 20) as b from range(${from}, ${to})`;

beforeEach(async () => {
  path = join(await temporaryFolder(), 'x.parquet');
  await write(path, numbers(0, ROWS));
});

/** @returns the values of `a`, and how many of them there are after each batch */
async function read(file: string, most = Number.POSITIVE_INFINITY) {
  const source = await openParquet(file);
  const values: unknown[] = [];
  const ends: number[] = [];
  for await (const { batch } of source.batches()) {
    values.push(...(batch.getChild('a')?.toArray() ?? []));
    ends.push(values.length);
    if (values.length >= most) break;
  }
  await source.close();
  return { values, ends };
}

it('comes in batches that end at every row group', async () => {
  const { values, ends } = await read(path);
  expect(values).toEqual(Array.from({ length: ROWS }, (_, n) => n));
  expect(ends).toEqual([2048, 4096, ROWS]);
});

it('a file that was replaced is read as it is now, after the one before was read in part', async () => {
  expect((await read(path, 1)).values.slice(0, 3)).toEqual([0, 1, 2]);
  for (const [from, to] of [
    [70_000, 70_003],
    [5, 7],
  ] as const) {
    await write(`${path}.new`, numbers(from, to));
    await rename(`${path}.new`, path);
    expect((await read(path)).values).toEqual(Array.from({ length: to - from }, (_, n) => from + n));
  }
  // two at once have a thread each
  const other = `${path}.other`;
  await write(other, numbers(8, 9));
  const both = await Promise.all([read(path), read(other)]);
  expect(both.map(({ values }) => values)).toEqual([[5, 6], [8]]);
});

const bytesAt = (bytes: Buffer, at: number) =>
  Buffer.concat([bytes.subarray(0, at), Buffer.alloc(40, 0xff), bytes.subarray(at + 40)]);
it.each([
  ['with a page overwritten', (bytes: Buffer) => bytesAt(bytes, 4), /./],
  ['cut off', (bytes: Buffer) => bytes.subarray(0, -1), /begins as a Parquet file .* no footer/],
  ['of something else', () => Buffer.from('{"a": 1}\n'), /is no Parquet file/],
  ['without a byte', () => Buffer.alloc(0), /is no Parquet file/],
])('the next file is read after one %s, which is named once', async (_, damage, message) => {
  const bad = `${path}.bad.parquet`;
  await writeFile(bad, damage(await readFile(path)));
  const error = await read(bad).catch((cause: unknown) => cause);
  expect((error as Error).message.split(bad)).toEqual(['', expect.stringMatching(message)]);
  expect((await read(path)).values).toHaveLength(ROWS);
});

describe('rows are counted', () => {
  /** A count as a footer has it: a number of 64 bits, in two bytes. */
  const counted = (n: number) => Buffer.from([0x16, ((2 * n) & 127) | 128, (2 * n) >> 7]);

  /** A footer that counts `more` rows than there are in all, and so many more `inGroup` 1. */
  async function lying(more: number, inGroup: number): Promise<string> {
    const bytes = await readFile(path);
    const footer = bytes.subarray(bytes.length - 8 - bytes.readUInt32LE(bytes.length - 8));
    counted(ROWS + more).copy(footer, footer.indexOf(counted(ROWS)));
    // the values of its columns come before the rows of a group
    let at = -1;
    for (let n = 0; n < 6; n++) at = footer.indexOf(counted(GROUP_ROWS), at + 1);
    counted(GROUP_ROWS + inGroup).copy(footer, at);
    const to = `${path}.lying.parquet`;
    await writeFile(to, bytes);
    return to;
  }

  it.each([1, 100])('%d more in the footer than in the pages', async (more) => {
    const to = await lying(more, more);
    await expect(read(to)).rejects.toThrow(
      `${to}: row group 1, from row 4096 on, cannot be read: 2048 of ${2048 + more} rows came`,
    );
  });

  it.each([1, -1])('%d more in the footer than in its row groups', async (more) => {
    const message = `it counts ${6000 + more} rows, its row groups 6000`;
    await expect(openParquet(await lying(more, 0))).rejects.toThrow(message);
  });
});

it('an open file stays what it was where another takes its name, and tells why a read fails', async () => {
  const [whole, cut] = [await openParquet(path), await openParquet(path)];
  await write(`${path}.new`, numbers(7, 8));
  await rename(path, `${path}.old`);
  await rename(`${path}.new`, path);
  let rows = 0;
  for await (const { batch } of whole.batches()) rows += batch.numRows;
  expect(rows).toBe(ROWS);
  await truncate(`${path}.old`, 1000);
  await expect(cut.batches().next()).rejects.toThrow('cannot be read: the file has become shorter');
});

it('a row group that lies past 5 GiB is read, though parquet-wasm counts in 32 bits', async () => {
  const fixture = (name: string) => readFile(join(ROOT, 'test/files', name));
  const [near, footer] = [await fixture('polars.parquet'), await fixture('far.footer')];
  const footerAt = near.length - 8 - near.readUInt32LE(near.length - 8);
  const hole = 5 * 2 ** 30; // takes no room on the disk
  const far = await open(path, 'w');
  await far.write(near.subarray(0, 4), 0, 4, 0);
  await far.write(near.subarray(4, footerAt), 0, footerAt - 4, hole + 4);
  await far.write(footer, 0, footer.length, hole + footerAt);
  await far.close();
  let rows = 0;
  for await (const { batch } of (await openParquet(path)).batches()) rows += batch.numRows;
  expect(rows).toBe(1000);
});

it('of the columns that are asked for, whatever their names and types; others are there where parquet-wasm takes a name for a path', async () => {
  const row = `range AS a, range + .5 AS "a.b", [{start: range, kind: 'x'}] AS segments, {c: range} AS "seg", NULL AS none`;
  await write(path, `SELECT ${row} FROM range(3)`);
  const read = async (columns?: (name: string) => boolean) => {
    const source = await openParquet(path);
    const rows = [];
    for await (const { batch } of source.batches(undefined, columns))
      rows.push(...[...batch].map((each) => each.toJSON()));
    return JSON.parse(JSON.stringify(rows, (_, x) => (typeof x === 'bigint' ? Number(x) : x))) as object[];
  };
  const whole = await read();
  for (const names of [['a'], ['a.b'], ['seg'], ['segments', 'none'], ['a', 'seg']]) {
    const wanted = (name: string) => names.includes(name);
    const own = whole.map((of) => Object.fromEntries(Object.entries(of).filter(([name]) => wanted(name))));
    const found = await read(wanted);
    expect(found).toMatchObject(own);
    expect(Object.keys(found[0] ?? {})).not.toContain(names.includes('segments') ? 'a' : 'segments');
  }
});

it('a duration beside a declared dictionary is a whole number, and says so', async () => {
  const table = new arrow.Table({
    colour: arrow.vectorFromArray(['red', 'red'], new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32())),
    took: arrow.vectorFromArray([1n, 2n], new arrow.DurationMillisecond()),
    n: arrow.vectorFromArray([1, 2], new arrow.Int32()),
  });
  await writeFile(path, writeParquet(Wasm.fromIPCStream(arrow.tableToIPC(table, 'stream'))));
  const { losses, close } = await openParquet(path);
  expect(losses).toEqual(
    new Map([
      ['took', 'is Duration<MILLISECOND> and read as Int64, as another column has a dictionary'],
      ['colour', 'its dictionary is written out as plain values'],
    ]),
  );
  await close();
});
