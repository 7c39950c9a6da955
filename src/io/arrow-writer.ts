// Output rows in, Arrow IPC bytes out: the stream format for pipes, the file format for files.

import { open } from 'node:fs/promises';
import {
  MessageReader,
  RecordBatchFileWriter,
  RecordBatchReader,
  RecordBatchStreamWriter,
  type Schema,
  util,
} from 'apache-arrow';
import { throwIfInterrupted } from '../errors.js';
import { arrowSchema, batchBuilder } from './arrow-batch.js';
import type { OutputColumn } from './columns.js';
import { fileError } from './file-error.js';
import type { BatchWriter } from './parquet.js';
import { batchedRows, type RowWriter } from './row-writer.js';
import type { ByteSink } from './stdout.js';
import { readWhole } from './whole.js';

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

/** The lengths of a batch in a file, as its footer has them. */
interface Block {
  readonly metaDataLength: number;
  readonly bodyLength: number;
}

class StreamChunks extends RecordBatchStreamWriter {
  chunks: Uint8Array[] = [];
  /** A batch as another file has it, byte for byte. */
  copy(bytes: Uint8Array, _: Block): void {
    this._write(bytes);
  }
  protected override _write(bytes: Bytes): this {
    this._position += collect(this.chunks, bytes);
    return this;
  }
}

class FileChunks extends RecordBatchFileWriter {
  chunks: Uint8Array[] = [];
  copy(bytes: Uint8Array, { metaDataLength, bodyLength }: Block): void {
    this._recordBatchBlocks.push({ metaDataLength, bodyLength, offset: this._position });
    this._write(bytes);
  }
  protected override _write(bytes: Bytes): this {
    this._position += collect(this.chunks, bytes);
    return this;
  }
}

/** Writes the batches of other Arrow files, of either layout, which have to have the columns of the first. */
export async function copyArrow(
  sink: ByteSink,
  sources: readonly string[],
  layout: 'stream' | 'file',
  signal: AbortSignal,
): Promise<number> {
  const writer = layout === 'stream' ? new StreamChunks() : new FileChunks();
  let schema: Schema | undefined;
  let rows = 0;
  const flush = async (): Promise<void> => {
    throwIfInterrupted(signal);
    const chunks = writer.chunks.splice(0);
    // one call for the many buffers of a batch
    const bytes = chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks);
    if (bytes.length > 0) await sink.write(bytes);
  };
  async function copy(path: string): Promise<void> {
    await using file = await open(path, 'r');
    const reader = await (await RecordBatchReader.from(file)).open();
    if (schema === undefined) writer.reset(undefined, reader.schema);
    else if (!util.compareSchemas(schema, reader.schema))
      throw new Error(`${path} has other columns than ${sources[0]}`);
    schema ??= reader.schema;
    // a batch says nothing of its place, so it need not be taken apart
    for (const block of reader.isFile() ? (reader.footer?.recordBatches() ?? []) : []) {
      const bytes = Buffer.allocUnsafeSlow(block.metaDataLength + block.bodyLength);
      await readWhole(file, bytes, block.offset, path);
      rows += rowsOfBatch(bytes);
      writer.copy(bytes, block);
      await flush();
    }
    if (reader.isFile()) return;
    for await (const batch of reader) {
      rows += batch.numRows;
      writer.write(batch);
      await flush();
    }
  }
  for (const path of sources)
    await copy(path).catch((error: unknown) => {
      throw fileError(error, path, 'read');
    });
  writer.close();
  await flush();
  await sink.commit();
  return rows;
}

function rowsOfBatch(bytes: Uint8Array): number {
  const header = new MessageReader(bytes).readMessage()?.header();
  // the header of a record batch
  return Number((header as { readonly length?: number } | undefined)?.length);
}

/** Writes record batches; the schema goes out even where there is no row. */
export function openArrowWriter(
  sink: ByteSink,
  columns: readonly OutputColumn[],
  options: { layout: 'stream' | 'file'; metadata: Readonly<Record<string, string>> },
): RowWriter {
  const schema = arrowSchema(columns, options.metadata);
  return batchedRows(openArrowBatches(sink, schema, options.layout), batchBuilder(schema, columns));
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
      writer.write(batch);
      await flush();
    },
    async writeStream(stream) {
      const { bytes, block } = onlyBatch(stream);
      writer.copy(bytes, block);
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

/** Marker and length before the metadata of a message; a message without any ends a stream. */
const PREFIX_BYTES = 8;

/** The message of a batch, out of an Arrow IPC stream that holds a schema, this batch and its end. */
function onlyBatch(stream: Uint8Array): { readonly bytes: Uint8Array; readonly block: Block } {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength);
  const start = PREFIX_BYTES + view.getInt32(4, true);
  const bytes = stream.subarray(start, stream.length - PREFIX_BYTES);
  const metaDataLength = PREFIX_BYTES + view.getInt32(start + 4, true);
  return { bytes, block: { metaDataLength, bodyLength: bytes.length - metaDataLength } };
}
