// Worker thread: parts of Parquet files in by message, their record batches out as Arrow IPC.
//
// A thread of its own because a panic of parquet-wasm on damaged pages escapes every promise: here it ends the thread.

import { type FileHandle, open } from 'node:fs/promises';
import { ParquetFile, type RecordBatch } from 'parquet-wasm/node';
import { failThread, moved, serve } from '../../thread.js';
import { readWhole } from '../files/exact-bytes.js';
import { blobOf } from './blob.js';
import { MAGIC } from './fields.js';
import type { ParquetPart } from './part.js';

/** What the next streams are made of: the rows of a part, or its schema alone. */
export interface Wanted {
  readonly path: string;
  readonly part: ParquetPart;
  /** at most; undefined: the schema */
  readonly batchRows?: number;
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
  return blobOf({ size, read }, failThread);
}

async function* batchStreams(parquet: ParquetFile, batchSize: number): AsyncGenerator<Uint8Array> {
  const batches = await parquet.stream({ batchSize, concurrency: 1 });
  for await (const batch of batches as unknown as AsyncIterable<RecordBatch>) yield batch.intoIPCStream();
}

/** The file that is being read: it stays open, so that one which is replaced meanwhile stays what it was. */
let current: { readonly path: string; readonly file: FileHandle } | undefined;

async function opened({ path, batchRows }: Wanted): Promise<FileHandle> {
  // reading a file begins with its schema
  if (current?.path === path && batchRows !== undefined) return current.file;
  await current?.file.close();
  current = undefined;
  current = { path, file: await open(path, 'r') };
  return current.file;
}

async function* streamsOf(wanted: Wanted): AsyncGenerator<Uint8Array> {
  const file = await opened(wanted);
  const parquet = await ParquetFile.fromFile(partBlob(file, wanted.part));
  try {
    if (wanted.batchRows === undefined) yield parquet.schema().intoIPCStream();
    else yield* batchStreams(parquet, wanted.batchRows);
  } finally {
    parquet.free();
  }
}

let streams: AsyncGenerator<Uint8Array> | undefined;

const functions = {
  /** Lets go of whatever it has open. @returns true */
  async release(): Promise<true> {
    await streams?.return(undefined);
    streams = undefined;
    await current?.file.close();
    current = undefined;
    return true;
  },
  want(wanted: Wanted): void {
    streams = streamsOf(wanted);
  },
  /** An Arrow IPC stream: of one batch, or of none for a schema; undefined: that was all. */
  async next(): Promise<Uint8Array | undefined> {
    const ipc: Uint8Array | undefined = (await streams?.next())?.value;
    return ipc && moved(ipc, ipc);
  },
};
export type DecoderThread = typeof functions;
serve(functions);
