// Worker thread: parts of Parquet files in by message, their record batches out as Arrow IPC.
//
// A thread of its own because a panic of parquet-wasm on damaged pages escapes every promise: here it ends the thread.

import { type FileHandle, open } from 'node:fs/promises';
import { parentPort } from 'node:worker_threads';
import { ParquetFile, type RecordBatch } from 'parquet-wasm/node';
import { blobOf } from './file-blob.js';
import { MAGIC } from './parquet-fields.js';
import type { ParquetPart } from './parquet-part.js';
import { readWhole } from './whole.js';

export type ToParquetReader =
  | { readonly kind: 'schema'; readonly path: string; readonly part: ParquetPart }
  | {
      readonly kind: 'rows';
      readonly path: string;
      readonly part: ParquetPart;
      /** at most */
      readonly batchRows: number;
      /** rows of the part at which a batch has to end, ascending */
      readonly cuts: readonly number[];
    }
  /** a batch is done with */
  | { readonly kind: 'taken' };

export type FromParquetReader =
  /** an Arrow IPC stream: of one batch, or of none for a schema */
  | { readonly kind: 'ipc'; readonly ipc: Uint8Array }
  | { readonly kind: 'end' }
  | { readonly kind: 'failed'; readonly message: string; readonly code?: string | undefined };

/** Streams on their way to the main thread. */
const MAX_IN_FLIGHT = 2;

const port = parentPort;
if (port === null) throw new Error('parquet-read-worker runs as a worker thread');
const post = (message: FromParquetReader, moved: ArrayBuffer[] = []): void =>
  port.postMessage(message, moved);

let inFlight = 0;
let wake = (): void => {};

async function room(): Promise<void> {
  while (inFlight >= MAX_IN_FLIGHT)
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
}

function send(ipc: Uint8Array): void {
  inFlight++;
  post({ kind: 'ipc', ipc }, [ipc.buffer as ArrayBuffer]);
}

/** The magic, the part's bytes, its footer. */
function partBlob(file: FileHandle, { start, end, footer }: ParquetPart): Blob {
  const dataEnd = MAGIC.length + (end - start);
  const size = dataEnd + footer.length;
  const read = async (from: number, to: number): Promise<ArrayBuffer> => {
    const bytes = new Uint8Array(to - from);
    if (from < MAGIC.length) bytes.set(MAGIC.subarray(from, to));
    const dataFrom = Math.max(from, MAGIC.length);
    const dataTo = Math.min(to, dataEnd);
    if (dataTo > dataFrom)
      await readWhole(file, bytes.subarray(dataFrom - from, dataTo - from), dataFrom - MAGIC.length + start);
    const footerFrom = Math.max(from, dataEnd);
    if (to > footerFrom) bytes.set(footer.subarray(footerFrom - dataEnd, to - dataEnd), footerFrom - from);
    return bytes.buffer;
  };
  return blobOf({ size, read }, postFailure);
}

function postFailure(error: unknown): void {
  const { code } = error as NodeJS.ErrnoException;
  post({ kind: 'failed', message: error instanceof Error ? error.message : String(error), code });
}

async function sendRows(parquet: ParquetFile, batchRows: number, cuts: readonly number[]): Promise<void> {
  const batches = await parquet.stream({ batchSize: batchRows, concurrency: 1 });
  let sent = 0;
  let cut = 0;
  for await (const batch of batches as unknown as AsyncIterable<RecordBatch>) {
    const first = sent;
    const end = first + batch.numRows;
    while (sent < end) {
      while ((cuts[cut] ?? end) <= sent) cut++;
      const to = Math.min(end, cuts[cut] ?? end);
      await room();
      send(batch.slice(sent - first, to - sent).intoIPCStream());
      sent = to;
    }
    batch.free();
  }
}

/** The file that is being read: it stays open, so that one which is replaced meanwhile stays what it was. */
let current: { readonly path: string; readonly file: FileHandle } | undefined;

async function opened({ kind, path }: Exclude<ToParquetReader, { kind: 'taken' }>): Promise<FileHandle> {
  // whoever asks for the schema begins with the file
  if (current?.path === path && kind === 'rows') return current.file;
  await current?.file.close();
  current = undefined;
  current = { path, file: await open(path, 'r') };
  return current.file;
}

async function answer(question: Exclude<ToParquetReader, { kind: 'taken' }>): Promise<void> {
  const file = await opened(question);
  const parquet = await ParquetFile.fromFile(partBlob(file, question.part));
  try {
    if (question.kind === 'schema') send(parquet.schema().intoIPCStream());
    else await sendRows(parquet, question.batchRows, question.cuts);
  } finally {
    parquet.free();
  }
  post({ kind: 'end' });
}

port.on('message', (message: ToParquetReader) => {
  if (message.kind === 'taken') {
    inFlight--;
    wake();
    return;
  }
  answer(message).catch(postFailure);
});
