// Output rows in, one Parquet file out, through a worker thread that is never trusted to be right.

import { Worker } from 'node:worker_threads';
import type { RecordBatch, Schema } from 'apache-arrow';
import { EXIT, RredcotError, throwIfInterrupted } from '../errors.js';
import { arrowSchema, batchBuilder, batchStream } from './arrow-batch.js';
import { parquetType } from './arrow-types.js';
import type { AtomicFile } from './atomic-file.js';
import type { OutputColumn } from './columns.js';
import { fileError } from './file-error.js';
import { gatherRows } from './gather.js';
import type { FromParquetWorker, ParquetJob, ToParquetWorker } from './parquet-worker.js';
import { batchedRows, type RowWriter } from './row-writer.js';

/** Raw bytes of a row group: larger ones cost every reader memory, smaller ones compress worse. */
const ROW_GROUP_BYTES = 48 * 2 ** 20;
/** The format goes on, parquet-wasm's offsets end at 2^32; a row group and the footer still fit above. */
const MAX_FILE_BYTES = 4_000_000_000;
/** Raw bytes of the batches that tell how large a row is: the first one alone may be a row of unusual size. */
const SAMPLE_BYTES = 8 * 2 ** 20;
/** Batches on their way to the worker: one being encoded, one waiting. */
const MAX_BATCHES_IN_FLIGHT = 2;
/** Raw bytes that are copied from file to file at a time. */
const COPY_BYTES = 8 * 2 ** 20;
/** Values that repeat from row to row, in flat columns: parquet-wasm knows no others by name. */
const DICTIONARY_COLUMNS: readonly string[] = ['group', 'status'];

/** Limits that tests lower. */
export interface ParquetLimits {
  readonly rowGroupBytes?: number;
  readonly maxFileBytes?: number;
}

/** Writes record batches to one file. */
export interface BatchWriter {
  /** copies the batch before it first waits: what the batch is made of may be used again */
  write(batch: RecordBatch): Promise<void>;
  /** the same for an Arrow IPC stream of one batch, which may be given away. @param rows in it */
  writeStream(stream: Uint8Array, rows: number): Promise<void>;
  /** @returns as `ByteSink.commit` */
  close(): Promise<string | null>;
  abort(): Promise<void>;
}

/** Opens a Parquet writer on a file. */
export function openParquetWriter(
  file: AtomicFile,
  columns: readonly OutputColumn[],
  metadata: Readonly<Record<string, string>>,
  limits: ParquetLimits = {},
): RowWriter {
  const schema = arrowSchema(columns, {}, parquetType);
  return batchedRows(openParquetBatches(file, schema, metadata, limits), batchBuilder(schema, columns));
}

/** Opens a Parquet writer that takes record batches of one schema, which has no metadata of its own. */
export function openParquetBatches(
  file: AtomicFile,
  schema: Schema,
  metadata: Readonly<Record<string, string>>,
  limits: ParquetLimits = {},
): BatchWriter {
  const { rowGroupBytes = ROW_GROUP_BYTES, maxFileBytes = MAX_FILE_BYTES } = limits;
  const sampleBytes = Math.min(SAMPLE_BYTES, rowGroupBytes);
  let encoder: ParquetEncoder | null = null;
  let rowsWritten = 0;
  /** what came before the encoder was started */
  let held: { readonly ipc: Uint8Array; readonly rows: number }[] = [];
  let heldBytes = 0;

  // the encoder counts a group in rows, so the first batches tell how many make the bytes
  async function start(): Promise<ParquetEncoder> {
    encoder = startEncoder(file, {
      descriptor: file.descriptor,
      temporaryPath: file.temporaryPath,
      metadata,
      dictionaryColumns: schema.names.map(String).filter((name) => DICTIONARY_COLUMNS.includes(name)),
      rowsPerGroup: Math.max(1, Math.round((rowGroupBytes / heldBytes) * rowsWritten)),
      rowGroupBytes,
      maxFileBytes,
    });
    for (const { ipc, rows } of held.splice(0)) await encoder.send(ipc, rows);
    return encoder;
  }
  async function writeStream(ipc: Uint8Array, rows: number): Promise<void> {
    rowsWritten += rows;
    if (encoder !== null) return encoder.send(ipc, rows);
    held.push({ ipc, rows });
    heldBytes += ipc.length;
    if (heldBytes >= sampleBytes) await start();
  }
  const write = (batch: RecordBatch): Promise<void> => writeStream(batchStream(batch), batch.numRows);
  return {
    write,
    writeStream,
    async close() {
      // a stream without any batch makes no file: an empty one makes an empty file
      if (rowsWritten === 0) await write(gatherRows(schema, []));
      const rows = await (encoder ?? (await start())).close();
      if (rows !== rowsWritten) {
        throw new Error(`${file.path}: ${rowsWritten} rows were written, the file holds ${rows}`);
      }
      return file.commit();
    },
    async abort() {
      held = [];
      await encoder?.terminate();
      await file.abort();
    },
  };
}

/**
 * A Parquet file with all rows of others, which have to have the same columns.
 * @param signal ends it early, with an error
 */
export async function copyParquet(
  file: AtomicFile,
  sources: readonly string[],
  { rows, rawBytes }: { readonly rows: number; readonly rawBytes: number },
  metadata: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  throwIfInterrupted(signal);
  const bytesPerRow = Math.max(1, rawBytes / Math.max(1, rows));
  const encoder = startEncoder(file, {
    descriptor: file.descriptor,
    temporaryPath: file.temporaryPath,
    metadata,
    dictionaryColumns: DICTIONARY_COLUMNS,
    rowsPerGroup: Math.max(1, Math.round(ROW_GROUP_BYTES / bytesPerRow)),
    rowGroupBytes: ROW_GROUP_BYTES,
    maxFileBytes: MAX_FILE_BYTES,
    sources,
    rowsPerBatch: Math.min(1024, Math.max(1, Math.round(COPY_BYTES / bytesPerRow))),
  });
  // gigabytes take longer than a scheduler waits
  const stop = (): void => void encoder.terminate();
  signal.addEventListener('abort', stop);
  const found = await encoder.close().finally(() => signal.removeEventListener('abort', stop));
  if (found !== rows)
    throw new Error(`${file.path}: ${rows} rows were to be copied, the file holds ${found}`);
  await file.commit();
}

/** The worker thread, seen from the main thread. */
export interface ParquetEncoder {
  /** Hands over a batch; waits while enough are on their way. The bytes are moved, not copied. */
  send(ipc: Uint8Array, rows: number): Promise<void>;
  /** Ends the file and returns the row count of its footer. */
  close(): Promise<number>;
  terminate(): Promise<void>;
}

/** Starts the worker; every failure of it, a crash too, rejects the call under way and all later ones. */
export function startEncoder(file: { readonly path: string }, job: ParquetJob): ParquetEncoder {
  const worker = new Worker(new URL('./parquet-worker.js', import.meta.url), { workerData: job });
  let inFlight = 0;
  let rows: number | null = null;
  let failure: unknown = null;
  const waiting: (() => void)[] = [];

  const wake = (): void => {
    for (const resume of waiting.splice(0)) resume();
  };
  const fail = (error: unknown): void => {
    failure ??= error;
    wake();
  };
  worker.on('message', (message: FromParquetWorker) => {
    if (message.kind === 'taken') inFlight--;
    else if (message.kind === 'closed') rows = message.rows;
    else fail(encoderError(file.path, message));
    wake();
  });
  // what a thread has said comes before its exit, not before its crash
  let end = 'ended early';
  worker.on('error', (error) => {
    end = `crashed: ${error.message}`;
  });
  worker.on('exit', () => {
    if (rows === null) fail(new Error(`${file.path}: the Parquet encoder ${end}`));
  });

  async function until(isDone: () => boolean): Promise<void> {
    while (failure === null && !isDone()) {
      await new Promise<void>((resolve) => waiting.push(resolve));
    }
    if (failure !== null) throw failure;
  }
  const post = (message: ToParquetWorker, moved: ArrayBuffer[] = []): void =>
    worker.postMessage(message, moved);

  return {
    async send(ipc, rowCount) {
      await until(() => inFlight < MAX_BATCHES_IN_FLIGHT);
      inFlight++;
      post({ kind: 'batch', ipc, rows: rowCount }, [ipc.buffer as ArrayBuffer]);
    },
    async close() {
      post({ kind: 'close' });
      await until(() => rows !== null);
      return rows as unknown as number;
    },
    async terminate() {
      await worker.terminate();
    },
  };
}

function encoderError(
  path: string,
  { message, code, path: at }: FromParquetWorker & { readonly kind: 'failed' },
): unknown {
  if (code === 'TOO_LARGE') {
    return new RredcotError(`${path}: ${message} cannot be written`, {
      exitCode: EXIT.usage,
      hint: 'split the input, or write an .arrow file',
    });
  }
  return fileError(
    Object.assign(new Error(`${path}: Parquet: ${message}`), code && { code, path: at }),
    path,
    'written',
  );
}
