// What the tests of src/io share: rows from text, output rows, and the two independent Parquet readers.
import { DuckDBInstance } from '@duckdb/node-api';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { stringifyJson } from '../../dist/io/arrow/json.js';
import { fileStem, inputMetadata, readRows, resolveInputs } from '../../dist/io/read/inputs.js';
import { readJsonRows } from '../../dist/io/read/jsonl.js';
import { TEXT_KEY } from '../../dist/io/write/output.js';
import type { BadRow, InputRow } from '../../dist/rows.js';
import { blankRow, type OutputRow } from '../../dist/scored.js';
import type { Trace } from '../../dist/trace.js';
import { collect } from './streams.js';

export { collect } from './streams.js';
export { temporaryFolder } from './temporary-folder.js';

export async function* chunksOf(bytes: Buffer, sizes: readonly number[] = []): AsyncGenerator<Buffer> {
  let at = 0;
  for (const size of sizes) {
    yield bytes.subarray(at, at + size);
    at += size;
  }
  yield bytes.subarray(at);
}

export function rowsOf(
  text: string | Buffer,
  opts: { sizes?: readonly number[]; maxLineBytes?: number; file?: string } = {},
): Promise<(InputRow | BadRow)[]> {
  const { file = 'traces.jsonl', sizes, maxLineBytes } = opts;
  return collect(
    readJsonRows(chunksOf(Buffer.from(text as string), sizes), { file, stem: fileStem(file), maxLineBytes }),
  );
}

export function inputRow(columns: Record<string, unknown>, row = 0): InputRow {
  return {
    kind: 'row',
    file: 'data/traces.jsonl',
    stem: 'traces',
    row,
    ordinal: row,
    byteOffset: 0,
    raw: stringifyJson(columns),
    columns,
  };
}

export function traceOf(columns: Record<string, unknown>, row = 0): Trace {
  return {
    id: `traces:${row}`,
    prompt: '',
    completion: 'x',
    references: [],
    reward: null,
    source: { file: 'traces.jsonl', row, ordinal: row, byteOffset: 0, columns, raw: '{}' },
  };
}

/** An output row with nothing scored. */
export function bareRow(columns: Record<string, unknown>, row = 0): OutputRow {
  return blankRow(traceOf(columns, row));
}

/** Rows as hyparquet reads them: int64 as BigInt. */
export async function readWithHyparquet(path: string): Promise<Record<string, unknown>[]> {
  return parquetReadObjects({ file: await asyncBufferFromFile(path), compressors, utf8: true });
}

export async function readMetadata(
  path: string,
): Promise<{ rows: number; groups: number; keys: Map<string, string> }> {
  const metadata = await parquetMetadataAsync(await asyncBufferFromFile(path));
  return {
    rows: Number(metadata.num_rows),
    groups: metadata.row_groups.length,
    keys: new Map(metadata.key_value_metadata?.map(({ key, value }) => [key, value ?? ''])),
  };
}

let connection: Promise<Awaited<ReturnType<DuckDBInstance['connect']>>> | undefined;

/** Rows of a query as DuckDB's own JS values made plain: lists, objects, BigInt for int64. */
export async function queryDuckdb(sql: string): Promise<Record<string, unknown>[]> {
  connection ??= DuckDBInstance.create(':memory:').then((instance) => instance.connect());
  const reader = await (await connection).runAndReadAll(sql);
  return reader.getRowObjects().map((row) => plain(row) as Record<string, unknown>);
}

function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('items' in value && Array.isArray(value.items)) return value.items.map(plain);
  if ('entries' in value)
    return Object.fromEntries(Object.entries(value.entries as object).map(([k, v]) => [k, plain(v)]));
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));
}

/** The rows of an output as our own readers have them, and which columns its metadata say hold the texts. */
export async function readOutput(
  path: string,
): Promise<{ rows: Readonly<Record<string, unknown>>[]; texts: Record<string, string> }> {
  const inputs = await resolveInputs([path]);
  const metadata = await inputMetadata(inputs[0] as (typeof inputs)[0]);
  const rows = (await collect(readRows(inputs))).map((row) => (row.kind === 'row' ? row.columns : {}));
  return { rows, texts: JSON.parse(metadata.get(TEXT_KEY) ?? '{}') };
}
