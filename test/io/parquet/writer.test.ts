// The guard around parquet-wasm: each fault of IO §1 ends in an error and no file, never in lost rows.

import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as arrow from 'apache-arrow';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type OutputColumn, outputColumns, STRING } from '../../../dist/io/arrow/output-columns.js';
import { parquetSchema, refuseUnwritable } from '../../../dist/io/arrow/types.js';
import { arrowSchema, batchedRows } from '../../../dist/io/arrow/writer.js';
import { type AtomicFile, openAtomicFile } from '../../../dist/io/files/atomic-file.js';
import { sha256OfFile } from '../../../dist/io/files/files.js';
import { openParquetBatches, type ParquetEncoder, startEncoder } from '../../../dist/io/parquet/writer.js';
import { declared, type OurColumn } from '../../../dist/scored/columns.js';
import type { OutputRow } from '../../../dist/scored.js';
import { bareRow, queryDuckdb, readMetadata, temporaryFolder } from '../../support/io-helpers.js';

let folder: string;
let file: AtomicFile;
let encoder: ParquetEncoder;

const encoderOf = (descriptor: number, path = file.temporaryPath) =>
  startEncoder(file.path, {
    path,
    descriptor,
    metadata: {},
    dictionaryColumns: [],
    rowsPerGroup: 1000,
    rowGroupBytes: 2 ** 20,
    maxFileBytes: 2 ** 30,
  });

beforeEach(async () => {
  folder = await temporaryFolder();
  file = await openAtomicFile(join(folder, 'out.parquet'));
  encoder = encoderOf(file.descriptor);
});

// whatever happened, an abort leaves nothing
afterEach(async () => {
  await encoder.terminate();
  await file.abort();
  expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
});

const column32 = (...values: number[]) => arrow.vectorFromArray(values, new arrow.Int32());
const ints = (...values: number[]) => new arrow.Table({ a: column32(...values) });
const ipc = (table: arrow.Table) => arrow.tableToIPC(table, 'stream');
const sentAll = (bytes: Uint8Array, rows: number) => encoder.send(bytes, rows).then(() => encoder.close());

type Limits = Parameters<typeof openParquetBatches>[3];

/** Writes rows, one list of them after the other, and publishes them. */
async function write(
  columns: readonly OutputColumn[],
  lists: Iterable<readonly OutputRow[]>,
  more: { target?: AtomicFile; metadata?: Record<string, string>; limits?: Limits } = {},
): Promise<void> {
  const { target = file, metadata = {}, limits } = more;
  const schema = parquetSchema(target.path, arrowSchema(columns));
  const writer = batchedRows(openParquetBatches(target, schema, metadata, limits), schema, columns);
  try {
    for (const rows of lists) {
      for (const row of rows) writer.add(row);
      await writer.flush();
    }
    await writer.close();
  } catch (error) {
    await writer.abort();
    throw error;
  }
  await target.publish();
}

describe('the encoder', () => {
  it.each([
    ['another type', new arrow.Table({ a: arrow.makeVector(Float32Array.of(1, 2)) })],
    ['another name', new arrow.Table({ b: column32(1, 2) })],
    ['text', new arrow.Table({ a: arrow.vectorFromArray(['x', 'y'], new arrow.Utf8()) })],
    ['another column more', new arrow.Table({ a: column32(1, 2), b: column32(1, 2) })],
  ])('rejects a batch of %s', async (_, table) => {
    await encoder.send(ipc(ints(1)), 1);
    const why = 'a batch has another schema than the first batch of the file';
    await expect(sentAll(ipc(table), 2)).rejects.toThrow(why);
  });

  it("counts the rows of the file's footer, as it lies on the disk", async () => {
    const other = join(folder, 'other.parquet');
    await queryDuckdb(`copy (select 1::int as a) to '${other}' (format parquet)`);
    const found = encoderOf(file.descriptor, other);
    await found.send(ipc(ints(1, 2, 3)), 3);
    await expect(found.close()).rejects.toThrow("3 rows went in, the file's footer counts 1");
  });

  it('rejects what is under way and all that follows when its thread dies', async () => {
    await encoder.send(ipc(ints(1)), 1);
    const end = encoder.close();
    await encoder.terminate();
    // either it was done before, or it says so
    await end.catch((error: Error) => expect(error.message).toMatch(/ended early/));
    const other = encoderOf(-1);
    await other.send(ipc(ints(1)), 1);
    await expect(other.close()).rejects.toThrow();
    await expect(other.send(ipc(ints(1)), 1)).rejects.toThrow();
    await expect(other.close()).rejects.toThrow();
  });

  it('survives a panic inside the module as an error', async () => {
    // list offsets that run backwards: arrow-rs trusts what IPC says
    const texts = arrow.vectorFromArray(['one', 'two', 'three'], new arrow.Utf8());
    const bytes = ipc(new arrow.Table({ a: texts }));
    const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const offsets = view.lastIndexOf(Buffer.from(Int32Array.of(3, 6, 11).buffer));
    expect(offsets).toBeGreaterThan(0);
    view.writeInt32LE(2 ** 30, offsets);
    await expect(sentAll(bytes, 3)).rejects.toThrow();
  });
});

describe('types', () => {
  const item = (type: arrow.DataType) => new arrow.Field('element', type, true);
  const entries = new arrow.Field(
    'entries',
    new arrow.Struct([new arrow.Field('key', new arrow.Utf8(), false), item(new arrow.Int32())]),
  );
  const { YEAR_MONTH, DAY_TIME, MONTH_DAY_NANO } = arrow.IntervalUnit;
  const writable: readonly arrow.DataType[] = [
    ...[new arrow.Null(), new arrow.Bool(), new arrow.Int8(), new arrow.Int64(), new arrow.Uint64()],
    ...[new arrow.Float16(), new arrow.Float32(), new arrow.Float64()],
    ...[new arrow.Utf8(), new arrow.LargeUtf8(), new arrow.Binary(), new arrow.LargeBinary()],
    ...[new arrow.FixedSizeBinary(4), new arrow.DateDay(), new arrow.DateMillisecond()],
    ...[new arrow.Decimal(2, 9, 32), new arrow.Decimal(0, 18, 64), new arrow.Decimal(10, 10, 128)],
    ...[new arrow.Decimal(2, 50, 256), new arrow.TimestampSecond(), new arrow.TimestampMillisecond()],
    ...[new arrow.TimestampMicrosecond('UTC'), new arrow.TimestampNanosecond(), new arrow.TimeSecond()],
    ...[new arrow.TimeMillisecond(), new arrow.TimeMicrosecond(), new arrow.TimeNanosecond()],
    ...[new arrow.DurationSecond(), new arrow.DurationNanosecond(), new arrow.Interval(YEAR_MONTH)],
    ...[new arrow.Interval(DAY_TIME), new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32())],
    ...[new arrow.Struct([item(new arrow.Int32())]), new arrow.List(item(new arrow.Int32()))],
    ...[new arrow.LargeList(item(new arrow.Utf8())), new arrow.FixedSizeList(2, item(new arrow.Int32()))],
    new arrow.Map_(entries as never),
  ];

  it('that are let through can be written', async () => {
    const fields = writable.map((type, n) => new arrow.Field(`c${n}`, type, true));
    expect(() => refuseUnwritable('x.parquet', fields)).not.toThrow();
    const columns = writable.map((type, n) => [`c${n}`, arrow.vectorFromArray([null, null], type)]);
    const table = new arrow.Table(Object.fromEntries(columns));
    await encoder.send(ipc(table), 2);
    expect(await encoder.close()).toBe(2);
  });

  it.each([
    [new arrow.Decimal(-2, 10, 128), 'is Decimal128(10, -2)'],
    [new arrow.List(item(new arrow.Decimal(-2, 10, 128))), 'holds Decimal128(10, -2)'],
    [new arrow.FixedSizeBinary(0), 'is FixedSizeBinary[0]'],
  ])('that cannot be written are rejected by name: %s', (type, found) => {
    const act = () =>
      refuseUnwritable('x.parquet', [item(new arrow.Utf8()), new arrow.Field('c', type, true)]);
    expect(act).toThrow(`x.parquet: column "c" ${found}, which cannot be written as Parquet`);
  });

  // parquet-wasm drops the error of such a column, and where one before it is written already, it never ends its stream
  it('that the module cannot write end in an error even unasked', async () => {
    const type = new arrow.Interval(MONTH_DAY_NANO);
    const data = arrow.makeData({ type, length: 2, nullCount: 0, data: new Int32Array(8) });
    const table = new arrow.Table({
      a: arrow.vectorFromArray(['x', 'y'], new arrow.Utf8()),
      b: new arrow.Vector([data]),
    });
    await encoder.send(ipc(table), 2);
    await expect(encoder.close()).rejects.toThrow('dropped rows and did not say why');
  });
});

describe('the writer', () => {
  const columns = (...names: OurColumn[]) => outputColumns([], declared(names));
  const row = (n: number) => {
    const sigma = Float32Array.from({ length: 1000 }, (_, i) => Math.sin(n * 1000 + i));
    return { ...bareRow({}, n), sigma, completionIds: Int32Array.from(sigma, (x) => Math.abs(x * 1e5)) };
  };

  const SMALL = { rowGroupBytes: 100_000 };
  const rowsFrom = (n: number, count: number) => Array.from({ length: count }, (_, i) => row(n + i));

  it('makes the same bytes as the first and as a later file of the process, after one that failed too', async () => {
    const metadata = Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`key ${n}`, `value ${n}`]));
    const hashes = new Set<string>();
    for (let n = 0; n < 6; n++) {
      const path = join(folder, `${n}.parquet`);
      const target = await openAtomicFile(path);
      if (n === 2) await rm(target.temporaryPath);
      const written = write(columns('sigma'), [[row(0), row(1)]], { target, metadata });
      if (n === 2) {
        const gone = { exitCode: 2, cause: { code: 'ENOENT', path: target.temporaryPath } };
        await expect(written).rejects.toMatchObject(gone);
        continue;
      }
      await written;
      hashes.add(String(await sha256OfFile(path)));
      expect((await readMetadata(path)).keys.get('key 3')).toBe('value 3');
    }
    expect(hashes.size).toBe(1);
  });

  it('writes as many columns as it lets through, with pages that cost it no memory', async () => {
    const column = (n: number) => ({ name: `c${n}`, type: STRING, value: () => `x${n}` });
    const wide = Array.from({ length: 990 }, (_, n) => column(n));
    await write(wide, [[bareRow({})]]);
    expect(await queryDuckdb(`select c0, c989 from '${file.path}'`)).toEqual([{ c0: 'x0', c989: 'x989' }]);
  });

  it('stops below the size that would wrap the offsets', async () => {
    const limits = { maxFileBytes: 100_000, rowGroupBytes: 40_000 };
    const lists = Array.from({ length: 100 }, (_, n) => rowsFrom(n, 2));
    await expect(write(columns('sigma'), lists, { limits })).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('over 100000 bytes'),
      hint: expect.stringContaining('split the input'),
    });
  });

  it('makes row groups by bytes, without dictionaries for numbers and with encodings that all can read', async () => {
    const names = ['id', 'completion_ids', 'sigma', 'source_row', 'status'] as const;
    const lists = Array.from({ length: 10 }, (_, n) => rowsFrom(10 * n, 10));
    await write(columns(...names), lists, { metadata: { a: 'b' }, limits: SMALL });
    const { rows, groups, keys } = await readMetadata(file.path);
    expect([rows, keys.get('a')]).toEqual([100, 'b']);
    expect(groups).toBeGreaterThan(5);
    expect(groups).toBeLessThan(12);
    const chunks = await queryDuckdb(
      `select distinct path_in_schema as path, encodings, compression from parquet_metadata('${file.path}')`,
    );
    for (const { path, encodings, compression } of chunks) {
      expect(compression).toBe('ZSTD');
      expect(String(encodings)).not.toContain('BYTE_STREAM_SPLIT');
      expect(String(encodings).includes('DICTIONARY'), String(path)).toBe(path === 'status');
    }
    // Hugging Face and pyarrow call a list's child `element`
    expect(chunks.map(({ path }) => path)).toContain('sigma, list, element');
    const counts = 'count(*) as n, sum(len(sigma)) as values, max(source_row) as last';
    const found = await queryDuckdb(`select ${counts} from '${file.path}'`);
    expect(found).toEqual([{ n: 100n, values: 100_000n, last: 99n }]);
  });

  it('takes the size of rows from more than the first one, which may be of unusual size', async () => {
    const values = [new Float32Array(20_000), Float32Array.of(0.5)];
    const [first, small] = values.map((sigma) => ({ ...row(0), sigma }));
    const lists = Array.from({ length: 51 }, (_, n) => Array(n === 0 ? 1 : 20).fill(n === 0 ? first : small));
    await write(columns('sigma'), lists, { limits: SMALL });
    // by the first row alone a group would hold one row
    expect((await readMetadata(file.path)).groups).toBeLessThan(40);
  });

  it('bounds row groups by raw bytes where rows compress to almost nothing', async () => {
    const flat = { ...row(0), sigma: new Float32Array(1000) };
    await write(columns('sigma'), Array(10).fill(Array(10).fill(flat)), { limits: SMALL });
    expect((await readMetadata(file.path)).groups).toBe(4);
  });

  it('gives the memory of written batches back', async () => {
    // 2 MB, which are encoded in no time
    const batch = Array(500).fill({ ...row(0), sigma: new Float32Array(1000) });
    let [before, after] = [0, 0];
    function* lists() {
      for (let n = 0; n < 70; n++) {
        after = process.memoryUsage().rss;
        if (n === 10) before = after;
        yield batch;
      }
    }
    await write(columns('sigma'), lists(), { limits: { rowGroupBytes: 2 ** 20 } });
    // 120 MB went through
    expect(after - before).toBeLessThan(80e6);
    expect((await readMetadata(file.path)).rows).toBe(35_000);
  });
});
