// Chunks joined: every row once and in order, in either direction between formats, and nothing left where it does not end well.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import {
  Int32,
  type RecordBatch,
  Schema,
  Table,
  tableFromIPC,
  tableToIPC,
  vectorFromArray,
} from 'apache-arrow';
import { beforeEach, describe, expect, it } from 'vitest';
import { openArrow } from '../../dist/io/arrow/reader.js';
import { openArrowBatches } from '../../dist/io/arrow/writer.js';
import { AtomicFile } from '../../dist/io/files/atomic-file.js';
import { joinParquet } from '../../dist/io/parquet/join.js';
import type { OutputFormat } from '../../dist/io/write/output.js';
import { openJoined } from '../../dist/run/join.js';
import { queryDuckdb, readMetadata, readWithHyparquet, temporaryFolder } from '../support/io-helpers.js';

let folder: string;
beforeEach(async () => {
  folder = await temporaryFolder();
});

const path = (name: string) => join(folder, name);

/** A chunk of rows `from` to `to`, in row groups of 2,048. */
async function chunk(name: string, from: number, to: number, columns = "i::int as a, 'x' || i as b") {
  const rows = `select ${columns} from range(${from}, ${to}) t(i)`;
  await queryDuckdb(`copy (${rows}) to '${path(name)}' (format parquet, row_group_size 2048)`);
  return path(name);
}

async function joined(
  name: string,
  chunks: readonly string[],
  formats: { from: OutputFormat; to: OutputFormat },
  onProgress = () => {},
): Promise<(number | undefined)[]> {
  const file = await openJoined(path(name), { ...formats, onProgress });
  try {
    const counts = [];
    for (const each of chunks) counts.push(await file.add(each));
    await file.close();
    return counts;
  } finally {
    await file.abort();
  }
}

const BOTH = { from: 'parquet', to: 'parquet' } as const;

describe('Parquet', () => {
  it("counts the rows of the joined file's footer, as it lies on the disk", async () => {
    const file = await AtomicFile.open(path('all.parquet'));
    const other = await chunk('other', 0, 7);
    const read = new Proxy(file, {
      get(_, key) {
        const value = key === 'temporaryPath' ? other : Reflect.get(file, key);
        return typeof value === 'function' ? value.bind(file) : value;
      },
    });
    const all = await joinParquet(read, Object.fromEntries, () => {});
    await all.add(await chunk('a', 0, 5000));
    await expect(all.close()).rejects.toThrow('5000 rows were copied, its footer counts 7');
    await file.abort();
    expect((await readdir(folder)).sort()).toEqual(['a', 'other']);
  });

  it('has the row groups of all chunks, their pages as they are', async () => {
    const chunks = [await chunk('a', 0, 5000), await chunk('none', 0, 0), await chunk('b', 5000, 5003)];
    expect(await joined('all.parquet', chunks, BOTH)).toEqual([5000, 0, 3]);
    const expected = Array.from({ length: 5003 }, (_, n) => ({ a: n, b: `x${n}` }));
    expect(await readWithHyparquet(path('all.parquet'))).toEqual(expected);
    const rows = await queryDuckdb(
      `select count(*)::int as n, sum(a)::int as s from '${path('all.parquet')}'`,
    );
    expect(rows).toEqual([{ n: 5003, s: (5002 * 5003) / 2 }]);
    expect((await readMetadata(path('all.parquet'))).groups).toBe(4);
    // a joined file can be joined again
    await joined('twice.parquet', [path('all.parquet'), chunks[2] as string], BOTH);
    expect(await readWithHyparquet(path('twice.parquet'))).toEqual([...expected, ...expected.slice(5000)]);
  });

  it.each([
    ['another type', 'i::bigint as a, i::varchar as b'],
    ['another name', 'i::int as a, i::varchar as c'],
    ['fewer columns', 'i::int as a'],
  ])('is not joined with a chunk of %s', async (_, columns) => {
    const chunks = [await chunk('a', 0, 3), await chunk('b', 3, 6, columns)];
    await expect(joined('all.parquet', chunks, BOTH)).rejects.toThrow(`${path('b')} has other columns than`);
    expect((await readdir(folder)).sort()).toEqual(['a', 'b']);
  });

  it('names a chunk that is cut off, or gone', async () => {
    const whole = await chunk('a', 0, 3000);
    await writeFile(path('cut'), (await readFile(whole)).subarray(0, 3000));
    await expect(joined('all.parquet', [whole, path('cut')], BOTH)).rejects.toThrow(path('cut'));
    const gone = joined('all.parquet', [whole, path('gone')], BOTH);
    await expect(gone).rejects.toMatchObject({ cause: { code: 'ENOENT', path: path('gone') } });
    expect((await readdir(folder)).sort()).toEqual(['a', 'cut']);
  });
});

it.each(['arrow', 'parquet'] as const)('chunks of two runs are not joined as %s', async (to) => {
  for (const run of ['one', 'two']) {
    const { schema, batches } = new Table({ a: vectorFromArray([1], new Int32()) });
    const ours = new Schema(schema.fields, new Map([['rredcot.run', run]]));
    await writeFile(path(run), tableToIPC(new Table(ours, batches), 'file'));
  }
  const [one, two] = [path('one'), path('two')];
  expect(await joined(`same.${to}`, [one, one], { from: 'arrow', to })).toEqual([1, 1]);
  const mixed = joined(`all.${to}`, [one, two], { from: 'arrow', to });
  await expect(mixed).rejects.toThrow(`${two} is of another run than ${one}`);
  // and so with pages that are copied
  const as = (run: string) => joined(`${run}.parquet`, [path(run)], { from: 'arrow', to: 'parquet' });
  await Promise.all(['one', 'two'].map(as));
  const copied = joined('copied.parquet', ['one.parquet', 'two.parquet'].map(path), BOTH);
  await expect(copied).rejects.toThrow(`${two}.parquet is of another run than ${one}.parquet`);
});

it.each(['all.jsonl', 'all.jsonl.gz'])('lines follow each other in %s', async (name) => {
  for (const each of ['a', 'b']) await writeFile(path(each), `{"of":"${each}"}\n`);
  await joined(name, ['a', 'b'].map(path), { from: 'jsonl', to: 'jsonl' });
  const bytes = await readFile(path(name));
  expect((name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()).toBe('{"of":"a"}\n{"of":"b"}\n');
});

it.each(['parquet', 'jsonl'] as const)('%s that is interrupted leaves nothing', async (format) => {
  const source = format === 'parquet' ? await chunk('a', 0, 3) : path('a');
  if (format === 'jsonl') await writeFile(source, '{}\n');
  const stop = () => {
    throw new Error('interrupted');
  };
  const run = joined(`all.${format}`, [source], { from: format, to: format }, stop);
  await expect(run).rejects.toThrow('interrupted');
  expect(await readdir(folder)).toEqual(['a']);
});

describe('Arrow, of columns that are called "" and "null"', () => {
  const table = (...rows: number[]) =>
    new Table({ '': vectorFromArray(rows, new Int32()), null: vectorFromArray(rows, new Int32()) });

  it('is one file of all rows', async () => {
    await writeFile(path('a'), tableToIPC(table(1, 2), 'file'));
    await writeFile(path('b'), tableToIPC(table(3), 'file'));
    await joined('all.arrow', [path('a'), path('b')], { from: 'arrow', to: 'arrow' });
    const { schema, close } = await openArrow(path('all.arrow'));
    await close();
    expect(schema.names).toEqual(['', 'null']);
    const all = tableFromIPC(await readFile(path('all.arrow')));
    for (const n of [0, 1]) expect([...(all.getChildAt(n) ?? [])]).toEqual([1, 2, 3]);
  });

  it('takes no batch of other columns, which arrow would write as a second file behind the first', async () => {
    const file = await AtomicFile.open(path('x.arrow'));
    const writer = openArrowBatches(file, table(1).schema, 'file');
    const other = new Table({ x: vectorFromArray([1], new Int32()) });
    await writer.write(table(1).batches[0] as RecordBatch);
    await expect(writer.write(other.batches[0] as RecordBatch)).rejects.toThrow(
      'other columns than its file',
    );
    await writer.abort();
  });
});
