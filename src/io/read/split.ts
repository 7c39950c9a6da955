// Cuts a JSON text file into the bytes of its rows: lines of JSONL, or elements of one JSON list.

import { dataError } from '../../errors.js';
import { TruncatedError } from '../files/decompress.js';

/** A row's bytes, or the first of them where it is too long to hold. */
export interface RowBytes {
  readonly bytes: Buffer;
  /** of the whole row */
  readonly length: number;
  readonly offset: number;
}

export interface SplitOptions {
  readonly file: string;
  readonly maxRowBytes: number;
  /** bytes that came before the first chunk; of a list white space */
  readonly skipped?: number;
}

/** Cuts a stream of bytes into rows. */
export interface Splitter {
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
/** UTF-8's byte order mark. */
export const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/** Gathers the bytes of one row over several chunks; of one that is too long it keeps a prefix. */
class Gathered {
  length = 0;
  #parts: Buffer[] = [];
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  add(part: Buffer): void {
    const wasShort = this.length <= this.#maxBytes;
    this.length += part.length;
    if (this.length <= this.#maxBytes) this.#parts.push(part);
    else if (wasShort) {
      const prefix = Buffer.concat([...this.#parts, part]).subarray(
        0,
        Math.min(RAW_PREFIX_BYTES, this.#maxBytes),
      );
      this.#parts = [Buffer.from(prefix)];
    }
  }

  take(offset: number): RowBytes {
    const bytes = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts);
    const row = { bytes, length: this.length, offset };
    this.#parts = [];
    this.length = 0;
    return row;
  }
}

/** Splits at newlines; a byte order mark is no part of the first line. */
export function lineSplitter({ maxRowBytes, skipped = 0 }: SplitOptions): Splitter {
  const open = new Gathered(maxRowBytes);
  let offset = skipped;

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
export const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/**
 * Splits one JSON list at the commas between its elements, however large the list is. What an element holds is left
 * to the parser, so a broken one costs no other as long as its brackets and quotes close.
 */
export function elementSplitter({ file, maxRowBytes, skipped = 0 }: SplitOptions): Splitter {
  const open = new Gathered(maxRowBytes);
  let position = skipped; // of the chunk's first byte
  let start = 0; // of the open element
  let depth = 0; // 1 inside the list
  let inString = false;
  let escaped = false;
  let isOver = false;
  let elements = 0;

  function fail(what: string, at: number): never {
    throw dataError(`${file}: ${what} at byte ${at}`, 'one JSON object a line, or one JSON list of objects');
  }
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
          if (!isSpace(byte)) fail('text after the end of the list', position + i);
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
