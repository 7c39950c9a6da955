// Where the output goes, and in which format: picks the writer, gathers rows into batches, ends cleanly.

import { EXIT, RredcotError } from '../errors.js';
import { AtomicFile } from './atomic-file.js';
import { type OutputRow, outputColumns, type WrittenColumn } from './columns.js';
import type { RowEncoder, RowWriter } from './row-writer.js';
import type { PassThroughColumn } from './schema.js';
import { type ByteSink, openStreamSink } from './stdout.js';

export {
  OUR_COLUMNS,
  type OurColumn,
  type OutputColumn,
  type OutputRow,
  resolveColumnNames,
  type SegmentRow,
  type WrittenColumn,
} from './columns.js';
export { ReaderClosedError } from './stdout.js';

export type OutputFormat = 'parquet' | 'arrow' | 'jsonl';

const EXTENSIONS: readonly (readonly [string, OutputFormat])[] = [
  ['.parquet', 'parquet'],
  ['.arrow', 'arrow'],
  ['.arrows', 'arrow'],
  ['.jsonl', 'jsonl'],
  ['.ndjson', 'jsonl'],
  ['.jsonl.gz', 'jsonl'],
  ['.ndjson.gz', 'jsonl'],
];

/** The key of a file's metadata under which its configuration stands. */
export const CONFIG_KEY = 'rredcot.config';

/** Rows are gathered until they make about so many raw bytes, however they come in: the file is the same. */
const BATCH_BYTES = 2 * 2 ** 20;
/** The same for stdout, whose reader waits for each batch. */
const PIPE_BATCH_BYTES = 2 ** 20;

/**
 * The format that a file's name stands for.
 * @throws RredcotError for a name without a known extension
 */
export function formatOf(path: string): OutputFormat {
  const known = EXTENSIONS.find(([extension]) => path.toLowerCase().endsWith(extension));
  if (known !== undefined) return known[1];
  const names = EXTENSIONS.map(([extension]) => extension).join(', ');
  throw new RredcotError(`${path}: the name does not tell the format, expected one of ${names}`, {
    exitCode: EXIT.usage,
    hint: '--format parquet|arrow|jsonl; a name that ends with / is a run folder',
  });
}

/** The extension, without its dot, of files like `path` in this format: the name may say more than the format does. */
export function extensionOf(path: string, format: OutputFormat): string {
  const known = EXTENSIONS.find(([extension, of]) => of === format && path.toLowerCase().endsWith(extension));
  return known === undefined ? format : known[0].slice(1);
}

/** Where rows go to: `close` makes the file visible, `abort` leaves nothing behind. */
export interface Output {
  /** @throws ReaderClosedError where stdout's reader is gone; after any error the output is aborted */
  write(rows: readonly OutputRow[]): Promise<void>;
  /** the same for what an {@link openEncoder} of the same target has made; the bytes may be given away */
  writeEncoded(encoded: Uint8Array, rows: number): Promise<void>;
  /** @returns the SHA-256 of the file in hexadecimal digits, null where nobody has made it on the way */
  close(): Promise<string | null>;
  /** harmless after `close` or a second time */
  abort(): Promise<void>;
}

export interface OutputTarget {
  /** `-` is stdout */
  readonly path: string;
  readonly format: OutputFormat;
  /** any of ours, which are written in their own order; then an export's */
  readonly ourColumns: readonly WrittenColumn[];
  /** as `resolveColumnNames` named them; JSONL, which has no types, writes each row's own keys instead */
  readonly passThrough: readonly PassThroughColumn[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** Opens the output; nothing is visible under `path` before `close`. */
export async function openOutput(target: OutputTarget): Promise<Output> {
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
    write: (rows) =>
      guarded(async () => {
        for (const row of rows) {
          writer.add(row);
          pendingBytes += rowBytes(row);
          if (pendingBytes >= batchBytes || ++pendingRows >= batchRows) await flush();
        }
      }),
    writeEncoded: (encoded, rows) => guarded(() => writer.writeEncoded(encoded, rows)),
    close: () =>
      guarded(async () => {
        await flush();
        const sha256 = await writer.close();
        isEnded = true;
        return sha256;
      }),
    abort,
  };
}

/** Makes bytes of rows that another thread, where the output is open, writes; columns without those of a columnar input. */
export async function openEncoder({
  format,
  passThrough,
  ourColumns,
}: Pick<OutputTarget, 'format' | 'passThrough' | 'ourColumns'>): Promise<RowEncoder> {
  if (format !== 'jsonl')
    return (await import('./arrow-batch.js')).streamEncoder(outputColumns(passThrough, ourColumns));
  return (await import('./jsonl-writer.js')).jsonlEncoder(outputColumns([], ourColumns));
}

async function openWriter(target: OutputTarget): Promise<RowWriter> {
  const { path, format, metadata } = target;
  const columns = outputColumns(format === 'jsonl' ? [] : target.passThrough, target.ourColumns);
  if (path === '-') {
    if (format === 'parquet') {
      throw new RredcotError('Parquet cannot be written to stdout: its readers need to seek', {
        exitCode: EXIT.usage,
        hint: '--format arrow, or -o <file>.parquet',
      });
    }
    if (format === 'arrow' && process.stdout.isTTY) {
      throw new RredcotError('Arrow data is binary and stdout is a terminal', {
        exitCode: EXIT.usage,
        hint: '--format jsonl, or -o <file>',
      });
    }
  }
  // the writers' modules cost 50 to 150 ms to load: only the one that is used
  if (format === 'parquet') {
    const { openParquetWriter } = await import('./parquet.js');
    return openParquetWriter(await AtomicFile.open(path), columns, metadata);
  }
  const sink: ByteSink = path === '-' ? openStreamSink() : (await AtomicFile.open(path)).hashed();
  if (format === 'jsonl') {
    const { openJsonlWriter } = await import('./jsonl-writer.js');
    if (!path.toLowerCase().endsWith('.gz')) return openJsonlWriter(sink, columns);
    const { openGzipSink } = await import('./gzip.js');
    return openJsonlWriter(openGzipSink(sink), columns);
  }
  const { openArrowWriter } = await import('./arrow-writer.js');
  const layout = path === '-' || path.toLowerCase().endsWith('.arrows') ? 'stream' : 'file';
  return openArrowWriter(sink, columns, { layout, metadata });
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
