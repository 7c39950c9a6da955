// Worker thread, as a panic of parquet-wasm ends it and the wrecked module with it: Arrow IPC batches in by message, Parquet bytes out to an open file.

import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { TransformStream, type WritableStreamDefaultWriter } from 'node:stream/web';
import type { RecordBatch } from 'parquet-wasm/node';
import { failThread, serve } from '../../thread.js';
import { openFile } from '../files/files.js';
import { openParquetFile } from './file.js';

/** Values of a column that are encoded at a time: eight times the default, for a tenth less time. */
const WRITE_BATCH_VALUES = 8192;

type ParquetWasm = typeof import('parquet-wasm/node');

export interface ParquetJob {
  readonly path: string;
  /** open for writing, shared with the main thread */
  readonly descriptor: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly dictionaryColumns: readonly string[];
  readonly rowsPerGroup: number;
  readonly rowGroupBytes: number;
  readonly maxFileBytes: number;
}

/** The file that is being written. */
interface File {
  readonly path: string;
  readonly wasm: ParquetWasm;
  readonly feed: WritableStreamDefaultWriter<RecordBatch>;
  readonly written: Promise<void>;
  /** of its first batch */
  schema?: Uint8Array;
  rowsFed: number;
}
let current: File;

/**
 * parquet-wasm as nobody has used it: the order of a footer's metadata depends on all that the module has done before,
 * and the bytes of a file must not. The 60 ms that its code takes to compile are spent once.
 */
function loadParquetWasm(): ParquetWasm {
  const require = createRequire(import.meta.url); // one of its own, since it remembers what it has loaded
  delete require.cache[require.resolve('parquet-wasm/node')];
  return require('parquet-wasm/node');
}

// a batch of another type would lose its rows without an error, so it never gets that far
function decodeBatch(file: File, ipc: Uint8Array, rows: number): RecordBatch[] {
  // the first message of an IPC stream is the schema: names, types, nullability and metadata, byte for byte
  const schemaLength = new DataView(ipc.buffer, ipc.byteOffset).getInt32(4, true);
  const schema = ipc.subarray(0, 8 + schemaLength);
  file.schema ??= schema.slice();
  if (Buffer.compare(schema, file.schema) !== 0)
    throw new Error('a batch has another schema than the first batch of the file');
  const table = file.wasm.Table.fromIPCStream(ipc);
  try {
    const batches = table.recordBatches();
    const decoded = batches.reduce((sum, batch) => sum + batch.numRows, 0);
    if (decoded !== rows) throw new Error(`a batch of ${rows} rows was decoded as ${decoded} rows`);
    return batches;
  } finally {
    table.free();
  }
}

function writerProperties(wasm: ParquetWasm, job: ParquetJob) {
  const { Compression, EnabledStatistics, WriterPropertiesBuilder, WriterVersion } = wasm;
  let builder = new WriterPropertiesBuilder()
    .setCompression(Compression.ZSTD)
    // whole numbers by their differences, text by what it shares with the one before: half the time of plain pages, and
    // within 8 % of their size
    .setWriterVersion(WriterVersion.V2)
    .setWriteBatchSize(WRITE_BATCH_VALUES)
    // on floats a dictionary costs 18 % of the size
    .setDictionaryEnabled(false)
    .setStatisticsEnabled(EnabledStatistics.Chunk)
    .setMaxRowGroupSize(job.rowsPerGroup)
    // counts bytes as compressed: the bound for a file whose rows grow
    .setMaxRowGroupBytes(job.rowGroupBytes)
    .setKeyValueMetadata(new Map(Object.entries(job.metadata)));
  for (const column of job.dictionaryColumns) builder = builder.setColumnDictionaryEnabled(column, true);
  return builder.build();
}

// parquet-wasm drops what its writer throws, and may then never end its stream: the thread runs out of work
const dropped = new Error('parquet-wasm dropped rows and did not say why');
process.once('exit', (code) => {
  if (code === 0) failThread(dropped);
});

/** Writes what the stream has. */
async function writeFile(wasm: ParquetWasm, job: ParquetJob, batches: unknown): Promise<void> {
  const parquet = (await wasm.transformParquetStream(
    batches as globalThis.ReadableStream,
    writerProperties(wasm, job),
  )) as unknown as AsyncIterable<Uint8Array>;
  const { maxFileBytes } = job;
  let bytes = 0;
  for await (const chunk of parquet) {
    bytes += chunk.length;
    // offsets in the footer would wrap at 2^32 and the file be unreadable
    if (bytes > maxFileBytes)
      throw Object.assign(new Error(`a Parquet file of over ${maxFileBytes} bytes`), { code: 'TOO_LARGE' });
    for (let at = 0; at < chunk.length; ) at += writeSync(job.descriptor, chunk, at);
  }
}

const functions = {
  begin(job: ParquetJob): void {
    // its readable side holds nothing: a batch is taken when the encoder has done with the one before
    const { readable, writable } = new TransformStream<RecordBatch, RecordBatch>();
    const wasm = loadParquetWasm();
    const written = writeFile(wasm, job, readable);
    // parquet-wasm may never take another batch after it: the call that waits for that cannot fail by itself
    written.catch(failThread);
    current = { path: job.path, wasm, feed: writable.getWriter(), written, rowsFed: 0 };
  },
  /** Ends where the batch is being encoded. @throws Error for one that is not as the file's first */
  async batch(ipc: Uint8Array, rows: number): Promise<void> {
    for (const batch of decodeBatch(current, ipc, rows)) {
      current.rowsFed += batch.numRows; // before the batch is handed over, and with it its memory
      try {
        await current.feed.write(batch);
      } catch {
        await current.written; // says why, unless parquet-wasm has ended with a valid, shorter file
        throw dropped;
      }
    }
  },
  /** Ends the file. @returns the rows that went in. @throws Error where the file, as it lies on the disk, counts others */
  async end(): Promise<number> {
    const { feed, written, rowsFed, wasm, path } = current;
    await feed.close();
    await written;
    await using file = await openFile(path);
    const parquet = await openParquetFile(wasm, file, path, failThread);
    // parquet-wasm may have dropped rows without a word
    const rows = parquet.metadata().fileMetadata().numRows();
    parquet.free();
    if (rows !== rowsFed) throw new Error(`${rowsFed} rows went in, the file's footer counts ${rows}`);
    return rows;
  },
};
export type EncoderThread = typeof functions;
serve(functions);
