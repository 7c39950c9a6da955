// What a reader hands on: a row of the input, or the report of one that could not be read.

import type { Rejection } from '../errors.js';
import type { Trace } from '../trace.js';
import type { ArrowPlace } from './columnar.js';

/** What every reader is told. */
export interface ReadOptions {
  readonly maxLineBytes?: number | undefined;
  /** told of the bytes read, chunk by chunk */
  readonly onBytes?: ((count: number) => void) | undefined;
  /** rows that it turns down are counted, but neither parsed nor handed on */
  readonly wanted?: ((row: number) => boolean) | undefined;
}

/** What a reader of one file is told. */
export interface RowOptions extends ReadOptions {
  /** the file's name for messages */
  readonly file: string;
  /** how ids begin */
  readonly stem: string;
}

/** A row as the input has it: parsed, not yet a trace. */
export interface InputRow {
  readonly kind: 'row';
  /** file name as the user gave it, `-` for stdin */
  readonly file: string;
  /** how ids that the row does not bring begin: the file's name without folder and extension, more where two are alike */
  readonly stem: string;
  /** 0-based row number inside the file, blank lines not counted */
  readonly row: number;
  /** offset of the row's first byte in the file once unpacked; null in a columnar file, where a row has none */
  readonly byteOffset: number | null;
  /** the row's text as it stood, without its line end; of a columnar file, the row as JSON */
  readonly raw: string;
  readonly columns: Readonly<Record<string, unknown>>;
  /** where the columns lie in a columnar input, for an output that keeps their types */
  readonly arrow?: ArrowPlace;
}

/** A row, or one trace of it, that is set aside: one line of the rejects file. */
export interface BadRow {
  readonly kind: 'bad';
  readonly file: string;
  readonly row: number;
  readonly byteOffset: number | null;
  /** the row's text; a short prefix where the line was too long to hold */
  readonly raw: string;
  readonly rejection: Rejection;
  /** the trace's id, where mapping came that far */
  readonly id?: string;
}

/** Turns a row down. */
export function rejectRow(row: InputRow, rejection: Rejection, id?: string): BadRow {
  const { file, row: number, byteOffset, raw } = row;
  return { kind: 'bad', file, row: number, byteOffset, raw, rejection, ...(id === undefined ? {} : { id }) };
}

/** Turns a trace down at a later stage (too long, no reference left, …). */
export function rejectTrace(trace: Trace, rejection: Rejection): BadRow {
  const { file, row, byteOffset, raw } = trace.source;
  return { kind: 'bad', file, row, byteOffset, raw, rejection, id: trace.id };
}
