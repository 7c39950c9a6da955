// Files read once: columns' types from the first rows, checked against all others as they come.

import type { BadRow, InputRow } from './rows.js';
import { type ColumnInference, inferColumns, type PassThroughColumn } from './schema.js';
import { WINDOW_BYTES, WINDOW_ROWS } from './survey.js';

/** A row showed that the types guessed from the first rows are not those of the whole: read all rows first. */
export class TypesChangedError extends Error {}

/** Columns guessed from the first rows. */
export interface Guess {
  readonly columns: PassThroughColumn[];
  /** all rows from the first on */
  readonly rows: AsyncGenerator<InputRow | BadRow>;
  /** Tells of a row that holds a trace, in order. @throws TypesChangedError where it changes a type */
  check(row: InputRow): void;
}

/**
 * Reads the first rows for their types. If no later row changes them they are what a survey of all rows would have
 * found: the order in which rows come does not change a type.
 */
export async function guessColumns(
  rows: AsyncGenerator<InputRow | BadRow>,
  hasTrace: (row: InputRow) => boolean,
): Promise<Guess> {
  const inference: ColumnInference = inferColumns();
  const window: (InputRow | BadRow)[] = [];
  let bytes = 0;
  while (window.length < WINDOW_ROWS && bytes < WINDOW_BYTES) {
    const next = await rows.next();
    if (next.done) break;
    window.push(next.value);
    bytes += next.value.raw.length;
    if (next.value.kind === 'row' && hasTrace(next.value)) inference.add(next.value.columns);
  }
  const columns = inference.finish();
  const expected = JSON.stringify(columns);
  let changes = inference.changes();

  async function* all(): AsyncGenerator<InputRow | BadRow> {
    try {
      yield* window.splice(0);
      yield* rows;
    } finally {
      await rows.return(undefined);
    }
  }
  return {
    columns,
    rows: all(),
    check(row) {
      inference.add(row.columns);
      if (inference.changes() === changes) return;
      changes = inference.changes();
      if (JSON.stringify(inference.finish()) !== expected) throw new TypesChangedError();
    },
  };
}
