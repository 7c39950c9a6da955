// Reads schema, metadata and rows of Parquet files that this program wrote, one after the other.
import { type RecordBatch, RecordBatchReader, type Schema } from 'apache-arrow';
import { RredcotError } from '../../errors.js';
import { openParquetDecoder } from './decoder.js';
import { type ParquetFooter, readParquetFooter } from './footer.js';

/** A file's schema and metadata, and its rows batch by batch. */
export interface ParquetContents {
  readonly schema: Schema;
  readonly metadata: ReadonlyMap<string, string>;
  readonly batches: AsyncGenerator<RecordBatch>;
}

/** Its errors are plain ones that name the file: what is to be done about it, the caller knows. */
export interface ChunkReader {
  /** Opens a file; its batches have to be read to the end, or returned, before the next one is opened. */
  open(path: string): Promise<ParquetContents>;
  close(): Promise<void>;
}

/** Opens a reader whose thread serves all files. */
export function openChunkReader(): ChunkReader {
  const decoder = openParquetDecoder();

  async function* batches(path: string, { groups, rows }: ParquetFooter): ParquetContents['batches'] {
    let found = 0;
    try {
      for (const group of groups)
        for await (const ipc of decoder.rows(path, group))
          for (const batch of RecordBatchReader.from(ipc)) {
            yield batch;
            found += batch.numRows;
          }
    } catch (error) {
      throw named(error, path);
    }
    if (found !== rows) throw new Error(`${path}: ${found} rows can be read, its footer counts ${rows}`);
  }

  return {
    async open(path) {
      try {
        const footer = await readParquetFooter(path);
        const { schema } = RecordBatchReader.from(await decoder.schema(path, footer.schemaPart())).open();
        return { schema, metadata: footer.metadata, batches: batches(path, footer) };
      } catch (error) {
        throw named(error, path);
      }
    },
    close: decoder.close,
  };
}

function named(error: unknown, path: string): Error {
  const { message } = error as Error;
  // those of the footer name the file, and mean one that the user wrote
  return new Error(error instanceof RredcotError ? message : `${path}: ${message}`, { cause: error });
}
