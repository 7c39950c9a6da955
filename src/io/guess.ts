// Column types from a file's first rows, watched over all others: files need not be read twice where the guess holds.
import type { BadRow, InputRow } from './rows.js';
import { inferColumns, type PassThroughColumn, type Seen } from './schema.js';

/** A later row has changed what the first rows told of the columns: the file has to be read to its end first. */
export class TypesChangedError extends Error {}

/** Types that hold so far. */
export interface Guess {
  readonly columns: readonly PassThroughColumn[];
  /** what the first rows had, for watching in another thread */
  readonly seen: Seen;
  /** Asked of every row that is to be written. @throws TypesChangedError where the columns would be others with it */
  watch(row: InputRow): void;
}

const GUESS_ROWS = 1024;
const GUESS_BYTES = 8 * 2 ** 20;

/**
 * Infers the columns from the first rows (1,024, or 8 MiB of them). The types are those of a survey over all rows if
 * {@link Guess.watch} lets all pass, also where some of them were watched by another process with the same guess.
 * @param rows the inputs from their start; closed when enough have been read
 * @param tracesOf how many traces the row holds: one that holds none is set aside, and has no say
 * @param limit no more rows are looked at than make so many traces, as in a survey
 */
export async function guessColumns(
  rows: AsyncGenerator<InputRow | BadRow>,
  tracesOf: (row: InputRow) => number,
  limit = Number.POSITIVE_INFINITY,
): Promise<Guess> {
  const inference = inferColumns();
  let [seen, bytes, traces] = [0, 0, 0];
  for await (const row of rows) {
    const found = row.kind === 'row' ? tracesOf(row) : 0;
    if (row.kind === 'row' && found > 0) inference.add(row.columns);
    traces += found;
    bytes += row.raw.length;
    if (++seen >= GUESS_ROWS || bytes >= GUESS_BYTES || traces >= limit) break;
  }
  const columns = inference.finish();
  return { columns, seen: structuredClone(inference.seen), watch: watchColumns(inference.seen) };
}

/**
 * Watches rows of which some others were seen before. It goes on from `seen`, and changes it.
 * @returns as {@link Guess.watch}
 */
export function watchColumns(seen: Seen): Guess['watch'] {
  const inference = inferColumns(seen);
  const text = JSON.stringify(inference.finish());
  let changes = 0;
  return (row) => {
    inference.add(row.columns);
    if (inference.changes() === changes) return;
    // a double in a column of doubles that were whole so far changes nothing, say
    changes = inference.changes();
    if (JSON.stringify(inference.finish()) === text) return;
    throw new TypesChangedError(`${row.file}:${row.row} changes the column types of the first rows`);
  };
}
