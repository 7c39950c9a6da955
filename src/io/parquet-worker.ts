// Worker thread: Arrow IPC batches in by message, or the rows of other Parquet files; Parquet bytes out to an open file.
//
// A thread of its own because a wasm panic inside parquet-wasm escapes every promise: here it ends the
// thread, which the main thread sees as an 'error' event, and the wrecked module goes with it.

import { writeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { ReadableStream } from 'node:stream/web';
import { parentPort, workerData } from 'node:worker_threads';
import {
  Compression,
  EnabledStatistics,
  ParquetFile,
  type RecordBatch,
  Table,
  transformParquetStream,
  WriterPropertiesBuilder,
  WriterVersion,
} from 'parquet-wasm/node';
import { blobOfFile } from './file-blob.js';

/** Values of a column that are encoded at a time: eight times the default, for a tenth less time. */
const WRITE_BATCH_VALUES = 8192;

/** What the thread is started with. */
export interface ParquetJob {
  /** open for writing, shared with the main thread */
  readonly descriptor: number;
  /** the same file's name, to re-read its footer */
  readonly temporaryPath: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly dictionaryColumns: readonly string[];
  readonly rowsPerGroup: number;
  readonly rowGroupBytes: number;
  readonly maxFileBytes: number;
  /** Parquet files whose rows are copied, one after the other; undefined: rows come by message */
  readonly sources?: readonly string[] | undefined;
  /** rows that are copied at a time */
  readonly rowsPerBatch?: number | undefined;
}

export type ToParquetWorker =
  | { readonly kind: 'batch'; readonly ipc: Uint8Array; readonly rows: number }
  | { readonly kind: 'close' };

export type FromParquetWorker =
  | { readonly kind: 'taken' }
  | { readonly kind: 'closed'; readonly rows: number; readonly bytes: number }
  | {
      readonly kind: 'failed';
      readonly message: string;
      readonly code?: string | undefined;
      readonly path?: string | undefined;
    };

if (parentPort === null) throw new Error('parquet-worker runs as a worker thread');
const port = parentPort;
const job = workerData as ParquetJob;
const post = (message: FromParquetWorker): void => port.postMessage(message);

const inbox: ToParquetWorker[] = [];
let wake: (() => void) | null = null;
port.on('message', (message: ToParquetWorker) => {
  inbox.push(message);
  wake?.();
});

async function nextMessage(): Promise<ToParquetWorker> {
  while (inbox.length === 0) {
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
  return inbox.shift() as ToParquetWorker;
}

let firstSchema: Uint8Array | null = null;
// parquet-wasm swallows an error of its source and ends with a valid, shorter file: we keep our own
let sourceError: unknown = null;
let rowsFed = 0;

/** A failing read is told at once: after it parquet-wasm panics, and the thread may be gone. */
const tellOf = (path: string) => (error: unknown) =>
  fail(error instanceof Error ? Object.assign(error, { path }) : error);

// the first message of an IPC stream is the schema: names, types, nullability and metadata, byte for byte
function schemaBytes(ipc: Uint8Array): Uint8Array {
  const length = new DataView(ipc.buffer, ipc.byteOffset).getInt32(4, true);
  return ipc.subarray(0, 8 + length);
}

// a batch of another type would lose its rows without an error, so it never gets that far
function decodeBatch(ipc: Uint8Array, rows: number): RecordBatch[] {
  const schema = schemaBytes(ipc);
  firstSchema ??= schema.slice();
  if (Buffer.compare(schema, firstSchema) !== 0) {
    throw new Error('a batch has another schema than the first batch of the file');
  }
  const table = Table.fromIPCStream(ipc);
  try {
    const batches = table.recordBatches();
    const decoded = batches.reduce((sum, batch) => sum + batch.numRows, 0);
    if (decoded !== rows) throw new Error(`a batch of ${rows} rows was decoded as ${decoded} rows`);
    return batches;
  } finally {
    table.free();
  }
}

/** Batches as the main thread sends them. */
async function* sentBatches(): AsyncGenerator<RecordBatch> {
  for (;;) {
    const message = await nextMessage();
    if (message.kind === 'close') return;
    yield* decodeBatch(message.ipc, message.rows);
    post({ kind: 'taken' });
  }
}

/** The rows of other files; every file has to have the columns of the first. */
async function* copiedBatches(sources: readonly string[]): AsyncGenerator<RecordBatch> {
  for (const path of sources) {
    await using handle = await open(path, 'r');
    const file = await ParquetFile.fromFile(await blobOfFile(handle, tellOf(path)));
    const expected = file.metadata().fileMetadata().numRows();
    let found = 0;
    const batches = await file.stream({ batchSize: job.rowsPerBatch ?? 1024, concurrency: 1 });
    for await (const batch of batches as unknown as AsyncIterable<RecordBatch>) {
      const schema = schemaBytes(batch.slice(0, 0).intoIPCStream());
      firstSchema ??= schema.slice();
      if (Buffer.compare(schema, firstSchema) !== 0)
        throw new Error(`${path} has other columns than ${sources[0]}`);
      found += batch.numRows;
      yield batch;
    }
    if (found !== expected) throw new Error(`${path}: ${found} rows could be read of ${expected}`);
    file.free();
  }
}

const batches = job.sources === undefined ? sentBatches() : copiedBatches(job.sources);
const source = new ReadableStream<RecordBatch>(
  {
    async pull(controller) {
      try {
        const next = await batches.next();
        if (next.done) {
          port.unref();
          return controller.close();
        }
        rowsFed += next.value.numRows; // before the batch is handed over, and with it its memory
        controller.enqueue(next.value);
      } catch (error) {
        sourceError = error;
        port.unref();
        controller.error(error);
      }
    },
  },
  { highWaterMark: 1 },
);

function writerProperties() {
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

async function run(): Promise<void> {
  const parquet = (await transformParquetStream(
    source as unknown as globalThis.ReadableStream,
    writerProperties(),
  )) as unknown as ReadableStream<Uint8Array>;
  let bytes = 0;
  for await (const chunk of parquet) {
    if (sourceError !== null) throw sourceError;
    bytes += chunk.length;
    // offsets in the footer would wrap at 2^32 and the file be unreadable
    if (bytes > job.maxFileBytes) {
      throw Object.assign(new Error(`a Parquet file of over ${job.maxFileBytes} bytes`), {
        code: 'TOO_LARGE',
      });
    }
    for (let at = 0; at < chunk.length; ) at += writeSync(job.descriptor, chunk, at);
  }
  port.ref();
  if (sourceError !== null) throw sourceError;

  await using written = await open(job.temporaryPath, 'r');
  const file = await ParquetFile.fromFile(await blobOfFile(written, tellOf(job.temporaryPath)));
  const rows = file.metadata().fileMetadata().numRows();
  file.free();
  if (rows !== rowsFed) throw new Error(`${rowsFed} rows went in, the file's footer counts ${rows}`);
  post({ kind: 'closed', rows, bytes });
}

function fail(caught: unknown): void {
  const error = sourceError ?? caught;
  const { code, path } = error as NodeJS.ErrnoException;
  post({ kind: 'failed', message: error instanceof Error ? error.message : String(error), code, path });
}

// parquet-wasm drops what its writer throws, and may then never end its stream. Once all batches are in, the port keeps
// the thread alive no longer: one that still waits has run out of work, and ends here.
const dropped = new Error('parquet-wasm dropped rows and did not say why');
const failAtExit = (): void => fail(dropped);
process.once('exit', failAtExit);

run()
  .catch(fail)
  .finally(() => {
    process.off('exit', failAtExit);
    port.close();
  });
