// Checks a file's rows: by themselves, beside each other, and by what is computed from them again.
import { type CheckedRow, checkRow, type RowRules } from './check-row.js';
import type { Finding } from './finding.js';
import type { SeenRows } from './seen.js';
import { type StoredRow, withOurs } from './stored-rows.js';

/** How rows are checked. */
export interface RowChecks extends RowRules {
  /** of our columns those that were written; undefined: any that is there; null: none, rows are counted */
  readonly chosen: readonly string[] | undefined | null;
  /** the rows before, of the same run or file */
  readonly seen: SeenRows;
  /** Computes again what follows from the row's own columns. @param whole with the input's columns */
  readonly recompute: (row: StoredRow, whole: StoredRow) => readonly string[];
}

/** A row that was looked at. */
export type RowSeen = Pick<CheckedRow, 'sourceRow' | 'tokens'> & {
  readonly row: number;
  /** with our columns alone; null where it has none */
  readonly stored: StoredRow | null;
};

/** What a file's rows say by themselves, and each row's own account after that. */
export async function* rowFindings(
  file: string,
  rows: AsyncIterable<StoredRow>,
  checks: RowChecks,
): AsyncGenerator<Finding | RowSeen> {
  for await (const row of rows) {
    if (checks.chosen === null) {
      yield { row: row.number, sourceRow: null, tokens: null, stored: null };
      continue;
    }
    const stored = withOurs(row, checks.chosen);
    const { faults, tokens, sourceRow, id } = checkRow(stored, checks);
    // what follows from something broken is broken too
    const more = faults.length === 0 ? checks.recompute(stored, row) : [];
    for (const text of [...faults, ...more, ...checks.seen.faults(stored)])
      yield { file, row: row.number, text: id === '' ? text : `(id ${JSON.stringify(id)}) ${text}` };
    yield { row: row.number, sourceRow, tokens, stored };
  }
}
