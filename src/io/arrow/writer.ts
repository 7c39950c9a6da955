// Writes output rows as Arrow IPC: the stream format for pipes, the file format for files.

import { RecordBatchFileWriter, RecordBatchStreamWriter, type Schema, util } from 'apache-arrow';
import type { ByteSink } from '../files/stdout.js';
import { arrowSchema, batchBuilder, batchedRows } from './batch.js';
import type { OutputColumn } from './output-columns.js';
import type { BatchWriter, RowWriter } from './row-writer.js';

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
