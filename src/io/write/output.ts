// Where rows and rejects go, and in which format: picks the writer, gathers rows into batches, ends cleanly.
import { dirname } from 'node:path';
import { Schema } from 'apache-arrow';
import { usageError } from '../../errors.js';
import type { BadRow } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import { stringifyJson } from '../arrow/json.js';
import { type OutputColumn, outputColumns } from '../arrow/output-columns.js';
import type { PassThroughColumn } from '../arrow/schema.js';
import type { BatchWriter, RowWriter } from '../arrow/writer.js';
import {
  type AtomicFile,
  assertFilePlace,
  makeInside,
  openAtomicFile,
  removeFile,
} from '../files/atomic-file.js';
import { FACTS_KEY, type Facts, UNKNOWN } from '../files/facts.js';
import { isStored, orAbort, sha256OfFile } from '../files/files.js';
import { type ByteSink, openStreamSink } from '../files/stdout.js';

export const FORMATS = ['parquet', 'arrow', 'jsonl'] as const;
export type OutputFormat = (typeof FORMATS)[number];

const NAMES = {
  parquet: 'parquet',
  arrow: 'arrow',
  arrows: 'arrow',
  jsonl: 'jsonl',
  ndjson: 'jsonl',
} as const;
export const EXTENSIONS = Object.entries(NAMES).map(([name, format]) => [`.${name}`, format] as const);

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

/** Where rows go to: `finish` makes them durable, `publish` visible, `abort` leaves nothing behind. */
export type Output = Awaited<ReturnType<typeof openOutput>>;

export interface OutputTarget {
  /** `-` is stdout */
  readonly path: string;
  readonly format: OutputFormat;
  /** ours, in their order */
  readonly ourColumns: readonly OutputColumn[];
  /** as `resolveColumnNames` named them; JSONL, which has no types, writes each row's own keys instead */
  readonly passThrough: readonly PassThroughColumn[];
  /** those of an input row's own keys that JSONL lacks */
  readonly drop?: readonly string[] | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  /** where the file lies until it is whole; by default beside itself */
  readonly halfWrittenIn?: string | undefined;
  /** in the place of stdout, and the file of the rejects beside it */
  readonly answer?: { readonly sink: ByteSink; readonly rejects: string } | undefined;
}

/** Opens the output; nothing is visible under `path` before `publish`. */
export async function openOutput(target: OutputTarget) {
  const { path, format, halfWrittenIn, passThrough, ourColumns } = target;
  const isStdout = path === '-';
  if (isStdout && target.answer === undefined) refuseOnStdout(format);
  const columns = outputColumns(format === 'jsonl' ? [] : passThrough, ourColumns);
  const file = isStdout ? undefined : await openAtomicFile(path, halfWrittenIn);
  const writer = await orAbort(openWriter(target, columns, file), async () => file?.abort());
  let pendingRows = 0;
  let pendingBytes = 0;
  // a pipe's reader starts with the first row and gets twice as many with every batch, up to the bound
  let batchRows = isStdout ? 1 : Number.POSITIVE_INFINITY;
  const batchBytes = isStdout ? PIPE_BATCH_BYTES : BATCH_BYTES;

  async function flush(): Promise<void> {
    pendingRows = 0;
    pendingBytes = 0;
    batchRows *= 2;
    await writer.flush();
  }
  return {
    /** where the bytes of a file are before it is published */
    temporaryPath: file?.temporaryPath,
    /** @throws ReaderClosedError where stdout's reader is gone */
    async write(row: OutputRow): Promise<void> {
      writer.add(row);
      pendingBytes += rowBytes(row);
      if (pendingBytes >= batchBytes || ++pendingRows >= batchRows) await flush();
    },
    /** @param facts what a columnar file says of its rows */
    async finish(facts?: Facts): Promise<void> {
      await flush();
      await writer.close(facts);
    },
    /** @param replaces as of `putInPlace` */
    publish: async (replaces?: boolean): Promise<void> => file?.publish(replaces),
    /** harmless after `publish` or a second time */
    abort: () => writer.abort(),
  };
}

function refuseOnStdout(format: OutputFormat): void {
  if (format === 'parquet')
    throw usageError(
      'Parquet cannot be written to stdout: its readers need to seek',
      '--format arrow, or -o <file>.parquet',
    );
  if (format === 'arrow' && process.stdout.isTTY)
    throw usageError('Arrow data is binary and stdout is a terminal', '--format jsonl, or -o <file>');
}

// the writers' modules cost 50 to 150 ms to load: only the one that is used
async function openWriter(
  { format, metadata, drop, answer }: OutputTarget,
  columns: readonly OutputColumn[],
  file: AtomicFile | undefined,
): Promise<RowWriter> {
  const sink: ByteSink = file ?? answer?.sink ?? openStreamSink();
  if (format === 'jsonl') {
    const { openJsonlWriter } = await import('./jsonl-writer.js');
    return openJsonlWriter(sink, columns, drop);
  }
  const { arrowSchema, batchedRows, openArrowBatches } = await import('../arrow/writer.js');
  const schema = arrowSchema(columns);
  const opened =
    file === undefined
      ? { schema, batches: openArrowBatches(sink, described(schema, metadata), 'stream') }
      : await openColumnar(file, format, schema, metadata);
  return batchedRows(opened.batches, opened.schema, columns);
}

/** Opens a writer of record batches, and says their schema: Parquet lacks some types. @throws RredcotError (exit 2) for what no Parquet file can have */
export async function openColumnar(
  file: AtomicFile,
  format: 'parquet' | 'arrow',
  schema: Schema,
  metadata: Readonly<Record<string, string>>,
): Promise<{ readonly schema: Schema; readonly batches: BatchWriter }> {
  if (format === 'parquet') {
    const { parquetSchema } = await import('../arrow/types.js');
    const { openParquetBatches } = await import('../parquet/writer.js');
    const own = parquetSchema(file.path, schema);
    return { schema: own, batches: openParquetBatches(file, own, { ...metadata, [FACTS_KEY]: UNKNOWN }) };
  }
  const { openArrowBatches } = await import('../arrow/writer.js');
  const layout = file.path.toLowerCase().endsWith('.arrows') ? 'stream' : 'file';
  const own = described(schema, { ...metadata, [FACTS_KEY]: UNKNOWN });
  return { schema, batches: openArrowBatches(file, own, layout) };
}

function described({ fields }: Schema, metadata: Readonly<Record<string, string>>): Schema {
  return new Schema(fields, new Map(Object.entries(metadata)));
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

// ------ rejects: one line for each row, or trace of a row, that was rejected

/**
 * Opens the file, which is made at the first reject; one that an earlier run left is replaced, or removed, when this one is
 * published: no file means no reject.
 * @param folder where it lies until it is whole; by default beside itself
 * @throws RredcotError (exit 2) where something else than a file has its name
 */
export async function openRejects(path: string, folder?: string) {
  await assertFilePlace(path);
  let file: AtomicFile | undefined;
  return {
    async add({ file: from, row, byteOffset, id, raw, rejection: { code, reason } }: BadRow): Promise<void> {
      if (file === undefined && folder !== undefined && !isStored(path)) await makeInside(dirname(path));
      file ??= await openAtomicFile(path, isStored(path) ? undefined : folder);
      const line = { file: from, row, byte_offset: byteOffset, id, code, reason, raw };
      await file.write(Buffer.from(`${stringifyJson(line)}\n`));
    },
    /** Lines of another such file. */
    async append(lines: AsyncIterable<Uint8Array>): Promise<void> {
      file ??= await openAtomicFile(path, folder);
      for await (const bytes of lines) await file.write(bytes);
    },
    /** makes them durable. @returns the SHA-256 of the file, null where there is none */
    async finish(): Promise<string | null> {
      if (file === undefined) return null;
      await file.finish();
      return sha256OfFile(file.temporaryPath);
    },
    /** makes the file visible, if there was a reject */
    publish: (): Promise<void> => (file === undefined ? removeFile(path) : file.publish()),
    abort: async (): Promise<void> => file?.abort(),
  };
}
