// Where the output goes, and in which format: picks the writer, gathers rows into batches, ends cleanly.

import { type RecordBatch, Schema } from 'apache-arrow';
import { usageError } from '../../errors.js';
import { outputColumns, type WrittenColumn } from '../../scored/columns.js';
import type { OutputRow } from '../../scored.js';
import type { ColumnChoice } from '../arrow/output-columns.js';
import type { PassThroughColumn } from '../arrow/schema.js';
import type { BatchWriter, RowWriter } from '../arrow/writer.js';
import { AtomicFile } from '../files/atomic-file.js';
import { HASH_KEY, UNSEALED } from '../files/seal.js';
import { alsoTo, type ByteSink, openStreamSink } from '../files/stdout.js';

export const FORMATS = ['parquet', 'arrow', 'jsonl'] as const;
export type OutputFormat = (typeof FORMATS)[number];

const EXTENSIONS: readonly (readonly [string, OutputFormat])[] = [
  ['.parquet', 'parquet'],
  ['.arrow', 'arrow'],
  ['.arrows', 'arrow'],
  ['.jsonl', 'jsonl'],
  ['.ndjson', 'jsonl'],
  ['.jsonl.gz', 'jsonl'],
  ['.ndjson.gz', 'jsonl'],
];

/** The key of a file's metadata under which the identity of its run stands. */
export const RUN_KEY = 'rredcot.run';

/** Keys of a file's metadata: version of the program, sha256 of the policy's files, its vocabulary, how many input files the rows come from. */
export const VERSION_KEY = 'rredcot.version';
export const POLICY_KEY = 'rredcot.policy.sha256';
export const VOCAB_KEY = 'rredcot.policy.vocab';
export const INPUTS_KEY = 'rredcot.inputs';

/** The key of a file's metadata under which its configuration stands. */
export const CONFIG_KEY = 'rredcot.config';
/** A configuration, as a file or a run has it. */
export type Config = Readonly<Record<string, unknown>>;

/** The key under which stands which column holds the prompt's text, and which the completion's. */
export const TEXT_KEY = 'rredcot.text';

/** Rows are gathered until they make about so many raw bytes, however they come in: the file is the same. */
const BATCH_BYTES = 2 * 2 ** 20;
/** The same for stdout, whose reader waits for each batch. */
const PIPE_BATCH_BYTES = 2 ** 20;

/** The format that a file's name stands for; undefined for one without a known extension. */
export function namedFormat(path: string): OutputFormat | undefined {
  return EXTENSIONS.find(([extension]) => path.toLowerCase().endsWith(extension))?.[1];
}

/** The same. @throws RredcotError for a name without a known extension */
export function formatOf(path: string): OutputFormat {
  const known = namedFormat(path);
  if (known !== undefined) return known;
  const names = EXTENSIONS.map(([extension]) => extension).join(', ');
  throw usageError(
    `${path}: the name does not tell the format, expected one of ${names}`,
    '--format parquet|arrow|jsonl; a name that ends with / is a run folder',
  );
}

/** Where rows go to: `close` makes the file visible, `abort` leaves nothing behind. */
export type Output = Awaited<ReturnType<typeof openOutput>>;

export interface OutputTarget {
  /** `-` is stdout */
  readonly path: string;
  readonly format: OutputFormat;
  /** any of ours, which are written in their own order; then an export's */
  readonly ourColumns: readonly WrittenColumn[];
  /** as `resolveColumnNames` named them; JSONL, which has no types, writes each row's own keys instead */
  readonly passThrough: readonly PassThroughColumn[];
  /** which of an input row's own keys JSONL has */
  readonly choice?: ColumnChoice;
  readonly metadata: Readonly<Record<string, string>>;
  /** where the file lies until it is whole; by default beside itself */
  readonly halfWrittenIn?: string | undefined;
  /** as `replaces` of `putInPlace` */
  readonly overwrite?: boolean;
  /** its rows end in another file: it holds no hash of itself, that is told */
  readonly isPiece?: boolean | undefined;
  /** the file in which they end, where it is written on the way */
  readonly whole?: WholeFile | undefined;
}

/** A file that is given what its pieces are given, lines as bytes, others as record batches: nobody has to read these again. */
export interface WholeFile {
  readonly lines?: ByteSink;
  readonly batches?: BatchWriter;
  /** as `ByteSink.commit` */
  close(): Promise<string | null>;
  abort(): Promise<void>;
}

/** Opens the output; nothing is visible under `path` before `close`. */
export async function openOutput(target: OutputTarget) {
  const { path } = target;
  const isStdout = path === '-';
  const writer = await openWriter(target);
  let pendingRows = 0;
  let pendingBytes = 0;
  // a pipe's reader starts with the first row and gets twice as many with every batch, up to the bound
  let batchRows = isStdout ? 1 : Number.POSITIVE_INFINITY;
  const batchBytes = isStdout ? PIPE_BATCH_BYTES : BATCH_BYTES;
  let isEnded = false;

  async function flush(): Promise<void> {
    pendingRows = 0;
    pendingBytes = 0;
    batchRows *= 2;
    await writer.flush();
  }
  async function abort(): Promise<void> {
    if (isEnded) return;
    isEnded = true;
    await writer.abort();
  }
  async function guarded<T>(action: () => Promise<T>): Promise<T> {
    if (isEnded) throw new Error(`${path}: the output is closed`);
    try {
      return await action();
    } catch (error) {
      await abort();
      throw error;
    }
  }

  return {
    /** @throws ReaderClosedError where stdout's reader is gone; after any error the output is aborted */
    write: (rows: readonly OutputRow[]) =>
      guarded(async () => {
        for (const row of rows) {
          writer.add(row);
          pendingBytes += rowBytes(row);
          if (pendingBytes >= batchBytes || ++pendingRows >= batchRows) await flush();
        }
      }),
    /** @returns the SHA-256 of the file in hexadecimal digits, null where nobody has made it on the way */
    close: () =>
      guarded(async () => {
        await flush();
        const sha256 = await writer.close();
        isEnded = true;
        return sha256;
      }),
    /** harmless after `close` or a second time */
    abort,
  };
}

async function openWriter(target: OutputTarget): Promise<RowWriter> {
  const { path, format, metadata, halfWrittenIn, overwrite, whole } = target;
  const columns = outputColumns(format === 'jsonl' ? [] : target.passThrough, target.ourColumns);
  if (path === '-') {
    if (format === 'parquet') {
      throw usageError(
        'Parquet cannot be written to stdout: its readers need to seek',
        '--format arrow, or -o <file>.parquet',
      );
    }
    if (format === 'arrow' && process.stdout.isTTY) {
      throw usageError('Arrow data is binary and stdout is a terminal', '--format jsonl, or -o <file>');
    }
  }
  // the writers' modules cost 50 to 150 ms to load: only the one that is used
  if (format === 'jsonl') {
    const sink: ByteSink =
      path === '-'
        ? openStreamSink()
        : alsoTo<Uint8Array, AtomicFile>(
            (await AtomicFile.open(path, halfWrittenIn, overwrite)).hashed(),
            whole?.lines,
          );
    const { openJsonlWriter } = await import('./jsonl-writer.js');
    const { choice } = target;
    if (!path.toLowerCase().endsWith('.gz')) return openJsonlWriter(sink, columns, choice);
    const { openGzipSink } = await import('../files/stdout.js');
    return openJsonlWriter(openGzipSink(sink), columns, choice);
  }
  const { arrowSchema, batchedRows, openArrowBatches } = await import('../arrow/writer.js');
  const schema = arrowSchema(columns);
  if (path === '-') {
    const stream = openArrowBatches(openStreamSink(), described(schema, metadata), 'stream');
    return batchedRows(stream, schema, columns);
  }
  const file = await AtomicFile.open(path, halfWrittenIn, overwrite);
  // Parquet is written by a thread, past this one
  if (format === 'arrow') file.hashed();
  if (!target.isPiece || format === 'parquet') file.sealed();
  const opened = await openColumnar(file, format, schema, sealable(metadata));
  const batches = alsoTo<RecordBatch, BatchWriter>(opened.batches, whole?.batches);
  return batchedRows(batches, opened.schema, columns);
}

/**
 * Opens a writer of record batches.
 * @returns with it their schema: Parquet lacks some types
 * @throws RredcotError (exit 2) for columns that no Parquet file can have
 */
export async function openColumnar(
  file: AtomicFile,
  format: OutputFormat,
  schema: Schema,
  metadata: Readonly<Record<string, string>>,
): Promise<{ readonly schema: Schema; readonly batches: BatchWriter }> {
  if (format === 'parquet') {
    const { parquetSchema } = await import('../parquet/types.js');
    const { openParquetBatches } = await import('../parquet/writer.js');
    const own = parquetSchema(file.path, schema);
    return { schema: own, batches: openParquetBatches(file, own, metadata) };
  }
  const { openArrowBatches } = await import('../arrow/writer.js');
  const layout = file.path.toLowerCase().endsWith('.arrows') ? 'stream' : 'file';
  return { schema, batches: openArrowBatches(file, described(schema, metadata), layout) };
}

function described({ fields }: Schema, metadata: Readonly<Record<string, string>>): Schema {
  return new Schema(fields, new Map(Object.entries(metadata)));
}

/** With a place for the file's own hash. */
export function sealable(metadata: Readonly<Record<string, string>>): Record<string, string> {
  return { ...metadata, [HASH_KEY]: UNSEALED };
}

/** About how many bytes a row holds before compression. */
export function rowBytes({ trace, completionIds, segments, referenceLogprobs }: OutputRow): number {
  const tokens = completionIds?.length ?? 0;
  const references = (referenceLogprobs?.length ?? 0) * (referenceLogprobs?.[0]?.length ?? 0);
  // a columnar row's text is not made for this
  const { arrow } = trace.source;
  const inputBytes = arrow === undefined ? trace.source.raw.length : arrow.batch.rowBytes;
  return inputBytes + 16 * tokens + 64 * segments.length + 4 * references;
}
