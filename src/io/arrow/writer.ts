// Gathers output rows in record batches, and writes these as Arrow IPC: the stream format for pipes, the file format for files.

import {
  Bool,
  type Data,
  type DataType,
  Field,
  Float32,
  Float64,
  Int32,
  Int64,
  List,
  makeData,
  RecordBatch,
  RecordBatchFileWriter,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  Utf8,
  util,
} from 'apache-arrow';
import type { OutputRow } from '../../scored.js';
import { alsoTo, type ByteSink } from '../files/stdout.js';
import type { ColumnBuilder } from './column-builder.js';
import { columnBuilder } from './column-builders.js';
import { gather, type Range } from './gather.js';
import type { OutputColumn } from './output-columns.js';
import type { ColumnType } from './schema.js';

/** Writes rows in one format to one place. */
export interface RowWriter {
  /** takes what is written of a row; the row itself is not kept */
  add(row: OutputRow): void;
  /** writes what was added since the last time */
  flush(): Promise<void>;
  /** @returns as `ByteSink.commit` */
  close(): Promise<string | null>;
  abort(): Promise<void>;
}

/** Writes record batches to one file. */
export interface BatchWriter {
  /** copies the batch before it first waits: what the batch is made of may be used again */
  write(batch: RecordBatch): Promise<void>;
  /** @returns as `ByteSink.commit` */
  close(): Promise<string | null>;
  abort(): Promise<void>;
}

/**
 * The Arrow schema of the columns; every field nullable, as Hugging Face readers demand.
 * @param inputType the type in which a columnar input's column is written
 */
export function arrowSchema(
  columns: readonly OutputColumn[],
  metadata: Readonly<Record<string, string>>,
  inputType: (type: DataType) => DataType = (type) => type,
): Schema {
  const fields = columns.map(({ name, type, arrow }) =>
    arrow === undefined
      ? new Field(name, arrowType(type), true)
      : new Field(name, inputType(arrow.type), true, arrow.metadata),
  );
  return new Schema(fields, new Map(Object.entries(metadata)));
}

function arrowType(type: ColumnType): DataType {
  switch (type.kind) {
    case 'bool':
      return new Bool();
    case 'int32':
      return new Int32();
    case 'int64':
      return new Int64();
    case 'float32':
      return new Float32();
    case 'double':
      return new Float64();
    case 'string':
    case 'json':
      return new Utf8();
    case 'list':
      // `element` is Parquet's own name for a list's child
      return new List(new Field('element', arrowType(type.element), true));
    case 'struct':
      return new Struct(type.fields.map(({ name, type: field }) => new Field(name, arrowType(field), true)));
  }
}

/** Gathers rows; of a row no more is kept than its values. */
export interface BatchBuilder {
  add(row: OutputRow): void;
  /** The rows since the last time, as a batch that is good until the next row; null where there were none. */
  finish(): RecordBatch | null;
}

/** Starts batches of `columns`; the rows' values must have been checked against the columns' types (`findMisfit`). */
export function batchBuilder(schema: Schema, columns: readonly OutputColumn[]): BatchBuilder {
  const type = new Struct(schema.fields);
  const builders = columns.map((column, n) => {
    const field = schema.fields[n] as Field;
    return column.arrow === undefined
      ? valueColumn(columnBuilder(field.type, column.type, column.name), column.value)
      : inputColumn(field, column.arrow.name);
  });
  let length = 0;
  return {
    add(row) {
      for (let n = 0; n < builders.length; n++) (builders[n] as BuiltColumn).add(row);
      length++;
    },
    finish() {
      if (length === 0) return null;
      const children = builders.map((builder) => builder.finish());
      const data = makeData({ type, length, nullCount: 0, children });
      length = 0;
      return new RecordBatch(schema, data);
    },
  };
}

/** A batch as an Arrow IPC stream of its own, in memory of its own. */
export function batchStream(batch: RecordBatch): Uint8Array<ArrayBuffer> {
  return RecordBatchStreamWriter.writeAll([batch]).toUint8Array(true) as Uint8Array<ArrayBuffer>;
}

/** A writer of record batches as one of rows. */
export function batchedRows(batches: BatchWriter, rows: BatchBuilder): RowWriter {
  return {
    add: (row) => rows.add(row),
    async flush() {
      const batch = rows.finish();
      if (batch !== null) await batches.write(batch);
    },
    close: () => batches.close(),
    abort: () => batches.abort(),
  };
}

interface BuiltColumn {
  add(row: OutputRow): void;
  finish(): Data;
}

function valueColumn(builder: ColumnBuilder, value: OutputColumn['value']): BuiltColumn {
  return {
    add: (row) => builder.append(value(row)),
    finish: () => builder.finish(),
  };
}

/** A columnar input's column: rows that follow each other in one batch of it are copied as one range. */
function inputColumn({ type, name: as }: Field, name: string): BuiltColumn {
  let ranges: { data: Data; from: number; to: number }[] = [];
  return {
    add({ trace }) {
      const { arrow, file, row } = trace.source;
      const data = arrow?.batch.columns.get(name);
      if (arrow === undefined || data === undefined)
        throw new Error(`${file}:${row}: no column ${name} of a columnar input`);
      const last = ranges.at(-1);
      if (last?.data === data && last.to === arrow.index) last.to++;
      else ranges.push({ data, from: arrow.index, to: arrow.index + 1 });
    },
    finish() {
      const found: readonly Range[] = ranges;
      ranges = [];
      return gather(type, found, as);
    },
  };
}

type Bytes = ArrayBufferView | ArrayBufferLike;

// arrow's writers queue bytes without end (no back-pressure): these hand them over after each batch.
// `_position` has to be kept: the file's footer is made of it
function collect(chunks: Uint8Array[], bytes: Bytes): number {
  const chunk = ArrayBuffer.isView(bytes)
    ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    : new Uint8Array(bytes);
  if (chunk.length > 0) chunks.push(chunk);
  return chunk.length;
}

class StreamChunks extends RecordBatchStreamWriter {
  chunks: Uint8Array[] = [];
  protected override _write(bytes: Bytes): this {
    this._position += collect(this.chunks, bytes);
    return this;
  }
}

class FileChunks extends RecordBatchFileWriter {
  chunks: Uint8Array[] = [];
  protected override _write(bytes: Bytes): this {
    this._position += collect(this.chunks, bytes);
    return this;
  }
}

/** Writes record batches; the schema goes out even where there is no row. */
export function openArrowWriter(
  sink: ByteSink,
  columns: readonly OutputColumn[],
  options: {
    readonly layout: 'stream' | 'file';
    readonly metadata: Readonly<Record<string, string>>;
    /** is given the batches too */
    readonly also?: BatchWriter | undefined;
  },
): RowWriter {
  const schema = arrowSchema(columns, options.metadata);
  const own = openArrowBatches(sink, schema, options.layout);
  return batchedRows(alsoTo<RecordBatch, BatchWriter>(own, options.also), batchBuilder(schema, columns));
}

/** The same for batches of one schema, whose metadata becomes the file's. */
export function openArrowBatches(sink: ByteSink, schema: Schema, layout: 'stream' | 'file'): BatchWriter {
  const writer = layout === 'stream' ? new StreamChunks() : new FileChunks();
  writer.reset(undefined, schema);

  async function flush(): Promise<void> {
    const chunks = writer.chunks.splice(0);
    const bytes = chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks);
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
    async close() {
      writer.close();
      await flush();
      return sink.commit();
    },
    abort: () => sink.abort(),
  };
}
