// The rows of a file by number of their place: the next, the one before, the one that was named.
import type { ReadRows } from '../../io/read/peek.js';
import { type InputRow, isBad } from '../../rows.js';

/** Rows that are read at a time on the way back. */
const BACK = 64;

export type Fits = (row: InputRow) => boolean;

export async function rowAt(ordinal: number, read: ReadRows): Promise<InputRow | undefined> {
  for await (const row of read({ wanted: (n) => n === ordinal })) if (!isBad(row)) return row;
  return undefined;
}

/** The next row that fits; undefined behind the last. */
export async function rowAfter(ordinal: number, read: ReadRows, fits: Fits): Promise<InputRow | undefined> {
  for await (const row of read({ wanted: (n) => n > ordinal })) if (!isBad(row) && fits(row)) return row;
  return undefined;
}

/** The one before that fits; undefined before the first. */
export async function rowBefore(ordinal: number, read: ReadRows, fits: Fits): Promise<InputRow | undefined> {
  for (let to = ordinal; to > 0; to -= BACK) {
    let found: InputRow | undefined;
    for await (const row of read({ wanted: (n) => n < to && n >= to - BACK })) {
      if (!isBad(row) && fits(row)) found = row;
      if (row.ordinal >= to - 1) break;
    }
    if (found !== undefined) return found;
  }
  return undefined;
}
