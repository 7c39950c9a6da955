// Pieces of chunks in input order in, one file or several of a bounded size out.
import { Field, type RecordBatch, Schema } from 'apache-arrow';
import { parquetType } from './arrow-types.js';
import { AtomicFile } from './atomic-file.js';
import { gatherRows, type Piece } from './gather.js';
import { openGzipSink } from './gzip.js';
import type { ChunkHeader, Lines } from './merge-source.js';
import type { OutputFormat } from './output.js';
import type { BatchWriter } from './parquet.js';
import { refuseUnwritable } from './parquet-types.js';
import type { ByteSink } from './stdout.js';

/** Where pieces of chunks end. */
export interface PieceWriter<T> {
  /** @param compression compressed bytes for one that is not */
  write(pieces: readonly Piece<T>[], header: ChunkHeader, compression: number): Promise<void>;
  /** makes the last file visible; there is one even where nothing was written */
  close(header: ChunkHeader): Promise<void>;
  /** harmless after `close` */
  abort(): Promise<void>;
}

/** How the output is cut into files. */
export interface Rotation {
  nextPath(): string;
  /** bytes, as estimated, at which the next file is begun; undefined: there is no next one */
  readonly limit: number | undefined;
  /** bytes that no file may reach */
  readonly maxFileBytes: number | undefined;
}

/** Writes columnar files. */
export function batchWriter(
  format: Exclude<OutputFormat, 'jsonl'>,
  { nextPath, limit = Number.POSITIVE_INFINITY, maxFileBytes }: Rotation,
): PieceWriter<RecordBatch> {
  let file: BatchWriter | undefined;
  let bytes = 0;
  const written = format === 'parquet' ? parquetSchema : (schema: Schema) => schema;
  async function openFile({ schema: found, metadata }: ChunkHeader): Promise<BatchWriter> {
    const schema = written(found);
    const path = nextPath();
    if (format === 'parquet') refuseUnwritable(path, schema.fields);
    const target = await AtomicFile.open(path);
    if (format === 'parquet') {
      const { openParquetBatches } = await import('./parquet.js');
      return openParquetBatches(target, schema, metadata, maxFileBytes === undefined ? {} : { maxFileBytes });
    }
    const { openArrowBatches } = await import('./arrow-writer.js');
    const layout = path.toLowerCase().endsWith('.arrows') ? 'stream' : 'file';
    return openArrowBatches(target, new Schema(schema.fields, new Map(Object.entries(metadata))), layout);
  }
  async function put(batch: RecordBatch, header: ChunkHeader, compression: number): Promise<void> {
    const size = batch.data.byteLength * (format === 'parquet' ? compression : 1);
    if (bytes + size > limit && batch.numRows > 1 && size > limit / 4) {
      // too coarse for files this small
      const half = batch.numRows >> 1;
      await put(slice(batch, 0, half), header, compression);
      await put(slice(batch, half, batch.numRows), header, compression);
      return;
    }
    if (bytes + size > limit && file !== undefined) {
      await file.close();
      file = undefined;
      bytes = 0;
    }
    file ??= await openFile(header);
    bytes += size;
    await file.write(batch);
  }
  return {
    write: (pieces, header, compression) =>
      put(gatherRows(written(header.schema), pieces), header, compression),
    async close(header) {
      file ??= await openFile(header);
      await file.close();
    },
    async abort() {
      await file?.abort();
    },
  };
}

/** Chunks of Arrow may have types that Parquet lacks. */
function parquetSchema({ fields }: Schema): Schema {
  return new Schema(
    fields.map(
      ({ name, type, nullable, metadata }) => new Field(name, parquetType(type), nullable, metadata),
    ),
  );
}

function slice(batch: RecordBatch, from: number, to: number): RecordBatch {
  return gatherRows(batch.schema, [{ unit: batch, from, to }]);
}

/** Writes JSONL files: lines as they are. */
export function lineWriter({ nextPath, limit = Number.POSITIVE_INFINITY }: Rotation): PieceWriter<Lines> {
  let file: ByteSink | undefined;
  let bytes = 0;
  let pending: Uint8Array[] = [];
  async function flush(): Promise<void> {
    file ??= await openLines(nextPath());
    await file.write(Buffer.concat(pending));
    pending = [];
  }
  async function add(lines: Uint8Array): Promise<void> {
    if (bytes > 0 && bytes + lines.length > limit) {
      await flush();
      await file?.commit();
      file = undefined;
      bytes = 0;
    }
    bytes += lines.length;
    pending.push(lines);
  }
  return {
    async write(pieces) {
      for (const { unit, from, to } of pieces) {
        const lines = (a: number, b: number) => unit.bytes.subarray(unit.starts[a], unit.starts[b]);
        if (limit === Number.POSITIVE_INFINITY) await add(lines(from, to));
        else for (let n = from; n < to; n++) await add(lines(n, n + 1));
      }
      await flush();
    },
    async close() {
      await flush();
      await file?.commit();
    },
    async abort() {
      await file?.abort();
    },
  };
}

async function openLines(path: string): Promise<ByteSink> {
  const file = await AtomicFile.open(path);
  return path.toLowerCase().endsWith('.gz') ? openGzipSink(file) : file;
}
