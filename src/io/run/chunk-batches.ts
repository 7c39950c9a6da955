// Reads columns, metadata and record batches of a Parquet or Arrow file that this program wrote.
import { type FileHandle, open } from 'node:fs/promises';
import { type RecordBatch, RecordBatchReader, Schema } from 'apache-arrow';
import { readBatches } from '../arrow/reader.js';
import type { ChunkReader } from '../parquet/chunk-reader.js';

/** A file's columns, and its rows batch by batch. */
export interface ChunkBatches {
  /** without metadata */
  readonly schema: Schema;
  readonly metadata: ReadonlyMap<string, string>;
  /** to be read to the end, or returned, before the next file is opened */
  readonly batches: AsyncGenerator<RecordBatch>;
}

/** Opens a file. Errors of a file that cannot be read come out of the call or of its batches, as plain ones. */
export async function openChunkBatches(
  path: string,
  format: 'parquet' | 'arrow',
  parquet: ChunkReader,
): Promise<ChunkBatches> {
  if (format === 'arrow') return readArrowBatches(path);
  const found = await parquet.open(path);
  return { ...found, schema: new Schema(found.schema.fields) };
}

async function readArrowBatches(path: string): Promise<ChunkBatches> {
  await using file = await open(path, 'r');
  // arrow takes an empty file for one without rows, and a truncated one for a huge one
  await checkArrow(file);
  const { schema } = await readBatches(await RecordBatchReader.from(file));
  return { schema: new Schema(schema.fields), metadata: schema.metadata, batches: arrowBatches(path) };
}

/** Opens the file again: batches that nobody asks for hold none open. */
async function* arrowBatches(path: string): AsyncGenerator<RecordBatch> {
  await using file = await open(path, 'r');
  yield* (await readBatches(await RecordBatchReader.from(file))).found;
}

const ARROW_FILE = Buffer.from('ARROW1');
const ARROW_STREAM = Buffer.from([0xff, 0xff, 0xff, 0xff]);

async function checkArrow(file: FileHandle): Promise<void> {
  const { size } = await file.stat();
  const at = async (position: number, length: number) =>
    (await file.read(Buffer.alloc(length), 0, length, Math.max(0, position))).buffer;
  const head = await at(0, 8);
  if (head.subarray(0, 4).equals(ARROW_STREAM)) return;
  if (!head.subarray(0, 6).equals(ARROW_FILE)) throw new Error('is no Arrow file');
  if (!(await at(size - 6, 6)).equals(ARROW_FILE)) throw new Error('Arrow file is cut off');
}
