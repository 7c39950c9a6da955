// Bytes of a JSONL file in, one row (or one bad row) a line out.

import { isUtf8 } from 'node:buffer';
import { EXIT, type Rejection, RredcotError } from '../errors.js';
import { parseJson } from './json.js';
import type { BadRow, InputRow } from './rows.js';

export type { BadRow, InputRow } from './rows.js';

/** Default of `--max-line-bytes`. */
export const MAX_LINE_BYTES = 256 * 2 ** 20;
/** V8 holds no string of 2^29 - 24 characters or more. */
const LONGEST_LINE_BYTES = 500_000_000;
/** How much of a line that is too long goes to the rejects file. */
const RAW_PREFIX_BYTES = 1024;

const NEWLINE = 10;
const CARRIAGE_RETURN = 13;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

export interface JsonlOptions {
  /** file name for messages */
  readonly file: string;
  /** how ids begin */
  readonly stem: string;
  readonly maxLineBytes?: number | undefined;
  /** number over all inputs of the file's first row */
  readonly firstOrdinal?: number | undefined;
  /** Asked once for every row, in order, by its number over all inputs: others are counted, not parsed. */
  readonly wanted?: ((ordinal: number) => boolean) | undefined;
  /** told of every chunk of bytes read */
  readonly onBytes?: ((count: number) => void) | undefined;
}

/** Reads JSONL row by row; a line that is no row comes out as a `BadRow` and costs no other. */
export async function* readJsonlRows(
  bytes: AsyncIterable<Buffer>,
  opts: JsonlOptions,
): AsyncGenerator<InputRow | BadRow> {
  const maxLineBytes = opts.maxLineBytes ?? MAX_LINE_BYTES;
  if (!(maxLineBytes >= 1 && maxLineBytes <= LONGEST_LINE_BYTES)) {
    throw new RredcotError(`line limit is ${maxLineBytes} bytes, expected 1 to ${LONGEST_LINE_BYTES}`, {
      exitCode: EXIT.usage,
      hint: '--max-line-bytes 268435456',
    });
  }
  let row = 0;
  for await (const line of splitLines(bytes, maxLineBytes, opts.onBytes)) {
    const text = withoutLineEnd(line.bytes);
    if (line.length === line.bytes.length && isBlank(text)) continue;
    const place = { row, ordinal: (opts.firstOrdinal ?? 0) + row, byteOffset: line.offset };
    row++;
    if (opts.wanted?.(place.ordinal) === false) continue;
    yield parseLine(line, text, { file: opts.file, stem: opts.stem, ...place }, maxLineBytes);
  }
}

interface Line {
  /** the whole line without its newline, or the first bytes of one that is too long */
  readonly bytes: Buffer;
  readonly length: number;
  readonly offset: number;
}

async function* splitLines(
  bytes: AsyncIterable<Buffer>,
  maxLineBytes: number,
  onBytes: ((count: number) => void) | undefined,
): AsyncGenerator<Line> {
  let parts: Buffer[] = []; // the open line's bytes so far, until it is too long
  let length = 0;
  let offset = 0;
  const prefixBytes = Math.min(RAW_PREFIX_BYTES, maxLineBytes);

  function take(part: Buffer): void {
    const wasShort = length <= maxLineBytes;
    length += part.length;
    if (length <= maxLineBytes) parts.push(part);
    // too long: keep a copy of its first bytes, drop the rest as it comes
    else if (wasShort) parts = [Buffer.from(Buffer.concat([...parts, part]).subarray(0, prefixBytes))];
  }
  function end(): Line {
    let start = offset;
    let line = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
    offset += length + 1;
    if (start === 0 && line.subarray(0, 3).equals(BOM)) {
      line = line.subarray(3);
      start = 3;
      length -= 3;
    }
    const ended = { bytes: line, length, offset: start };
    parts = [];
    length = 0;
    return ended;
  }

  for await (const chunk of bytes) {
    onBytes?.(chunk.length);
    let from = 0;
    for (let to = chunk.indexOf(NEWLINE); to >= 0; to = chunk.indexOf(NEWLINE, from)) {
      take(chunk.subarray(from, to));
      yield end();
      from = to + 1;
    }
    if (from < chunk.length) take(chunk.subarray(from));
  }
  if (length > 0) yield end();
}

function withoutLineEnd(line: Buffer): Buffer {
  return line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line;
}

function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === 32 || byte === 9 || byte === CARRIAGE_RETURN);
}

function parseLine(
  line: Line,
  bytes: Buffer,
  place: Omit<InputRow, 'kind' | 'raw' | 'columns'>,
  maxLineBytes: number,
): InputRow | BadRow {
  const raw = bytes.toString('utf8');
  const bad = (code: string, reason: string): BadRow => {
    const rejection: Rejection = { code, reason };
    return { kind: 'bad', ...place, raw, rejection, id: `${place.stem}:${place.row}` };
  };

  if (line.length > maxLineBytes) {
    return bad(
      'line_too_long',
      `line of ${line.length} bytes, at most ${maxLineBytes}: raise --max-line-bytes`,
    );
  }
  if (!isUtf8(bytes)) return bad('utf8', 'line is not UTF-8: convert the file with iconv');
  let columns: unknown;
  try {
    columns = parseJson(raw);
  } catch (error) {
    return bad('json', `line is not JSON: ${(error as Error).message}`);
  }
  if (typeof columns !== 'object' || columns === null || Array.isArray(columns)) {
    const found = columns === null ? 'null' : Array.isArray(columns) ? 'a list' : `a ${typeof columns}`;
    return bad('json', `line holds ${found}, expected one JSON object`);
  }
  return { kind: 'row', ...place, raw, columns: columns as Record<string, unknown> };
}
