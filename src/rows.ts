// What a reader hands on: a row of the input, or the report of one that could not be read.

import { type Rejection, TraceRejected } from './errors.js';
import type { RowPlace, Trace, TraceSource } from './trace.js';

/** What every reader is told. */
export interface ReadOptions {
  readonly maxLineBytes?: number | undefined;
  /** told how much further an input of known size has been read, in its own bytes: row by row, what is packed in small pieces */
  readonly onBytes?: ((count: number) => void) | undefined;
  /** told of what is not read as it stands there: what is behind the end of packed data, a key of a folder */
  readonly onLoss?: ((code: 'input_tail' | 'hive_key', message: string) => void) | undefined;
  /** Asked for every row by its number over all inputs, of columnar ones more than once: others are counted, not parsed. */
  readonly wanted?: ((ordinal: number) => boolean) | undefined;
  /** which of a file's columns are looked at; those of Parquet alone are left where they are (default: all) */
  readonly columns?: ((name: string) => boolean) | undefined;
}

/** What a reader of one file is told. */
export interface RowOptions extends ReadOptions {
  /** the file's name for messages */
  readonly file: string;
  /** how ids begin */
  readonly stem: string;
  /** what rows have beside the columns that are their own */
  readonly beside?: ((columns: readonly string[]) => readonly [name: string, value: unknown][]) | undefined;
  /** number over all inputs of the file's first row */
  readonly firstOrdinal?: number | undefined;
}

/** A row as the input has it: parsed, not yet a trace. */
export interface InputRow extends TraceSource {
  readonly kind: 'row';
  /** how ids that the row does not bring begin: the file's name without folder and extension, more where two are alike */
  readonly stem: string;
}

/** A row, or one trace of it, that is rejected: one line of the rejects file. */
export interface BadRow extends RowPlace {
  readonly kind: 'bad';
  readonly rejection: Rejection;
  /** the trace's id; the row's, where mapping did not come so far */
  readonly id?: string;
}

/** Rejects a row, or a trace of it. */
export function rejectRow(from: RowPlace, { code, reason }: Rejection, id?: string): BadRow {
  const { file, row, ordinal, byteOffset, raw } = from;
  const named = id === undefined ? {} : { id };
  return { kind: 'bad', file, row, ordinal, byteOffset, raw, rejection: { code, reason }, ...named };
}

/** Rejects a trace at a later stage (too long, no reference left, …). */
export function rejectTrace({ source, id }: Trace, rejection: Rejection): BadRow {
  return rejectRow(source, rejection, id);
}

/** Tells rejects from what goes on. */
export function isBad(item: object): item is BadRow {
  return 'kind' in item && item.kind === 'bad';
}

/** One stage of a command: `fn` on every item, in order. What is rejected, before or by it (TraceRejected), goes on in its place. */
export async function* eachTrace<A extends { readonly trace: Trace }, B>(
  items: AsyncIterable<A | BadRow> | Iterable<A | BadRow>,
  fn: (item: A) => B | Promise<B>,
): AsyncGenerator<B | BadRow> {
  for await (const item of items) {
    let result: B | BadRow;
    try {
      result = isBad(item) ? item : await fn(item);
    } catch (error) {
      if (isBad(item) || !(error instanceof TraceRejected)) throw error;
      result = rejectTrace(item.trace, error);
    }
    yield result;
  }
}
