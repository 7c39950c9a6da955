// A Parquet file that is read again: the thread that decoded the last one is taken again, and what it had open is not.
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect, it } from 'vitest';
import { openParquet } from '../../../dist/io/parquet/reader.js';
import { temporaryFolder } from '../../support/io-helpers.js';

async function numbersIn(path: string, most = Number.POSITIVE_INFINITY): Promise<number[]> {
  const source = await openParquet(path);
  const found: number[] = [];
  for await (const { batch } of source.batches()) {
    found.push(...[...batch].map((row) => Number(row.a)));
    if (found.length >= most) break;
  }
  await source.close();
  return found;
}

it('a file that was replaced is read as it is now, after the one before was read in part', async () => {
  const folder = await temporaryFolder();
  const duck = await (await DuckDBInstance.create()).connect();
  const write = async (name: string, from: number, to: number) => {
    const path = join(folder, name);
    await duck.run(`COPY (SELECT range::INTEGER AS a FROM range(${from}, ${to})) TO '${path}'`);
    return path;
  };
  const path = await write('x.parquet', 0, 30_000);
  expect((await numbersIn(path, 1)).slice(0, 3)).toEqual([0, 1, 2]);
  await rename(await write('y.parquet', 70_000, 70_003), path);
  expect(await numbersIn(path)).toEqual([70_000, 70_001, 70_002]);
  await rename(await write('z.parquet', 5, 7), path);
  expect(await numbersIn(path)).toEqual([5, 6]);
  // two at once have a thread each
  const both = await Promise.all([numbersIn(path), numbersIn(await write('w.parquet', 8, 9))]);
  expect(both).toEqual([[5, 6], [8]]);
});

it('of the columns that are asked for, whatever their names and types; others are there where parquet-wasm takes a name for a path', async () => {
  const folder = await temporaryFolder();
  const duck = await (await DuckDBInstance.create()).connect();
  const path = join(folder, 'columns.parquet');
  const row = `range AS a, range + .5 AS "a.b", [{start: range, kind: 'x'}] AS segments, {c: range} AS "seg", NULL AS none`;
  await duck.run(`COPY (SELECT ${row} FROM range(3)) TO '${path}'`);
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
