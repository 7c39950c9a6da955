// Gathers output rows in record batches, and writes these as Arrow IPC: the stream format for pipes, the file format for files.

import {
  Bool,
  type DataType,
  Field,
  Float32,
  Float64,
  Int32,
  Int64,
  List,
  type RecordBatch,
  RecordBatchFileWriter,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  Utf8,
  util,
} from 'apache-arrow';
import type { OutputRow } from '../../scored.js';
import type { Facts } from '../files/facts.js';
import type { ByteSink } from '../files/stdout.js';
import { batchOf, columnData, gather, type Range } from './columns.js';
import type { OutputColumn } from './output-columns.js';
import type { ColumnType } from './schema.js';

export interface RowWriter extends Pick<BatchWriter, 'close' | 'abort'> {
  /** takes what is written of a row; the row itself is not kept */
  add(row: OutputRow): void;
  /** writes what was added since the last time */
  flush(): Promise<void>;
}

export interface BatchWriter {
  write(batch: RecordBatch): Promise<void>;
  /** all is written: makes it durable. @param facts what a file says of its rows */
  close(facts?: Facts): Promise<void>;
  abort(): Promise<void>;
}

/** The Arrow schema of the columns; every field nullable, as Hugging Face readers demand. */
export function arrowSchema(columns: readonly OutputColumn[]): Schema {
  const fieldOf = ({ name, type, arrow }: OutputColumn) =>
    new Field(name, arrow?.type ?? arrowType(type), true, arrow?.metadata);
  return new Schema(columns.map(fieldOf));
}

/** Of values without parts. */
const PLAIN_TYPES = {
  bool: Bool,
  int32: Int32,
  int64: Int64,
  float32: Float32,
  double: Float64,
  string: Utf8,
  json: Utf8,
};

function arrowType(type: ColumnType): DataType {
  // `element` is Parquet's own name for a list's child
  if (type.kind === 'list') return new List(new Field('element', arrowType(type.element), true));
  if (type.kind !== 'struct') return new PLAIN_TYPES[type.kind]();
  return new Struct(type.fields.map(({ name, type: field }) => new Field(name, arrowType(field), true)));
}

/** A writer of record batches as one of rows, whose values must have been checked against the columns' types (`findMisfit`). */
export function batchedRows(
  batches: BatchWriter,
  schema: Schema,
  columns: readonly OutputColumn[],
): RowWriter {
  const gathered = columns.map((column, n) => {
    return { column, field: schema.fields[n] as Field, cells: [] as unknown[], ranges: [] as OpenRange[] };
  });
  let length = 0;
  return {
    add(row) {
      for (const { column, cells, ranges } of gathered)
        if (column.arrow === undefined) cells.push(column.value(row));
        else addInputRow(ranges, row, column.arrow.name);
      length++;
    },
    async flush() {
      if (length === 0) return;
      const children = gathered.map(({ column: { name, type, arrow }, field, cells, ranges }) =>
        arrow === undefined
          ? columnData(field.type, type, cells.splice(0), name)
          : gather(field.type, ranges.splice(0), name),
      );
      const batch = batchOf(schema, length, children);
      length = 0;
      await batches.write(batch);
    },
    close: batches.close,
    abort: batches.abort,
  };
}

type OpenRange = { -readonly [Key in keyof Range]: Range[Key] };

/** Of a columnar input's column: rows that follow each other in one batch of it are copied as one range. */
function addInputRow(ranges: OpenRange[], { trace: { source } }: OutputRow, name: string): void {
  const { arrow, file, row } = source;
  const data = arrow?.batch.columns.get(name);
  if (arrow === undefined || data === undefined)
    throw new Error(`${file}:${row}: no column ${name} of a columnar input`);
  const last = ranges.at(-1);
  if (last?.data === data && last.to === arrow.index) last.to++;
  else ranges.push({ data, from: arrow.index, to: arrow.index + 1 });
}

type Bytes = ArrayBufferView | ArrayBufferLike;

/** Opens a writer of batches of one schema, whose metadata becomes the file's; the schema goes out even where there is no batch. */
export function openArrowBatches(sink: ByteSink, schema: Schema, layout: 'stream' | 'file'): BatchWriter {
  const writer = layout === 'stream' ? new RecordBatchStreamWriter() : new RecordBatchFileWriter();
  const chunks: Uint8Array[] = [];
  // it would queue bytes without end (no back-pressure): they are handed over after each batch.
  // `_position` has to be kept: the file's footer is made of it
  const own = writer as unknown as { _position: number; _write(bytes: Bytes): unknown };
  own._write = (bytes) => {
    const chunk = ArrayBuffer.isView(bytes)
      ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      : new Uint8Array(bytes);
    if (chunk.length > 0) chunks.push(chunk);
    own._position += chunk.length;
    return writer;
  };
  writer.reset(undefined, schema);

  async function flush(): Promise<void> {
    const bytes = Buffer.concat(chunks.splice(0));
    if (bytes.length > 0) await sink.write(bytes);
  }
  return {
    async write(batch) {
      // arrow would begin another file behind this one
      if (!util.compareSchemas(schema, batch.schema))
        throw new Error('a batch has other columns than its file');
      writer.write(batch);
      await flush();
    },
    async close(facts) {
      writer.close();
      await flush();
      await sink.finish(facts);
    },
    abort: () => sink.abort(),
  };
}
