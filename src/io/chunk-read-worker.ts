// Worker thread: names of Parquet files in by message, their rows out as Arrow IPC batches of bounded size.
//
// A thread of its own for the same reason as the writer's: on a damaged page parquet-wasm panics outside of every
// promise, and takes nothing along here but this thread.
import { openAsBlob } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { ParquetFile, type RecordBatch } from 'parquet-wasm/node';

export type ToChunkReader =
  /** begins a file; `cuts`: rows at which a batch has to end, ascending */
  | { readonly kind: 'read'; readonly path: string; readonly cuts: readonly number[] }
  /** one more batch may be on its way; the first two need none */
  | { readonly kind: 'next' }
  /** the rest of the file is not wanted */
  | { readonly kind: 'stop' };

export type FromChunkReader =
  | {
      readonly kind: 'opened';
      readonly rows: number;
      /** an IPC stream without any batch */
      readonly schema: Uint8Array;
      readonly metadata: readonly (readonly [string, string])[];
      /** bytes of its rows as compressed, for one uncompressed */
      readonly compression: number;
    }
  | { readonly kind: 'batch'; readonly ipc: Uint8Array; readonly rows: number }
  | { readonly kind: 'ended' }
  | { readonly kind: 'failed'; readonly message: string };

/** Raw bytes that are decoded at a time. */
const READ_BYTES = 8 * 2 ** 20;
const MAX_READ_ROWS = 16_384;
/** batches that may wait in the main thread */
const MAX_IN_FLIGHT = 2;

const port = parentPort;
if (port === null) throw new Error('chunk-read-worker runs as a worker thread');
const post = (message: FromChunkReader, moved: ArrayBuffer[] = []): void => port.postMessage(message, moved);

let inFlight = 0;
let isStopped = false;
let wake: (() => void) | null = null;
port.on('message', (message: ToChunkReader) => {
  if (message.kind === 'next') inFlight--;
  else if (message.kind === 'stop') isStopped = true;
  else
    read(message.path, message.cuts).catch((error: unknown) =>
      post({ kind: 'failed', message: error instanceof Error ? error.message : String(error) }),
    );
  wake?.();
});

async function read(path: string, cuts: readonly number[]): Promise<void> {
  inFlight = 0;
  isStopped = false;
  const file = await ParquetFile.fromFile(await openAsBlob(path));
  try {
    const { rows, rawBytes, compressedBytes, metadata } = describe(file);
    const schema = (await file.read({ limit: 0 })).intoIPCStream();
    const compression = rawBytes === 0 ? 1 : compressedBytes / rawBytes;
    post({ kind: 'opened', rows, schema, metadata, compression });
    const rowsPerBatch = Math.round((READ_BYTES * rows) / Math.max(1, rawBytes));
    const batchSize = Math.min(MAX_READ_ROWS, Math.max(1, rowsPerBatch));
    const batches = await file.stream({ batchSize, concurrency: 1 });
    let found = 0;
    let cut = 0;
    for await (const batch of batches as unknown as AsyncIterable<RecordBatch>) {
      const end = found + batch.numRows;
      while (found < end && !isStopped) {
        while ((cuts[cut] ?? end) <= found) cut++;
        const to = Math.min(end, cuts[cut] ?? end);
        const from = batch.numRows - (end - found);
        await send(batch.slice(from, to - found), to - found);
        found = to;
      }
      batch.free();
      if (isStopped) break;
    }
    if (!isStopped && found !== rows) throw new Error(`${found} rows can be read, its footer counts ${rows}`);
    post({ kind: 'ended' });
  } finally {
    file.free();
  }
}

async function send(batch: RecordBatch, rows: number): Promise<void> {
  while (inFlight >= MAX_IN_FLIGHT && !isStopped)
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  if (isStopped) return batch.free();
  const ipc = batch.intoIPCStream();
  inFlight++;
  post({ kind: 'batch', ipc, rows }, [ipc.buffer as ArrayBuffer]);
}

function describe(file: ParquetFile) {
  const metadata = file.metadata();
  const fileMetadata = metadata.fileMetadata();
  try {
    let rawBytes = 0;
    let compressedBytes = 0;
    for (let group = 0; group < metadata.numRowGroups(); group++) {
      const found = metadata.rowGroup(group);
      rawBytes += found.totalByteSize();
      compressedBytes += found.compressedSize();
      found.free();
    }
    const pairs = [...(fileMetadata.keyValueMetadata() as Map<string, string>)];
    return { rows: fileMetadata.numRows(), rawBytes, compressedBytes, metadata: pairs };
  } finally {
    fileMetadata.free();
    metadata.free();
  }
}
