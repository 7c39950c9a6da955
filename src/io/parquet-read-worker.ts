// Worker thread: parts of Parquet files in by message, their record batches out as Arrow IPC.
//
// A thread of its own because a panic of parquet-wasm on damaged pages escapes every promise: here it ends the thread.

import { type FileHandle, open } from 'node:fs/promises';
import { parentPort } from 'node:worker_threads';
import { ParquetFile, type RecordBatch } from 'parquet-wasm/node';
import { MAGIC } from './parquet-fields.js';
import type { ParquetPart } from './parquet-part.js';

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
  | { readonly kind: 'failed'; readonly message: string };

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

/** What parquet-wasm asks of a Blob: its size, and the bytes of a range. */
function blobOf(file: FileHandle, { start, end, footer }: ParquetPart): Blob {
  const size = MAGIC.length + (end - start) + footer.length;
  async function read(from: number, to: number): Promise<ArrayBuffer> {
    const bytes = Buffer.alloc(to - from);
    if (from < MAGIC.length) MAGIC.copy(bytes, 0, from, to);
    const dataFrom = Math.max(from, MAGIC.length);
    const dataTo = Math.min(to, MAGIC.length + end - start);
    if (dataTo > dataFrom) {
      const wanted = dataTo - dataFrom;
      for (let done = 0; done < wanted; ) {
        const at = dataFrom + done - MAGIC.length + start;
        const { bytesRead } = await file.read(bytes, dataFrom - from + done, wanted - done, at);
        if (bytesRead === 0) throw new Error('the file has become shorter');
        done += bytesRead;
      }
    }
    const footerFrom = Math.max(from, size - footer.length);
    if (to > footerFrom)
      bytes.set(
        footer.subarray(footerFrom - size + footer.length, to - size + footer.length),
        footerFrom - from,
      );
    return bytes.buffer;
  }
  const slice = (from: number, to: number) => ({ size: to - from, arrayBuffer: () => read(from, to) });
  return { size, slice, arrayBuffer: () => read(0, size) } as unknown as Blob;
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

async function answer(question: Exclude<ToParquetReader, { kind: 'taken' }>): Promise<void> {
  await using file = await open(question.path, 'r');
  const parquet = await ParquetFile.fromFile(blobOf(file, question.part));
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
  answer(message).catch((error: unknown) =>
    post({ kind: 'failed', message: error instanceof Error ? error.message : String(error) }),
  );
});
