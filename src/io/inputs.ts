// The command line's input paths: checked up front, then read one after the other as rows.

import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { EXIT, RredcotError } from '../errors.js';
import { fileError } from './file-error.js';
import { type BadRow, type InputRow, readJsonlRows } from './jsonl.js';
import { mendedRow } from './mended-row.js';

/** One input that exists, can be read and holds rows in a known format. */
export interface Input {
  /** as the user gave it, `-` for stdin */
  readonly path: string;
  /** how ids of its rows begin: {@link fileStem}, or the path where two inputs share that */
  readonly stem: string;
  readonly format: InputFormat;
  /** bytes, null for stdin or a pipe */
  readonly size: number | null;
}

/** How rows are laid out; a reader for each is in `READERS`. */
export type InputFormat = 'jsonl';

export interface ReadOptions {
  readonly maxLineBytes?: number | undefined;
  readonly onBytes?: ((count: number) => void) | undefined;
  /** Asked once for every row, in order, by its number over all inputs: others are counted, not parsed. */
  readonly wanted?: ((ordinal: number) => boolean) | undefined;
}

type RowReader = (
  bytes: AsyncIterable<Buffer>,
  opts: ReadOptions & { readonly file: string; readonly stem: string; readonly firstOrdinal: number },
) => AsyncGenerator<InputRow | BadRow>;

const READERS: Readonly<Record<InputFormat, RowReader>> = { jsonl: readJsonlRows };

const READ_CHUNK_BYTES = 2 ** 20;
const STDIN = '-';

/** What a file's first bytes say it is, where that is no JSONL whatever its name says. */
const SIGNATURES: readonly { readonly bytes: Buffer; readonly what: string; readonly hint: string }[] = [
  { bytes: Buffer.from('PAR1'), what: 'a Parquet file', hint: 'convert it to JSONL' },
  { bytes: Buffer.from('ARROW1'), what: 'an Arrow file', hint: 'convert it to JSONL' },
  { bytes: Buffer.from([0xff, 0xff, 0xff, 0xff]), what: 'an Arrow stream', hint: 'convert it to JSONL' },
  { bytes: Buffer.from([0x1f, 0x8b]), what: 'gzip data', hint: 'gzip -dc <file> | rredcot … -' },
  { bytes: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), what: 'zstd data', hint: 'zstd -dc <file> | rredcot … -' },
  { bytes: Buffer.from([0xff, 0xfe]), what: 'UTF-16 text', hint: 'iconv -f UTF-16 -t UTF-8 <file>' },
  { bytes: Buffer.from([0xfe, 0xff]), what: 'UTF-16 text', hint: 'iconv -f UTF-16 -t UTF-8 <file>' },
];

/**
 * Checks the input paths; none means stdin.
 * @throws RredcotError naming the path that is missing, unreadable or in another format
 */
export async function resolveInputs(paths: readonly string[]): Promise<Input[]> {
  const given = paths.length === 0 ? [STDIN] : paths;
  if (given.filter((path) => path === STDIN).length > 1) {
    throw new RredcotError('stdin (-) is named more than once as an input', { exitCode: EXIT.usage });
  }
  const inputs: Input[] = [];
  for (const path of given) {
    const sharesName = given.filter((other) => fileStem(other) === fileStem(path)).length > 1;
    const stem = sharesName ? path.slice(0, path.length - extname(path).length) : fileStem(path);
    inputs.push({ path, stem, ...(path === STDIN ? UNSIZED : await resolveFile(path)) });
  }
  return inputs;
}

/** What can be read only once: stdin or a pipe. */
const UNSIZED = { format: 'jsonl', size: null } as const;

async function resolveFile(path: string): Promise<Pick<Input, 'format' | 'size'>> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) {
      throw new RredcotError(`${path}: is a folder, expected a JSONL file`, {
        exitCode: EXIT.usage,
        hint: `name its files: ${path.replace(/\/+$/, '')}/*.jsonl`,
      });
    }
    // a pipe must be opened once only, and bytes read from it are gone: only a real file is looked into
    if (!found.isFile()) return UNSIZED;
    await using file = await open(path, 'r');
    const { buffer, bytesRead } = await file.read(Buffer.alloc(8), 0, 8, 0);
    refuseOtherFormats(buffer.subarray(0, bytesRead), path);
    return { format: 'jsonl', size: found.size };
  } catch (error) {
    throw fileError(error, path, 'read');
  }
}

function refuseOtherFormats(firstBytes: Buffer, path: string): void {
  const signature = SIGNATURES.find(({ bytes }) => firstBytes.subarray(0, bytes.length).equals(bytes));
  if (signature !== undefined) {
    throw new RredcotError(`${path}: is ${signature.what}, expected JSONL`, {
      exitCode: EXIT.usage,
      hint: signature.hint,
    });
  }
  if (extname(path) === '.json' && firstBytes.toString('latin1').trimStart().startsWith('[')) {
    throw new RredcotError(`${path}: is a JSON list, expected one JSON object a line`, {
      exitCode: EXIT.usage,
      hint: `jq -c '.[]' ${path}`,
    });
  }
}

/** Reads all inputs in order. */
export async function* readRows(
  inputs: readonly Input[],
  opts: ReadOptions = {},
): AsyncGenerator<InputRow | BadRow> {
  let rows = 0; // of all inputs so far
  const wanted = (ordinal: number): boolean => {
    rows = ordinal + 1;
    return opts.wanted?.(ordinal) ?? true;
  };
  for (const { path, stem, format } of inputs) {
    const read = READERS[format](readBytes(path), { ...opts, wanted, file: path, stem, firstOrdinal: rows });
    for await (const row of read) yield row.kind === 'bad' ? row : mendedRow(row, fileStem);
  }
}

async function* readBytes(path: string): AsyncGenerator<Buffer> {
  const stream = path === STDIN ? process.stdin : createReadStream(path, { highWaterMark: READ_CHUNK_BYTES });
  let isFirst = true;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (isFirst) refuseOtherFormats(chunk.subarray(0, 8), path);
      isFirst = false;
      yield chunk;
    }
  } catch (error) {
    throw fileError(error, path, 'read');
  }
}

/** The file's name without folder and extension, as ids begin: `stdin` for `-`. */
export function fileStem(path: string): string {
  return path === STDIN ? 'stdin' : basename(path, extname(path));
}
