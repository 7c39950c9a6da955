// The command line's input paths: checked up front, then read one after the other as rows.

import { realpath } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { usageError } from '../../errors.js';
import type { BadRow, InputRow, ReadOptions, RowOptions } from '../../rows.js';
import type { BatchSource } from '../arrow/reader.js';
import type { ColumnarColumns } from '../arrow/types.js';
import { decompress } from '../files/decompress.js';
import {
  type ByteSource,
  factsOf,
  failed,
  fileBytes,
  HEAD_BYTES,
  openByteSource,
  openFile,
  STDIN,
} from '../files/files.js';
import { findFiles } from './find-files.js';
import { besideRows, type HiveKey, hiveKeys } from './hive.js';
import {
  type FileLayout,
  fingerprintOf,
  type InputPrint,
  isJson,
  layoutOf,
  printOfStream,
} from './input-file.js';
import { NEWLINE, readJsonRows } from './jsonl.js';

/** One input that exists, can be read and holds rows in a known format. */
export interface Input {
  /** as the user gave it, or as a pattern or a folder led to it; `-` for stdin */
  readonly path: string;
  /** how ids of its rows begin: {@link fileStem}, or more of the path where two inputs share that */
  readonly stem: string;
  /** bytes, null for stdin or a pipe */
  readonly size: number | null;
  /** null for what can be read only once: its first bytes tell when they come */
  readonly layout: FileLayout | null;
  readonly stream: ByteSource | null;
  readonly print: InputPrint;
  /** of its folders */
  readonly keys: readonly HiveKey[];
  /** its first bytes; of the first input alone */
  readonly head?: Buffer;
}

/** The inputs of paths, patterns and folders; of none stdin. @throws RredcotError naming what is missing, unreadable or in a format that is not read */
export async function resolveInputs(paths: readonly string[]): Promise<Input[]> {
  const given = paths.length === 0 ? [STDIN] : paths;
  if (given.filter((path) => path === STDIN).length > 1)
    throw usageError('stdin (-) is named more than once as an input');
  const files: string[] = [];
  for (const path of given) files.push(...(path === STDIN ? [STDIN] : await findFiles(path)));
  await refuseTwice(files);
  const stems = uniqueStems(files);
  const keys = hiveKeys(files);
  const inputs: Input[] = [];
  for (const [n, path] of files.entries()) {
    const found = path === STDIN ? null : await resolveFile(path).catch(failed(path, 'read'));
    const stream = found === null ? openByteSource(path) : null;
    const { head, ...file } = found ?? { size: null, layout: null, print: printOfStream(path) };
    const first = n === 0 && head !== undefined ? { head } : {};
    inputs.push({ path, stem: stems[n] as string, keys: keys[n] ?? [], ...file, ...first, stream });
  }
  return inputs;
}

// every trace of it would be there twice, under one id and in one group
async function refuseTwice(paths: readonly string[]): Promise<void> {
  const seen = new Map<string, string>();
  for (const path of paths) {
    const real = path === STDIN ? path : await realpath(path).catch(() => path);
    const other = seen.get(real);
    if (other !== undefined)
      throw usageError(
        `${path}: is given twice${other === path ? '' : `, also as ${other}`}`,
        'name each input once',
      );
    seen.set(real, path);
  }
}

/** Names without folder and extension; where some are alike, their paths, and the extension too if need be. */
function uniqueStems(paths: readonly string[]): string[] {
  let stems = paths.map(fileStem);
  for (const longer of [withoutExtension, (path: string) => path]) {
    const counts = new Map<string, number>();
    for (const stem of stems) counts.set(stem, (counts.get(stem) ?? 0) + 1);
    stems = stems.map((stem, n) => (counts.get(stem) === 1 ? stem : longer(paths[n] as string)));
  }
  return stems;
}

async function resolveFile(path: string) {
  const found = await factsOf(path);
  // a pipe must be opened once only, and bytes read from it are gone: only a real file is looked into
  if (!found.isFile()) return null;
  const file = await openFile(path, found.version);
  const { print, head } = await fingerprintOf(file, path).finally(() => file.close());
  return { layout: layoutOf(head.subarray(0, HEAD_BYTES), path), size: found.size, print, head };
}

/** An input's layout; of a stream it waits for the first bytes. */
async function inputLayout(input: Input): Promise<FileLayout> {
  return input.layout ?? layoutOf((await input.stream?.head()) ?? Buffer.alloc(0), input.path);
}

/** The columns of columnar inputs, the same in all of them; null where they are JSON. @throws RredcotError (exit 2) naming the column that differs */
export async function columnarColumns(inputs: readonly Input[]): Promise<ColumnarColumns | null> {
  const layouts = await Promise.all(inputs.map(inputLayout));
  const columnar = inputs.filter((_, n) => !isJson(layouts[n]));
  const [first] = columnar;
  if (first === undefined) return null;
  const other = inputs.find((_, n) => isJson(layouts[n]));
  if (other !== undefined)
    throw usageError(
      `${first.path} has columns with types and ${other.path} is JSON: their rows do not go into one typed output`,
      '--format jsonl, or two runs',
    );
  const { passThroughColumns, findSchemaDifference } = await import('../arrow/types.js');
  let found: ColumnarColumns | undefined;
  for (const input of columnar) {
    const { schema, losses } = await describedBy(input, await inputLayout(input));
    const next = passThroughColumns(schema, losses);
    const difference = found === undefined ? null : findSchemaDifference(found.columns, next.columns);
    if (difference !== null)
      throw usageError(
        `${input.path}: ${difference}, as in ${first.path}`,
        '--format jsonl, or runs of their own',
      );
    found ??= next;
  }
  const own = found?.columns ?? [];
  const keys = first.keys.filter((key) => !own.some(({ name }) => name === key.name));
  return found === undefined ? null : { ...found, columns: [...own, ...keys] };
}

/** The metadata of a columnar input; none of JSON. */
export async function inputMetadata(input: Input): Promise<ReadonlyMap<string, string>> {
  const layout = await inputLayout(input);
  return isJson(layout) ? new Map() : (await describedBy(input, layout)).schema.metadata;
}

/** Columnar inputs that were opened before: what they say of themselves stays, and a stream can be read only once. */
const opened = new WeakMap<Input, BatchSource>();

async function describedBy(input: Input, layout: FileLayout): Promise<BatchSource> {
  const known = opened.get(input);
  if (known !== undefined) return known;
  const source = await openBatches(input, layout);
  if (input.stream === null) await source.close();
  return source;
}

/** Packed bytes may become 32,768 times as many: between two chunks an interruption is heard. */
const PACKED_CHUNK_BYTES = 2 ** 13;

export async function* readRows(
  inputs: readonly Input[],
  opts: ReadOptions = {},
): AsyncGenerator<InputRow | BadRow> {
  let rows = 0; // of all inputs so far
  const wanted = (ordinal: number): boolean => {
    rows = Math.max(rows, ordinal + 1);
    return opts.wanted?.(ordinal) ?? true;
  };
  for (const input of inputs) {
    const { path, stem, stream, keys } = input;
    const layout = await inputLayout(input);
    const beside = besideRows(keys, path, opts.onLoss);
    const own = { ...opts, wanted, file: path, stem, beside, firstOrdinal: rows };
    if (!isJson(layout)) {
      yield* readColumnarInput(input, layout, own);
      continue;
    }
    const bytes = stream?.bytes() ?? fileBytes(path, layout === 'json' ? undefined : PACKED_CHUNK_BYTES);
    yield* layout === 'json'
      ? readJsonRows(bytes, own)
      : readJsonRows(decompress(bytes, layout, path, opts), { ...own, onBytes: undefined });
  }
}

async function* readColumnarInput(input: Input, layout: FileLayout, opts: RowOptions) {
  const { columnarBatch, arrowRow } = await import('../arrow/reader.js');
  const { file, stem, onBytes, beside, firstOrdinal = 0 } = opts;
  const isWanted = (row: number): boolean => opts.wanted?.(firstOrdinal + row) ?? true;
  // asks for all of them: they are counted by it
  const anyWanted = (from: number, to: number): boolean => {
    let found = false;
    for (let row = from; row < to; row++) if (isWanted(row)) found = true;
    return found;
  };
  const source = await openBatches(input, layout);
  const more = beside?.(source.schema.names.map(String)) ?? [];
  let told = 0;
  const tell = (share: number): void => {
    onBytes?.((share - told) * (input.size ?? 0));
    told = share;
  };
  try {
    for await (const { batch: recordBatch, row, share } of source.batches(anyWanted, opts.columns)) {
      const [from, until] = share;
      const batch = columnarBatch(recordBatch);
      if (!anyWanted(row, row + recordBatch.numRows)) continue;
      for (let index = 0; index < recordBatch.numRows; index++) {
        tell(from + ((until - from) * (index + 1)) / recordBatch.numRows);
        if (!isWanted(row + index)) continue;
        const place = { file, stem, row: row + index, ordinal: firstOrdinal + row + index };
        yield arrowRow({ batch, index }, place, more);
      }
    }
    tell(1);
  } finally {
    await source.close();
  }
}

// the readers cost 50 to 150 ms to load: only where they are needed
async function openBatches(input: Input, layout: FileLayout): Promise<BatchSource> {
  const { path, stream, size } = input;
  const known = opened.get(input);
  if (stream !== null && known !== undefined) return known;
  if (stream !== null && layout !== 'arrow-stream')
    throw usageError(
      `${path}: ${layout === 'parquet' ? 'Parquet' : 'an Arrow file'} cannot be read from a stream: its table of contents is at its end`,
      'name the file, or pipe JSONL or an Arrow stream (.arrows)',
    );
  const { damaged, openArrow, openArrowStream, refuseSchema } = await import('../arrow/reader.js');
  const source = await (layout === 'parquet'
    ? (await import('../parquet/reader.js')).openParquet(path)
    : layout === 'arrow'
      ? openArrow(path)
      : openArrowStream(path, stream?.bytes() ?? fileBytes(path), size));
  try {
    refuseSchema(source.schema, path);
  } catch (error) {
    await source.close();
    throw damaged(error, path, 'its schema');
  }
  opened.set(input, source);
  return source;
}

// ------ the first row, looked at without taking it from those that read on

/** Reads the inputs from their first row on; where they are streams, once. */
export type ReadRows = (opts: ReadOptions) => AsyncGenerator<InputRow | BadRow>;

/** The rows in those bytes of the first input that were read when it was looked at: of JSON, a mebibyte. */
export async function* headRows(
  [input]: readonly Input[],
  maxLineBytes?: number,
): AsyncGenerator<InputRow | BadRow> {
  if (input?.head === undefined || input.layout !== 'json') return;
  const { head, size, path: file, stem, keys } = input;
  // whole lines
  const lines = head.length === size ? head : head.subarray(0, head.lastIndexOf(NEWLINE) + 1);
  yield* readJsonRows([lines], { file, stem, maxLineBytes, beside: besideRows(keys, file, undefined) });
}

/**
 * Files are opened again for it where they have to be; of a stream the rows read so far are kept, and handed on first.
 * @returns the first row that can be read, undefined where there is none, and what reads from there on
 */
export async function peekRows(
  inputs: readonly Input[],
  maxLineBytes: number | undefined,
): Promise<{ readonly first: InputRow | undefined; readonly read: ReadRows }> {
  if (inputs.every(({ size }) => size !== null)) {
    const read: ReadRows = (opts) => readRows(inputs, opts);
    for (const rows of [headRows(inputs, maxLineBytes), read({ maxLineBytes })])
      for await (const row of rows) if (row.kind === 'row') return { first: row, read };
    return { first: undefined, read };
  }
  let later: ReadOptions = {};
  const rows = readRows(inputs, {
    maxLineBytes,
    onBytes: (count) => later.onBytes?.(count),
    onLoss: (code, message) => later.onLoss?.(code, message),
    wanted: (ordinal) => later.wanted?.(ordinal) ?? true,
  });
  const seen: (InputRow | BadRow)[] = [];
  let first: InputRow | undefined;
  while (first === undefined) {
    const next = await rows.next();
    if (next.done) break;
    seen.push(next.value);
    if (next.value.kind === 'row') first = next.value;
  }
  return {
    first,
    async *read(opts) {
      later = opts;
      try {
        for (const row of seen.splice(0)) if (opts.wanted?.(row.ordinal) ?? true) yield row;
        yield* rows;
      } finally {
        await rows.return(undefined);
      }
    },
  };
}

/** The file's name without folder and extension, as ids begin: `stdin` for `-`. */
export function fileStem(path: string): string {
  return path === STDIN ? 'stdin' : withoutExtension(basename(path));
}

// the extension of what is packed goes too: `a.jsonl.gz` is `a`
function withoutExtension(path: string): string {
  const unpacked = path.replace(/\.(gz|zst)$/i, '');
  return unpacked.slice(0, unpacked.length - extname(unpacked).length);
}
