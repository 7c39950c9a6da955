// Reads a row, or a bad row, of each line of JSONL or element of a JSON list; of a line of a rejects file the row that it holds.
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { type Rejection, usageError } from '../../errors.js';
import { type BadRow, type InputRow, type RowOptions, rejectRow } from '../../rows.js';
import { parseJson } from '../arrow/json.js';
import { TruncatedError } from '../files/decompress.js';
import { BOM, elementSplitter, lineSplitter, OPEN_LIST, type RowBytes } from './split.js';

/** Default of `--max-line-bytes`. */
export const MAX_LINE_BYTES = 256 * 2 ** 20;
/** V8 holds no string of 2^29 - 24 characters or more. */
const LONGEST_LINE_BYTES = 500_000_000;

const CARRIAGE_RETURN = 13;
/** Names that promise lines: a list in such a file is one bad line. */
const LINES = /\.(jsonl|ndjson)(\.gz|\.zst)?$/i;

/** Reads JSON text row by row; a line or element that is no row comes out as a `BadRow` and costs no other. */
export async function* readJsonRows(
  bytes: AsyncIterable<Buffer>,
  opts: RowOptions,
): AsyncGenerator<InputRow | BadRow> {
  const { file, wanted, onBytes, places, firstOrdinal = 0 } = opts;
  const { row: firstRow, offset: start } = opts.from ?? { row: 0, offset: 0 };
  const maxRowBytes = lineLimit(opts);
  let row = firstRow;
  let told = start;
  let splitter = lineSplitter({ file, maxRowBytes, skipped: start });
  let isStarted = start > 0;
  let isList = false;
  let skipped = 0; // white space so far

  // undefined: a blank line, or a row that nobody wants
  function take(found: RowBytes): InputRow | BadRow | undefined {
    const bytes = isList ? found.bytes : withoutLineEnd(found.bytes);
    const { length, offset } = found;
    onBytes?.(offset + length - told);
    told = offset + length;
    if (!isList && length === found.bytes.length && isBlank(bytes)) return undefined;
    const number = row++;
    const ordinal = firstOrdinal + number;
    if (!isList) places?.add(ordinal, offset);
    if (wanted?.(ordinal) === false) return undefined;
    return parsed({ bytes, length, offset }, { row: number, ordinal }, opts);
  }
  try {
    for await (const chunk of bytes) {
      if (!isStarted) {
        const first = firstByte(chunk, skipped === 0);
        isStarted = first !== undefined;
        isList = first === OPEN_LIST && !LINES.test(file);
        if (isList) splitter = elementSplitter({ file, maxRowBytes, skipped });
        else skipped += chunk.length;
      }
      for (const found of splitter.push(chunk)) {
        const own = take(found);
        if (own !== undefined) yield own;
      }
    }
    const last = splitter.end();
    const own = last === null ? undefined : take(last);
    if (own !== undefined) yield own;
  } catch (error) {
    if (!(error instanceof TruncatedError)) throw error;
    const { bytes: cut, offset: byteOffset } = splitter.rest();
    const ordinal = firstOrdinal + row;
    if (wanted?.(ordinal) === false) return;
    const reason = `${error.message}: this row is cut off, and what came after it is lost: fetch the file again`;
    yield {
      kind: 'bad',
      file,
      row,
      ordinal,
      byteOffset,
      raw: cut.toString('utf8'),
      rejection: { code: 'truncated', reason },
    };
    return;
  }
}

/** @throws RredcotError (exit 2) for `--max-line-bytes` beyond what V8 can hold */
function lineLimit({ maxLineBytes = MAX_LINE_BYTES }: Pick<RowOptions, 'maxLineBytes'>): number {
  if (maxLineBytes >= 1 && maxLineBytes <= LONGEST_LINE_BYTES) return maxLineBytes;
  throw usageError(
    `line limit is ${maxLineBytes} bytes, expected 1 to ${LONGEST_LINE_BYTES}`,
    '--max-line-bytes 268435456',
  );
}

/** The first byte that is no white space and no byte order mark. */
function firstByte(chunk: Buffer, isFileStart: boolean): number | undefined {
  const start = isFileStart && BOM.every((byte, n) => chunk[n] === byte) ? BOM.length : 0;
  // a plain loop: packed white space unpacks to gigabytes
  for (let at = start; at < chunk.length; at++) {
    const byte = chunk[at] as number;
    if (byte !== 32 && byte !== 10 && byte !== CARRIAGE_RETURN && byte !== 9) return byte;
  }
  return undefined;
}

function withoutLineEnd(line: Buffer): Buffer {
  return line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line;
}

function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === 32 || byte === 9 || byte === CARRIAGE_RETURN);
}

function parsed(
  { bytes, length, offset: byteOffset }: RowBytes,
  { row, ordinal }: Pick<InputRow, 'row' | 'ordinal'>,
  { file, stem, maxLineBytes = MAX_LINE_BYTES }: RowOptions,
): InputRow | BadRow {
  const place = { file, stem, row, ordinal, byteOffset };
  const raw = bytes.toString('utf8');
  const bad = (code: string, reason: string): BadRow => {
    const rejection: Rejection = { code, reason };
    return { kind: 'bad', ...place, raw, rejection, id: `${stem}:${row}` };
  };

  if (length > maxLineBytes) {
    return bad('line_too_long', `line of ${length} bytes, at most ${maxLineBytes}: raise --max-line-bytes`);
  }
  if (!isUtf8(bytes)) return bad('utf8', 'line is not UTF-8: convert the file with iconv');
  let columns: unknown;
  try {
    columns = parseJson(raw);
  } catch (error) {
    const alone = raw.trim();
    if (alone === '{' || alone === '[')
      return bad(
        'json',
        `line holds ${alone} alone, expected one JSON object a line: jq -c . writes them so; a file that is one list is called .json`,
      );
    return bad('json', `line is not JSON: ${(error as Error).message}`);
  }
  if (typeof columns !== 'object' || columns === null || Array.isArray(columns)) {
    const found = columns === null ? 'null' : Array.isArray(columns) ? 'a list' : `a ${typeof columns}`;
    const hint = Array.isArray(columns) ? ': a file that is one list is called .json' : '';
    return bad('json', `line holds ${found}, expected one JSON object${hint}`);
  }
  return { kind: 'row', ...place, raw, columns: columns as Record<string, unknown> };
}

/** A line of a rejects file: the keys that every line has. A row of an input has others, or more. */
const RejectLineSchema = z.strictObject({
  file: z.string(),
  row: z.int().nonnegative(),
  byte_offset: z.int().nonnegative().nullable(),
  id: z.string(),
  code: z.string(),
  reason: z.string(),
  raw: z.string(),
});
const KEYS = Object.keys(RejectLineSchema.shape);

/**
 * Reads the row inside a line of a rejects file, any other row is handed back. It keeps file, row, id and byte offset of
 * its first reading, so that its traces get the ids that they would have had and the outputs can be put together.
 * @param fileStem how ids of a file's rows begin, where the id does not tell
 */
export function rejectedRow(row: InputRow, fileStem: (path: string) => string): InputRow | BadRow {
  const { columns } = row;
  // every row comes by: most are told by a key
  const line = KEYS.every((key) => Object.hasOwn(columns, key)) && RejectLineSchema.safeParse(columns).data;
  if (!line) return row;
  const { file, row: number, byte_offset: byteOffset, id, raw } = line;
  const place = { file, stem: stemOfId(id, number) ?? fileStem(file), row: number, byteOffset, raw };
  const again = { ...row, ...place, trace: id };
  const bad = (reason: string): BadRow => rejectRow(again, { code: 'json', reason }, id);
  let parsed: unknown;
  try {
    parsed = parseJson(raw);
  } catch (error) {
    return bad(`raw is not JSON: ${(error as Error).message}`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    return bad('raw holds no JSON object');
  // a line of a rejects file may have been turned down itself: each raw is shorter than what it stood in
  return rejectedRow({ ...again, columns: parsed as Record<string, unknown> }, fileStem);
}

/** What comes before the row's number in an id that was made of it; undefined for an id of the user's. */
function stemOfId(id: string, row: number): string | undefined {
  return new RegExp(`^(.*):${row}(?:/\\d+)?$`, 's').exec(id)?.[1];
}
