// Worker thread: parts of a Parquet file in by message, their record batches out as Arrow IPC.
//
// A thread of its own because a panic of parquet-wasm on damaged pages escapes every promise: here it ends the thread.

import { type FileHandle, open } from 'node:fs/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { ParquetFile, type RecordBatch } from 'parquet-wasm/node';
import type { ParquetPart } from './parquet-part.js';

export type ToParquetReader =
  | { readonly kind: 'schema'; readonly part: ParquetPart }
  | { readonly kind: 'rows'; readonly part: ParquetPart; readonly batchRows: number }
  | { readonly kind: 'taken' };

export type FromParquetReader =
  | { readonly kind: 'schema'; readonly ipc: Uint8Array }
  | { readonly kind: 'batch'; readonly ipc: Uint8Array }
  | { readonly kind: 'end' }
  | { readonly kind: 'failed'; readonly message: string };

/** Batches on their way to the main thread. */
const MAX_BATCHES_IN_FLIGHT = 2;

const port = parentPort;
if (port === null) throw new Error('parquet-read-worker runs as a worker thread');
const path = workerData as string;
const send = (message: FromParquetReader, moved: ArrayBuffer[] = []): void =>
  port.postMessage(message, moved);

let inFlight = 0;
let wake = (): void => {};
let file: Promise<FileHandle> | null = null;

/** What parquet-wasm asks of a Blob: its size, and the bytes of a range. */
function blobOf({ start, end, footer }: ParquetPart): Blob {
  const head = Buffer.from('PAR1');
  const size = head.length + (end - start) + footer.length;
  async function read(from: number, to: number): Promise<ArrayBuffer> {
    const bytes = Buffer.alloc(to - from);
    if (from < head.length) head.copy(bytes, 0, from, to);
    const dataFrom = Math.max(from, head.length);
    const dataTo = Math.min(to, head.length + end - start);
    if (dataTo > dataFrom) {
      file ??= open(path, 'r');
      const wanted = dataTo - dataFrom;
      for (let done = 0; done < wanted; ) {
        const at = dataFrom + done - head.length + start;
        const { bytesRead } = await (await file).read(bytes, dataFrom - from + done, wanted - done, at);
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

async function sendSchema(part: ParquetPart): Promise<void> {
  const parquet = await ParquetFile.fromFile(blobOf(part));
  const ipc = parquet.schema().intoIPCStream();
  parquet.free();
  send({ kind: 'schema', ipc });
}

async function sendRows(part: ParquetPart, batchRows: number): Promise<void> {
  const parquet = await ParquetFile.fromFile(blobOf(part));
  const stream = await parquet.stream({ batchSize: batchRows, concurrency: 1 });
  for await (const batch of stream as unknown as AsyncIterable<RecordBatch>) {
    while (inFlight >= MAX_BATCHES_IN_FLIGHT)
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    inFlight++;
    const ipc = batch.intoIPCStream();
    send({ kind: 'batch', ipc }, [ipc.buffer as ArrayBuffer]);
  }
  parquet.free();
  send({ kind: 'end' });
}

port.on('message', (message: ToParquetReader) => {
  if (message.kind === 'taken') {
    inFlight--;
    wake();
    return;
  }
  const work =
    message.kind === 'schema' ? sendSchema(message.part) : sendRows(message.part, message.batchRows);
  work.catch((error: unknown) =>
    send({ kind: 'failed', message: error instanceof Error ? error.message : String(error) }),
  );
});
