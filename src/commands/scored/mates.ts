// Finds the other completions of a prompt that stand near a row in its file.
import type { ReadRows } from '../../io/read/peek.js';
import type { Mate } from '../../report/shown-trace.js';
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
      found.push(mateOf(other));
    }
    if (other.ordinal >= last) break;
  }
  return found;
}

function mateOf({ columns: { id, reward }, stem, row, ordinal }: InputRow): Mate & { ordinal: number } {
  return {
    id: typeof id === 'string' ? id : `${stem}:${row}`,
    row,
    reward: typeof reward === 'number' ? reward : null,
    ordinal,
  };
}

/** The mates of several rows, gathered in one reading: of each what a line about it shows. */
export class Neighbours {
  private readonly groups = new Map<string, (Mate & { ordinal: number })[]>();
  private readonly groupOf = new Map<number, string>();
  private readonly asked: ReadonlySet<number>;
  private readonly sorted: Float64Array;

  /** @param ordinals of the rows whose mates are asked for */
  constructor(ordinals: readonly number[]) {
    this.asked = new Set(ordinals);
    this.sorted = Float64Array.from(ordinals).sort();
  }

  /** Whether a row is one of them, or within {@link NEAR} rows of one. */
  readonly isNear = (ordinal: number): boolean => {
    let [low, high] = [0, this.sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.sorted[middle] as number) < ordinal - NEAR) low = middle + 1;
      else high = middle;
    }
    return low < this.sorted.length && (this.sorted[low] as number) <= ordinal + NEAR;
  };

  add(row: InputRow): void {
    const { group } = row.columns;
    if (typeof group !== 'string') return;
    if (this.asked.has(row.ordinal)) this.groupOf.set(row.ordinal, group);
    const known = this.groups.get(group);
    if (known === undefined) this.groups.set(group, [mateOf(row)]);
    else known.push(mateOf(row));
  }

  matesOf(ordinal: number): Mate[] {
    const all = this.groups.get(this.groupOf.get(ordinal) ?? '') ?? [];
    return all.filter((mate) => mate.ordinal !== ordinal && Math.abs(mate.ordinal - ordinal) <= NEAR);
  }
}
