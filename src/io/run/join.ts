// Joins chunks in the order of their rows to one file.
import { type RecordBatch, Schema, util } from 'apache-arrow';
import { RredcotError } from '../../errors.js';
import { gatherRows } from '../arrow/gather.js';
import type { OutputColumn } from '../arrow/output-columns.js';
import { openArrow } from '../arrow/reader.js';
import { arrowSchema, type BatchWriter } from '../arrow/writer.js';
import { AtomicFile } from '../files/atomic-file.js';
import { fileBytes } from '../files/file-bytes.js';
import { fileError } from '../files/file-error.js';
import { type ByteSink, openGzipSink } from '../files/stdout.js';
import { joinParquet } from '../parquet/join.js';
import { openParquet } from '../parquet/reader.js';
import { type OutputFormat, openColumnar, RUN_KEY, sealable, type WholeFile } from '../write/output.js';
import { PART_KEY, parsePart } from '../write/part.js';

/** A file that chunks are put into, one after the other; nothing is visible under its name before `close`. */
export interface JoinedFile {
  /** @returns the rows that the chunk holds; undefined for JSONL, whose lines are copied as they are */
  add(path: string): Promise<number | undefined>;
  /** @returns the SHA-256 of a file of lines; null for others, which hold their own */
  close(): Promise<string | null>;
  /** harmless after `close` */
  abort(): Promise<void>;
}

export interface JoinedFileOptions {
  /** of the chunks */
  readonly from: OutputFormat;
  /** of the file; JSONL goes with JSONL alone */
  readonly to: OutputFormat;
  /** where what is half written lies, on the file system of the file; undefined: beside it */
  readonly folder?: string | undefined;
  /** as of `putInPlace` */
  readonly replaces?: boolean;
  /** what the file says of itself besides what its chunks say */
  readonly metadata?: Readonly<Record<string, string>>;
  /** called every few megabytes; may throw to stop */
  readonly onProgress: () => void;
}

/** Opens the file. */
export async function openJoined(path: string, opts: JoinedFileOptions): Promise<JoinedFile> {
  const { from, to } = opts;
  if (from === 'jsonl') return joinLines(path, opts);
  const copies = from === 'parquet' && to === 'parquet';
  const joined = await (copies ? joinRowGroups(path, opts) : joinBatches(path, opts, from));
  return {
    abort: joined.abort,
    add: (chunk) => told(joined.add(chunk), chunk, 'read'),
    // its footer is read back
    close: () => told(joined.close(), path, 'written'),
  };
}

/** Tells a failure of the machine, one that a reader has wrapped in words of its own too. */
async function told<T>(step: Promise<T>, path: string, action: 'read' | 'written'): Promise<T> {
  try {
    return await step;
  } catch (error) {
    for (let cause = error; cause instanceof Error; cause = cause.cause) {
      const known = fileError(cause, path, action);
      if (known instanceof RredcotError) throw known;
    }
    throw error;
  }
}

/** What a file says of itself that chunks are put into: what the first one says, but that it is one of several. */
function joinedMetadata(
  first: ReadonlyMap<string, string>,
  added: Readonly<Record<string, string>>,
): Record<string, string> {
  const { [PART_KEY]: said, ...others } = Object.fromEntries(first);
  const kept = said === undefined || parsePart(said)?.by === 'pieces' ? {} : { [PART_KEY]: said };
  return { ...others, ...kept, ...added };
}

/** With a place for the file's hash, in one order whatever that of the chunks is. */
function ordered(metadata: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(sealable(metadata)).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Opens the file that {@link openJoined} would make of Arrow or JSON lines, for a run that writes it on the way.
 * @param columns of the chunks; none of lines
 * @param metadata of the chunks
 */
export async function openWhole(
  path: string,
  format: 'arrow' | 'jsonl',
  { folder, replaces, columns, metadata }: WholeOptions,
): Promise<WholeFile> {
  const file = (await AtomicFile.open(path, folder, replaces)).hashed();
  if (format === 'jsonl') return { lines: file, close: () => file.commit(), abort: () => file.abort() };
  const own = ordered(joinedMetadata(new Map(Object.entries(metadata)), {}));
  const { batches } = await openColumnar(file.sealed(), format, arrowSchema(columns), own);
  return { batches, close: () => batches.close(), abort: () => batches.abort() };
}

interface WholeOptions {
  readonly folder: string;
  readonly replaces: boolean;
  readonly columns: readonly OutputColumn[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** Row groups after row groups, as they are. */
async function joinRowGroups(
  path: string,
  { folder, replaces, metadata = {}, onProgress }: JoinedFileOptions,
): Promise<JoinedFile> {
  const file = (await AtomicFile.open(path, folder, replaces)).hashed().sealed();
  return {
    ...(await joinParquet(file, (first) => joinedMetadata(first, metadata), onProgress)),
    abort: () => file.abort(),
  };
}

/** Lines after lines, packed where the file's name says so. */
export async function joinLines(
  path: string,
  { folder, replaces, onProgress }: Pick<JoinedFileOptions, 'folder' | 'replaces' | 'onProgress'>,
): Promise<JoinedFile> {
  const file = (await AtomicFile.open(path, folder, replaces)).hashed();
  const sink: ByteSink = path.toLowerCase().endsWith('.gz') ? openGzipSink(file) : file;
  return {
    async add(chunk) {
      for await (const bytes of fileBytes(chunk)) {
        onProgress();
        await sink.write(bytes);
      }
      return undefined;
    },
    close: () => sink.commit(),
    abort: () => sink.abort(),
  };
}

async function joinBatches(
  path: string,
  { to, folder, replaces, metadata = {}, onProgress }: JoinedFileOptions,
  from: 'parquet' | 'arrow',
): Promise<JoinedFile> {
  const file = (await AtomicFile.open(path, folder, replaces)).sealed();
  // Parquet is written by a thread, past this one
  if (to === 'arrow') file.hashed();
  /** of the first chunk, which all others have to be like */
  let first: { readonly path: string; readonly schema: Schema; readonly run: string | undefined } | undefined;
  let schema: Schema;
  let writer: BatchWriter | undefined;
  return {
    async add(chunk) {
      const found = await openChunkBatches(chunk, from);
      if (first === undefined) {
        first = { path: chunk, schema: found.schema, run: found.metadata.get(RUN_KEY) };
        const own = ordered(joinedMetadata(found.metadata, metadata));
        ({ schema, batches: writer } = await openColumnar(file, to, found.schema, own));
      } else if (!util.compareSchemas(first.schema, found.schema))
        throw new Error(`${chunk} has other columns than ${first.path}`);
      if (found.metadata.get(RUN_KEY) !== first.run)
        throw new Error(`${chunk} is of another run than ${first.path}`);
      let rows = 0;
      for await (const batch of found.batches) {
        onProgress();
        await writer?.write(gatherRows(schema, [{ unit: batch, from: 0, to: batch.numRows }]));
        rows += batch.numRows;
      }
      return rows;
    },
    async close() {
      if (writer === undefined) throw new Error(`${path}: there is no chunk`);
      return writer.close();
    },
    async abort() {
      await (writer ?? file).abort();
    },
  };
}

/** A file's columns, and its rows batch by batch. */
export interface ChunkBatches {
  /** without metadata */
  readonly schema: Schema;
  readonly metadata: ReadonlyMap<string, string>;
  /** to be read to the end, or returned */
  readonly batches: AsyncGenerator<RecordBatch>;
}

/** Opens a file. Its errors, and those of its batches, are plain ones that name it: what is to be done, the caller knows. */
export async function openChunkBatches(path: string, format: 'parquet' | 'arrow'): Promise<ChunkBatches> {
  const open = format === 'parquet' ? openParquet : openArrow;
  const plain = (error: unknown): Error => new Error((error as Error).message, { cause: error });
  // opened again for its rows: those that nobody asks for hold nothing open
  async function* batches(): ChunkBatches['batches'] {
    try {
      const source = await open(path);
      for await (const { batch } of source.batches()) yield batch;
    } catch (error) {
      throw plain(error);
    }
  }
  try {
    const { schema, close } = await open(path);
    await close();
    return { schema: new Schema(schema.fields), metadata: schema.metadata, batches: batches() };
  } catch (error) {
    throw plain(error);
  }
}
