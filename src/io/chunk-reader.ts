// Parquet files that this program wrote in, their schema, metadata and rows out, one file after the other.
import { type RecordBatch, RecordBatchReader, type Schema } from 'apache-arrow';
import { RredcotError } from '../errors.js';
import { openParquetDecoder } from './parquet-decoder.js';
import { type ParquetFooter, readParquetFooter } from './parquet-footer.js';

/** A file's schema and metadata, and its rows batch by batch. */
export interface ParquetContents {
  readonly schema: Schema;
  readonly metadata: ReadonlyMap<string, string>;
  /** compressed bytes for one that is not */
  readonly compression: number;
  /** each with the Arrow IPC stream of it alone, for who passes it on */
  readonly batches: AsyncGenerator<{ readonly batch: RecordBatch; readonly ipc: Uint8Array }>;
}

/** Its errors are plain ones that name the file: what is to be done about it, the caller knows. */
export interface ChunkReader {
  /**
   * Opens a file; its batches have to be read to the end, or returned, before the next one is opened.
   * @param cuts rows at which a batch has to end, ascending
   */
  open(path: string, cuts?: readonly number[]): Promise<ParquetContents>;
  close(): Promise<void>;
}

/** Opens a reader whose thread serves all files. */
export function openChunkReader(): ChunkReader {
  const decoder = openParquetDecoder();

  async function* batches(
    path: string,
    { groups, rows }: ParquetFooter,
    cuts: readonly number[],
  ): ParquetContents['batches'] {
    let first = 0;
    let found = 0;
    try {
      for (const group of groups) {
        const cutsInGroup = cuts.map((cut) => cut - first);
        for await (const ipc of decoder.rows(path, group, cutsInGroup))
          for (const batch of RecordBatchReader.from(ipc)) {
            yield { batch, ipc };
            found += batch.numRows;
          }
        first += group.rows;
      }
    } catch (error) {
      throw named(error, path);
    }
    if (found !== rows) throw new Error(`${path}: ${found} rows can be read, its footer counts ${rows}`);
  }

  return {
    async open(path, cuts = []) {
      try {
        const footer = await readParquetFooter(path);
        const { schema } = RecordBatchReader.from(await decoder.schema(path, footer.schemaPart())).open();
        const { groups, metadata } = footer;
        return { schema, metadata, compression: compressionOf(groups), batches: batches(path, footer, cuts) };
      } catch (error) {
        throw named(error, path);
      }
    },
    close: decoder.close,
  };
}

function compressionOf(groups: ParquetFooter['groups']): number {
  let raw = 0;
  let compressed = 0;
  for (const group of groups) {
    const { start, end } = group.part();
    raw += group.bytes;
    compressed += end - start;
  }
  return raw === 0 ? 1 : compressed / raw;
}

function named(error: unknown, path: string): Error {
  const { message } = error as Error;
  // those of the footer name the file, and mean one that the user wrote
  return new Error(error instanceof RredcotError ? message : `${path}: ${message}`, { cause: error });
}
