// Worker thread: parts of Parquet files in by message, their record batches out as Arrow IPC.
//
// A thread of its own because a panic of parquet-wasm on damaged pages escapes every promise: here it ends the thread.

import { ParquetFile, type RecordBatch } from 'parquet-wasm/node';
import { failThread, moved, serve } from '../../thread.js';
import { type OpenFile, openFile } from '../files/opened.js';
import type { ObjectVersion } from '../store/object.js';
import { type ParquetPart, partBlob } from './part.js';

/** A file, and which version of it where it is an object. */
export interface VersionedFile {
  readonly path: string;
  readonly version: ObjectVersion | undefined;
}

/** What the next streams are made of: the rows of a part, or its schema alone. */
export interface Wanted extends VersionedFile {
  readonly part: ParquetPart;
  /** at most; undefined: the schema */
  readonly batchRows?: number;
  /** undefined: all */
  readonly columns?: readonly string[] | undefined;
}

async function* batchStreams(
  parquet: ParquetFile,
  batchSize: number,
  columns: readonly string[] | undefined,
): AsyncGenerator<Uint8Array> {
  const only = columns === undefined ? {} : { columns: [...columns] };
  const batches = await parquet.stream({ batchSize, concurrency: 1, ...only });
  for await (const batch of batches as unknown as AsyncIterable<RecordBatch>) yield batch.intoIPCStream();
}

/** The file that is being read: it stays open, so that one which is replaced meanwhile stays what it was. */
let current: { readonly path: string; readonly file: OpenFile } | undefined;

async function opened({ path, version, batchRows }: Wanted): Promise<OpenFile> {
  // reading a file begins with its schema
  if (current?.path === path && batchRows !== undefined) return current.file;
  await current?.file.close();
  current = undefined;
  current = { path, file: await openFile(path, version) };
  return current.file;
}

async function* streamsOf(wanted: Wanted): AsyncGenerator<Uint8Array> {
  const file = await opened(wanted);
  const parquet = await ParquetFile.fromFile(partBlob(file, wanted.part, failThread));
  try {
    if (wanted.batchRows === undefined) yield parquet.schema().intoIPCStream();
    else yield* batchStreams(parquet, wanted.batchRows, wanted.columns);
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
