// Reads a row, or a bad row, of each line of JSONL or element of a JSON list.

import { isUtf8 } from 'node:buffer';
import { dataError, usageError } from '../../errors.js';
import { describeValue } from '../../printable.js';
import type { BadRow, InputRow, RowOptions } from '../../rows.js';
import { parseJson } from '../arrow/json.js';
import { TruncatedError } from '../files/decompress.js';

/** Default of `--max-line-bytes`. */
export const MAX_LINE_BYTES = 256 * 2 ** 20;
/** V8 holds no string of 2^29 - 24 characters or more. */
const LONGEST_LINE_BYTES = 500_000_000;

const CARRIAGE_RETURN = 13;
/** Names that promise lines: a list in such a file is one bad line. */
const LINES = /\.(jsonl|ndjson)(\.gz|\.zst)?$/i;

/** Reads JSON text row by row; a line or element that is no row comes out as a `BadRow` and costs no other. */
export async function* readJsonRows(
  bytes: AsyncIterable<Buffer> | Iterable<Buffer>,
  opts: RowOptions,
): AsyncGenerator<InputRow | BadRow> {
  const { file, wanted, onBytes, firstOrdinal = 0 } = opts;
  const maxRowBytes = opts.maxLineBytes ?? MAX_LINE_BYTES;
  if (!(maxRowBytes <= LONGEST_LINE_BYTES))
    throw usageError(
      `--max-line-bytes ${maxRowBytes}: expected ${LONGEST_LINE_BYTES} at most`,
      'a lower one',
    );
  let row = 0;
  let told = 0;
  let splitter = lineSplitter(maxRowBytes);
  let isStarted = false;
  let isList = false;
  let skipped = 0; // white space so far

  // undefined: a blank line, or a row that nobody wants
  function take(found: RowBytes): InputRow | BadRow | undefined {
    const isReturned = !isList && found.bytes.at(-1) === CARRIAGE_RETURN;
    const bytes = isReturned ? found.bytes.subarray(0, -1) : found.bytes;
    const { length, offset } = found;
    onBytes?.(offset + length - told);
    told = offset + length;
    if (!isList && length === found.bytes.length && bytes.every(isSpace)) return undefined;
    const number = row++;
    const ordinal = firstOrdinal + number;
    if (wanted?.(ordinal) === false) return undefined;
    return parsed({ bytes, length, offset }, { row: number, ordinal }, opts);
  }
  try {
    for await (const chunk of bytes) {
      if (!isStarted) {
        const first = firstByte(chunk, skipped === 0);
        isStarted = first !== undefined;
        isList = first === OPEN_LIST && !LINES.test(file);
        if (isList) splitter = elementSplitter(file, maxRowBytes, skipped);
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
    const place = { file, row, ordinal: firstOrdinal + row, byteOffset };
    if (wanted?.(place.ordinal) === false) return;
    const reason = `${error.message}: this row is cut off, and what came after it is lost: fetch the file again`;
    yield { kind: 'bad', ...place, raw: cut.toString('utf8'), rejection: { code: 'truncated', reason } };
  }
}

/** The first byte that is no white space and no byte order mark. */
function firstByte(chunk: Buffer, isFileStart: boolean): number | undefined {
  const start = isFileStart && BOM.every((byte, n) => chunk[n] === byte) ? BOM.length : 0;
  // a plain loop: packed white space unpacks to gigabytes
  for (let at = start; at < chunk.length; at++) {
    const byte = chunk[at] as number;
    if (!isSpace(byte)) return byte;
  }
  return undefined;
}

const ONE_A_LINE = 'jq -c . writes one a line; a file that is one list is called .json';

function parsed(
  { bytes, length, offset: byteOffset }: RowBytes,
  { row, ordinal }: Pick<InputRow, 'row' | 'ordinal'>,
  { file, stem, beside, maxLineBytes = MAX_LINE_BYTES }: RowOptions,
): InputRow | BadRow {
  const place = { file, stem, row, ordinal, byteOffset };
  const raw = bytes.toString('utf8');
  const bad = (code: string, reason: string): BadRow => {
    return { kind: 'bad', ...place, raw, rejection: { code, reason }, id: `${stem}:${row}` };
  };
  if (length > maxLineBytes)
    return bad('line_too_long', `line of ${length} bytes, at most ${maxLineBytes}: raise --max-line-bytes`);
  if (!isUtf8(bytes)) return bad('utf8', 'line is not UTF-8: convert the file with iconv');
  let columns: unknown;
  try {
    columns = parseJson(raw);
  } catch (error) {
    const isSpread = /^\s*[[{]\s*$/.test(raw);
    return bad('json', `line is not JSON: ${(error as Error).message}${isSpread ? `: ${ONE_A_LINE}` : ''}`);
  }
  if (typeof columns !== 'object' || columns === null || Array.isArray(columns))
    return bad('json', `line holds ${describeValue(columns)}, expected one JSON object: ${ONE_A_LINE}`);
  const own = columns as Record<string, unknown>;
  const more = beside && Object.fromEntries(beside(Object.keys(own)));
  return { kind: 'row', ...place, raw, columns: more ? { ...own, ...more } : own };
}

/** A row's bytes, or the first of them where it is too long to hold. */
interface RowBytes {
  readonly bytes: Buffer;
  readonly length: number;
  readonly offset: number;
}

interface Splitter {
  /** the rows that end in this chunk, one at a time: all have to be taken */
  push(chunk: Buffer): Generator<RowBytes>;
  /** the row that the end of the file ends, if there is one. @throws TruncatedError where it ends inside a list */
  end(): RowBytes | null;
  /** what has come of a row whose end is missing */
  rest(): RowBytes;
}

/** How much of a row that is too long goes to the rejects file. */
const RAW_PREFIX_BYTES = 1024;
export const NEWLINE = 10;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/** Gathers the bytes of one row over several chunks; of one that is too long it keeps a prefix. */
function gathering(maxBytes: number) {
  let parts: Buffer[] = [];
  const gathered = {
    length: 0,
    add(part: Buffer): void {
      const wasShort = gathered.length <= maxBytes;
      gathered.length += part.length;
      if (gathered.length <= maxBytes) parts.push(part);
      else if (wasShort) {
        const shown = Math.min(RAW_PREFIX_BYTES, maxBytes);
        parts = [Buffer.from(Buffer.concat([...parts, part]).subarray(0, shown))];
      }
    },
    take(offset: number): RowBytes {
      const bytes = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
      const row = { bytes, length: gathered.length, offset };
      parts = [];
      gathered.length = 0;
      return row;
    },
  };
  return gathered;
}

/** Splits at newlines; a byte order mark is no part of the first line. */
function lineSplitter(maxRowBytes: number): Splitter {
  const open = gathering(maxRowBytes);
  let offset = 0;

  function take(): RowBytes {
    const line = open.take(offset);
    offset += line.length + 1;
    if (line.offset > 0 || !line.bytes.subarray(0, BOM.length).equals(BOM)) return line;
    const { length } = BOM;
    return { bytes: line.bytes.subarray(length), length: line.length - length, offset: length };
  }
  return {
    *push(chunk) {
      let from = 0;
      for (let to = chunk.indexOf(NEWLINE); to >= 0; to = chunk.indexOf(NEWLINE, from)) {
        open.add(chunk.subarray(from, to));
        yield take();
        from = to + 1;
      }
      if (from < chunk.length) open.add(chunk.subarray(from));
    },
    end: () => (open.length > 0 ? take() : null),
    rest: take,
  };
}

const QUOTE = 34;
const COMMA = 44;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/**
 * Splits one JSON list at the commas between its elements, however large the list is. What an element holds is left
 * to the parser, so a broken one costs no other as long as its brackets and quotes close.
 * @param skipped white space that came before the list's first chunk
 */
function elementSplitter(file: string, maxRowBytes: number, skipped: number): Splitter {
  const open = gathering(maxRowBytes);
  let position = skipped; // of the chunk's first byte
  let start = 0; // of the open element
  let depth = 0; // 1 inside the list
  let inString = false;
  let escaped = false;
  let isOver = false;
  let elements = 0;

  return {
    *push(chunk) {
      let from = 0;
      for (let i = 0; i < chunk.length; i++) {
        const byte = chunk[i] as number;
        if (inString) {
          if (escaped) escaped = false;
          else if (byte === BACKSLASH) escaped = true;
          else if (byte === QUOTE) inString = false;
          continue;
        }
        if (byte > CLOSE_LIST && byte !== OPEN_OBJECT && byte !== CLOSE_OBJECT && !isOver) continue;
        if (isOver) {
          if (!isSpace(byte))
            throw dataError(
              `${file}: text after the end of the list at byte ${position + i}`,
              'one JSON object a line, or one JSON list of objects',
            );
        } else if (byte === QUOTE) inString = true;
        else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
          if (depth++ === 0) {
            from = i + 1;
            start = position + from;
          }
        } else if (
          (byte === COMMA && depth === 1) ||
          ((byte === CLOSE_LIST || byte === CLOSE_OBJECT) && --depth === 0)
        ) {
          open.add(chunk.subarray(from, i));
          const row = trimmed(open.take(start));
          isOver = depth === 0;
          // `[]` has no element; an empty one elsewhere is an error that the parser names
          if (!isOver || elements > 0 || row.length > 0) yield row;
          elements++;
          from = i + 1;
          start = position + from;
        }
      }
      if (depth > 0) open.add(chunk.subarray(from));
      position += chunk.length;
    },
    end() {
      if (isOver) return null;
      throw new TruncatedError(`the JSON list has no end after ${elements} elements`);
    },
    rest: () => trimmed(open.take(start)),
  };
}

function isSpace(byte: number): boolean {
  return byte === 32 || byte === NEWLINE || byte === 9 || byte === 13;
}

// an element without the white space around it; one that is too long has only its beginning here
function trimmed(row: RowBytes): RowBytes {
  let from = 0;
  while (from < row.bytes.length && isSpace(row.bytes[from] as number)) from++;
  let to = row.bytes.length;
  if (row.length === to) while (to > from && isSpace(row.bytes[to - 1] as number)) to--;
  const cut = row.bytes.length - (to - from);
  return { bytes: row.bytes.subarray(from, to), length: row.length - cut, offset: row.offset + from };
}
