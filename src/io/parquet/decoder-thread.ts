// Worker thread, as a panic of parquet-wasm ends it: Parquet files in by path, what they say of themselves and their batches, as Arrow IPC, out.

import { ParquetFile, type RecordBatch } from 'parquet-wasm/node';
import { failThread, moved, serve } from '../../thread.js';
import { type OpenFile, openFile } from '../files/files.js';
import { metadataOf, openParquetFile } from './file.js';

export interface ParquetFacts {
  /** an Arrow IPC stream without any batch */
  readonly schema: Uint8Array;
  readonly rows: number;
  /** their bytes are those of before compression */
  readonly groups: readonly { readonly rows: number; readonly bytes: number }[];
  /** the writer's own, without the Arrow schema */
  readonly metadata: ReadonlyMap<string, string>;
}

/** It stays open, so that a file which is replaced meanwhile stays what it was. */
let file: OpenFile | undefined;
let parquet: ParquetFile | undefined;
let batches: AsyncGenerator<Uint8Array> | undefined;

async function* batchesOf(from: ParquetFile, group: number, batchSize: number, columns?: string[]) {
  const only = columns === undefined ? {} : { columns };
  const stream = await from.stream({ rowGroups: [group], batchSize, concurrency: 1, ...only });
  for await (const batch of stream as unknown as AsyncIterable<RecordBatch>) yield batch.intoIPCStream();
}

function factsOf(from: ParquetFile): ParquetFacts {
  const metadata = from.metadata();
  const groups = Array.from({ length: metadata.numRowGroups() }, (_, n) => {
    using group = metadata.rowGroup(n);
    return { rows: group.numRows(), bytes: group.totalByteSize() };
  });
  const rows = metadata.fileMetadata().numRows();
  const schema = from.schema().intoIPCStream();
  return moved({ schema, rows, groups, metadata: metadataOf(from) }, schema);
}

const functions = {
  /** @param hidesArrowSchema as of {@link openParquetFile}; for a file that is open already */
  async open(path: string, hidesArrowSchema: boolean): Promise<ParquetFacts> {
    file ??= await openFile(path);
    parquet?.free();
    parquet = await openParquetFile({ ParquetFile }, file, path, failThread, hidesArrowSchema);
    return factsOf(parquet);
  },
  /** The batches of a row group are what is asked for from now on. */
  want(group: number, batchRows: number, columns?: string[]): void {
    batches = batchesOf(parquet as ParquetFile, group, batchRows, columns);
  },
  /** An Arrow IPC stream of one batch; undefined: that was all of the row group. */
  async next(): Promise<Uint8Array | undefined> {
    const ipc: Uint8Array | undefined = (await batches?.next())?.value;
    return ipc && moved(ipc, ipc);
  },
  /** Lets go of whatever it has open. @returns true */
  async release(): Promise<true> {
    await batches?.return(undefined);
    parquet?.free();
    await file?.close();
    batches = parquet = file = undefined;
    return true;
  },
};
export type DecoderThread = typeof functions;
serve(functions);
