// A row and the file's reader in, the other completions of its prompt that stand near it out.
import type { ReadRows } from '../../io/read/peek.js';
import type { Mate } from '../../report/shown/shown-trace.js';
import { type InputRow, isBad } from '../../rows.js';

/** Rows before and behind that are looked at: groups stand together, and a file may be long. */
export const NEAR = 512;

/** Rows of the same group within {@link NEAR} rows, in their order; with the row itself where `withItself` asks for it. */
export async function matesOf(
  row: InputRow,
  read: ReadRows,
  withItself = false,
): Promise<(Mate & { ordinal: number })[]> {
  const { group } = row.columns;
  if (typeof group !== 'string') return [];
  const found: (Mate & { ordinal: number })[] = [];
  const last = row.ordinal + NEAR;
  for await (const other of read({ wanted: (ordinal) => Math.abs(ordinal - row.ordinal) <= NEAR })) {
    if (!isBad(other) && other.columns.group === group && (withItself || other.ordinal !== row.ordinal)) {
      const { id, reward } = other.columns;
      found.push({
        id: typeof id === 'string' ? id : `${other.stem}:${other.row}`,
        row: other.row,
        reward: typeof reward === 'number' ? reward : null,
        ordinal: other.ordinal,
      });
    }
    if (other.ordinal >= last) break;
  }
  return found;
}
