// Reads from a rejects file the place in the input of each line.
import { createReadStream } from 'node:fs';
import type { Rejection } from '../../errors.js';
import { readJsonRows } from '../read/jsonl.js';

/** A line of a rejects file. */
export interface StoredReject {
  /** input file as it was named then, and the row in it */
  readonly file: string;
  readonly row: number;
  /** the row was turned down before it was mapped: the line stands for all of its traces */
  readonly isWholeRow: boolean;
  readonly rejection: Rejection;
}

/** a raw line of the largest `--max-line-bytes`, escaped */
const MAX_REJECT_BYTES = 500_000_000;

/** Reasons of a reader that reading again with other limits does not give. */
const READER_CODES: readonly string[] = ['line_too_long', 'column_type'];

/** Reads a rejects file. @throws Error naming the line that is none of ours */
export async function* readRejects(path: string): AsyncGenerator<StoredReject> {
  const bytes = createReadStream(path, { highWaterMark: 2 ** 20 }) as AsyncIterable<Buffer>;
  for await (const line of readJsonRows(bytes, { file: path, stem: '', maxLineBytes: MAX_REJECT_BYTES })) {
    if (line.kind === 'bad') throw new Error(`row ${line.row}: ${line.rejection.reason}`);
    const { file, row, code, reason } = line.columns;
    if (typeof file !== 'string' || typeof row !== 'number')
      throw new Error(`row ${line.row}: names no file and row of the input`);
    const rejection = { code: String(code), reason: String(reason) };
    yield { file, row, isWholeRow: READER_CODES.includes(rejection.code), rejection };
  }
}
