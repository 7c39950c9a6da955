// Joins chunks in the order of their rows to one file.
import { Schema, util } from 'apache-arrow';
import { gatherRows } from '../io/arrow/columns.js';
import type { OutputColumn } from '../io/arrow/output-columns.js';
import { type BatchSource, openArrow } from '../io/arrow/reader.js';
import { arrowSchema, type BatchWriter } from '../io/arrow/writer.js';
import { AtomicFile } from '../io/files/atomic-file.js';
import { fileBytes } from '../io/files/file-bytes.js';
import { fileError } from '../io/files/file-error.js';
import { type ByteSink, openGzipSink } from '../io/files/stdout.js';
import { joinParquet } from '../io/parquet/join.js';
import { openParquet } from '../io/parquet/reader.js';
import { type OutputFormat, openColumnar, RUN_KEY, sealable, type WholeFile } from '../io/write/output.js';
import { PART_KEY, parsePart } from '../io/write/part.js';

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

/** Names the file in a failure of the machine. */
function told<T>(step: Promise<T>, path: string, action: 'read' | 'written'): Promise<T> {
  return step.catch((error: unknown) => {
    throw fileError(error, path, action);
  });
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
  let first: { readonly path: string; readonly schema: Schema } | undefined;
  let opened: { readonly schema: Schema; readonly batches: BatchWriter } | undefined;
  return {
    async add(chunk) {
      const source = await openChunk(chunk, from);
      const { fields, metadata: said } = source.schema;
      let rows = 0;
      try {
        first ??= { path: chunk, schema: source.schema };
        if (!util.compareSchemas(first.schema, source.schema))
          throw new Error(`${chunk} has other columns than ${first.path}`);
        if (said.get(RUN_KEY) !== first.schema.metadata.get(RUN_KEY))
          throw new Error(`${chunk} is of another run than ${first.path}`);
        opened ??= await openColumnar(file, to, new Schema(fields), ordered(joinedMetadata(said, metadata)));
        for await (const { batch } of source.batches()) {
          onProgress();
          await opened.batches.write(
            gatherRows(opened.schema, [{ unit: batch, from: 0, to: batch.numRows }]),
          );
          rows += batch.numRows;
        }
      } finally {
        await source.close();
      }
      return rows;
    },
    async close() {
      if (opened === undefined) throw new Error(`${path}: there is no chunk`);
      return opened.batches.close();
    },
    async abort() {
      await (opened?.batches ?? file).abort();
    },
  };
}

/** Opens a chunk of rows. */
export function openChunk(path: string, format: 'parquet' | 'arrow'): Promise<BatchSource> {
  return format === 'parquet' ? openParquet(path) : openArrow(path);
}
