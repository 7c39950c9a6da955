// Reads the row that a line of a rejects file holds in `raw`, so that what was set aside is an input again.

import { type BadRow, type InputRow, rejectRow } from '../../rows.js';
import { parseJson } from '../arrow/json.js';

/** The keys of a line of a rejects file: those that every line has. A row of an input has others, or more. */
const KEYS: readonly (readonly [key: string, isRight: (value: unknown) => boolean])[] = [
  ['file', isText],
  ['row', isCount],
  ['byte_offset', (value) => value === null || isCount(value)],
  ['id', isText],
  ['code', isText],
  ['reason', isText],
  ['raw', isText],
];

/**
 * Reads the row inside a line of a rejects file, any other row is handed back. It keeps file, row, id and byte offset of
 * its first reading, so that its traces get the ids that they would have had and the outputs can be put together.
 * @param fileStem how ids of a file's rows begin, where the id does not tell
 */
export function rejectedRow(row: InputRow, fileStem: (path: string) => string): InputRow | BadRow {
  const { columns } = row;
  const isReject =
    Object.keys(columns).length === KEYS.length &&
    KEYS.every(([key, isRight]) => Object.hasOwn(columns, key) && isRight(columns[key]));
  if (!isReject) return row;
  const { file, row: number, byte_offset: byteOffset, id, raw } = columns as unknown as RejectLine;
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

interface RejectLine {
  readonly file: string;
  readonly row: number;
  readonly byte_offset: number;
  readonly id: string;
  readonly raw: string;
}

/** What comes before the row's number in an id that was made of it; undefined for an id of the user's. */
function stemOfId(id: string, row: number): string | undefined {
  return new RegExp(`^(.*):${row}(?:/\\d+)?$`, 's').exec(id)?.[1];
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
