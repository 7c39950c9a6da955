// Writes output rows as one Parquet file, through a worker thread that is never trusted to be right.

import { type RecordBatch, RecordBatchStreamWriter, type Schema } from 'apache-arrow';
import { usageError } from '../../errors.js';
import { startThread, type Thread } from '../../thread.js';
import { gatherRows } from '../arrow/columns.js';
import type { BatchWriter } from '../arrow/writer.js';
import type { AtomicFile } from '../files/atomic-file.js';
import { fileError } from '../files/files.js';
import type { EncoderThread, ParquetJob } from './encoder-thread.js';

/** Raw bytes of a row group: larger ones cost every reader memory, smaller ones compress worse. */
const ROW_GROUP_BYTES = 48 * 2 ** 20;
/** The format goes on, parquet-wasm's offsets end at 2^32; a row group and the footer still fit above. */
const MAX_FILE_BYTES = 4_000_000_000;
/** Raw bytes of the batches that tell how large a row is: the first one alone may be a row of unusual size. */
const SAMPLE_BYTES = 8 * 2 ** 20;
/** Batches on their way to the worker: one being encoded, one waiting. */
const MAX_BATCHES_IN_FLIGHT = 2;
/** Values that repeat from row to row, in flat columns: parquet-wasm knows no others by name. */
const DICTIONARY_COLUMNS: readonly string[] = ['group', 'source_file', 'status'];

/** Opens a Parquet writer that takes record batches of one {@link parquetSchema}. @param limits that tests lower */
export function openParquetBatches(
  file: AtomicFile,
  schema: Schema,
  metadata: Readonly<Record<string, string>>,
  limits: { readonly rowGroupBytes?: number; readonly maxFileBytes?: number } = {},
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
    encoder = startEncoder(file.path, {
      path: file.temporaryPath,
      descriptor: file.descriptor,
      metadata,
      dictionaryColumns: schema.names.map(String).filter((name) => DICTIONARY_COLUMNS.includes(name)),
      rowsPerGroup: Math.max(1, Math.round((rowGroupBytes / heldBytes) * rowsWritten)),
      rowGroupBytes,
      maxFileBytes,
    });
    for (const { ipc, rows } of held.splice(0)) await encoder.send(ipc, rows);
    return encoder;
  }
  async function write(batch: RecordBatch): Promise<void> {
    // in memory of its own, which goes to the thread
    const ipc = RecordBatchStreamWriter.writeAll([batch]).toUint8Array(true);
    const rows = batch.numRows;
    rowsWritten += rows;
    if (encoder !== null) return encoder.send(ipc, rows);
    held.push({ ipc, rows });
    heldBytes += ipc.length;
    if (heldBytes >= sampleBytes) await start();
  }
  return {
    write,
    async close(facts) {
      // a stream without any batch makes no file: an empty one makes an empty file
      if (rowsWritten === 0) await write(gatherRows(schema, []));
      const rows = await (encoder ?? (await start())).close();
      if (rows !== rowsWritten)
        throw new Error(`${file.path}: ${rowsWritten} rows were written, the file holds ${rows}`);
      await file.finish(facts);
    },
    async abort() {
      held = [];
      await encoder?.terminate();
      await file.abort();
    },
  };
}

/** The worker thread, seen from the main thread. */
export type ParquetEncoder = ReturnType<typeof startEncoder>;

/** A thread that has ended its file well, for the next one: to start one costs more than to encode a small chunk. */
let idle: Thread<EncoderThread> | undefined;

/** Begins a file; every failure of its thread, a crash too, rejects the call under way and all later ones. */
export function startEncoder(path: string, job: ParquetJob) {
  const thread =
    idle ?? startThread<EncoderThread>('the encoder', new URL('./encoder-thread.js', import.meta.url));
  idle = undefined;
  thread.ref();
  let isEnded = false;
  let failure: unknown;
  const inFlight: Promise<void>[] = [thread.call('begin', [job])];
  async function done<T>(call: Promise<T> | undefined): Promise<T | undefined> {
    try {
      return await call;
    } catch (error) {
      await thread.terminate(error as Error);
      failure = encoderError(path, error as Error);
      throw failure;
    }
  }
  return {
    /** Hands over a batch; waits while enough are on their way. The bytes are moved, not copied. */
    async send(ipc: Uint8Array, rows: number): Promise<void> {
      if (failure !== undefined) throw failure;
      if (inFlight.length >= MAX_BATCHES_IN_FLIGHT) await done(inFlight.shift());
      inFlight.push(thread.call('batch', [ipc, rows], [ipc.buffer as ArrayBuffer]));
    },
    /** Ends the file and returns its row count. */
    async close(): Promise<number> {
      const end = thread.call('end', []);
      for (const call of inFlight.splice(0)) await done(call);
      const rows = (await done(end)) as number;
      isEnded = true;
      thread.unref(); // an idle thread keeps no process alive
      if (idle === undefined) idle = thread;
      else await thread.terminate();
      return rows;
    },
    async terminate(): Promise<void> {
      if (!isEnded) await thread.terminate();
    },
  };
}

function encoderError(path: string, { message, code, path: at }: NodeJS.ErrnoException): unknown {
  if (code === 'TOO_LARGE')
    return usageError(`${path}: ${message} cannot be written`, 'split the input, or write an .arrow file');
  const named = new Error(`${path}: Parquet: ${message}`);
  return fileError(Object.assign(named, code && { code, path: at }), path, 'written');
}
