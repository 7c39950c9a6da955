// Reads the rows of a file that this program wrote as plain values, for `verify`.
import { type RecordBatch, Vector } from 'apache-arrow';
import type { InputRow } from '../../rows.js';
import { decompress } from '../files/decompress.js';
import { fileBytes } from '../files/file-bytes.js';
import type { ChunkReader } from '../parquet/chunk-reader.js';
import { readJsonRows } from '../read/jsonl.js';
import { openChunkBatches } from '../run/chunk-batches.js';
import { CONFIG_KEY, type OutputFormat } from '../write/output.js';

/** A row's cells by column: numbers, strings, bigints, typed arrays, lists and objects of these; absent or null is null. */
export interface StoredRow {
  readonly number: number;
  has(column: string): boolean;
  cell(column: string): unknown;
}

/** What a file holds beside its rows. */
export interface StoredRows {
  /** of JSONL those of its first row; undefined where it has none */
  readonly columns: readonly string[] | undefined;
  /** those of our columns that `--columns` chose, where the file says so; undefined: all of the names that are ours */
  readonly chosen: readonly string[] | undefined;
  /** the file's own account of itself, by key; JSON lines have none */
  readonly metadata: ReadonlyMap<string, string>;
  readonly rows: AsyncGenerator<StoredRow>;
}

/** Opens a file of rows. Errors of a file that cannot be read come out of `openRows` or of its `rows`. */
export async function openRows(
  path: string,
  format: OutputFormat,
  parquet: ChunkReader,
): Promise<StoredRows> {
  if (format === 'jsonl') return openJsonlRows(path);
  const { schema, metadata, batches } = await openChunkBatches(path, format, parquet);
  return {
    columns: schema.fields.map(({ name }) => name),
    chosen: (storedConfig(metadata) as { columns?: readonly string[] }).columns,
    metadata,
    rows: storedRows(batches),
  };
}

/** The configuration that a file's metadata hold; empty where they hold none. */
export function storedConfig(metadata: ReadonlyMap<string, string>): Readonly<Record<string, unknown>> {
  return JSON.parse(metadata.get(CONFIG_KEY) ?? '{}') as Record<string, unknown>;
}

/** The row with our columns alone: one of their names that was not chosen is the input's own. */
export function withOurs(row: StoredRow, chosen: readonly string[] | undefined): StoredRow {
  if (chosen === undefined) return row;
  return {
    number: row.number,
    has: (column) => chosen.includes(column) && row.has(column),
    cell: (column) => (chosen.includes(column) ? row.cell(column) : null),
  };
}

async function* storedRows(batches: AsyncIterable<RecordBatch>): AsyncGenerator<StoredRow> {
  let number = 0;
  for await (const batch of batches) {
    yield* batchRows(batch, number);
    number += batch.numRows;
  }
}

function* batchRows(batch: RecordBatch, first: number): Generator<StoredRow> {
  const columns = new Map(batch.schema.fields.map(({ name }) => [name, batch.getChild(name)]));
  for (let i = 0; i < batch.numRows; i++)
    yield {
      number: first + i,
      has: (column) => columns.has(column),
      cell: (column) => plain(columns.get(column)?.get(i)),
    };
}

/** Arrow's lists and structs as arrays and objects; lists of numbers without nulls stay typed arrays. */
function plain(value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (value instanceof Vector) {
    const data = value.data[0];
    const isFlat = data !== undefined && data.children.length === 0 && value.nullCount === 0;
    const values: unknown = isFlat ? value.toArray() : undefined;
    return ArrayBuffer.isView(values) ? values : Array.from(value, plain);
  }
  if (typeof value === 'object' && 'toJSON' in value && typeof value.toJSON === 'function') {
    const fields = value.toJSON() as Record<string, unknown>;
    return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, plain(field)]));
  }
  return value;
}

async function openJsonlRows(path: string): Promise<StoredRows> {
  const rows = async function* (): AsyncGenerator<StoredRow> {
    for await (const row of jsonlRows(path)) yield storedRow(row);
  };
  return { columns: await firstColumns(path), chosen: undefined, metadata: new Map(), rows: rows() };
}

/** The file is closed again: its rows may never be asked for. */
async function firstColumns(path: string): Promise<readonly string[] | undefined> {
  for await (const { columns } of jsonlRows(path)) return Object.keys(columns);
  return undefined;
}

function storedRow({ row, columns }: InputRow): StoredRow {
  return {
    number: row,
    has: (column) => Object.hasOwn(columns, column),
    cell: (column) => (Object.hasOwn(columns, column) ? (columns[column] ?? null) : null),
  };
}

async function* jsonlRows(path: string): AsyncGenerator<InputRow> {
  for await (const row of readJsonRows(unpackedBytes(path), { file: path, stem: '' })) {
    if (row.kind === 'bad') throw new Error(`row ${row.row}: ${row.rejection.reason}`);
    yield row;
  }
}

/** A file's bytes, unpacked where its name says that it is packed. */
function unpackedBytes(path: string): AsyncIterable<Buffer> {
  const bytes = fileBytes(path);
  return path.toLowerCase().endsWith('.gz') ? decompress(bytes, 'gzip', path) : bytes;
}
