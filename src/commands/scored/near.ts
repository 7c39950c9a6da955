// Finds rows by their place in a file: one by its number, its neighbours, and the other completions of its prompt that stand near.
import type { ReadRows } from '../../io/read/peek.js';
import type { Mate } from '../../report/trace-view.js';
import { type InputRow, isBad } from '../../rows.js';

/** Rows before and behind that are looked at: groups stand together, and a file may be long. */
export const NEAR = 512;

type NearMate = Mate & { readonly ordinal: number };

/** Rows of the same group within {@link NEAR} rows, in their order; with the row itself where `withItself` asks for it. */
export async function matesOf(row: InputRow, read: ReadRows, withItself = false): Promise<NearMate[]> {
  const near = new Neighbours([row.ordinal]);
  if (typeof row.columns.group !== 'string') return [];
  for await (const other of read({ wanted: near.isNear })) {
    if (!isBad(other)) near.add(other);
    if (other.ordinal >= row.ordinal + NEAR) break;
  }
  return near.matesOf(row.ordinal, withItself);
}

function mateOf({ columns: { id, reward }, stem, row, ordinal }: InputRow): NearMate {
  return {
    id: typeof id === 'string' ? id : `${stem}:${row}`,
    row,
    reward: typeof reward === 'number' ? reward : null,
    ordinal,
  };
}

/** The mates of several rows, gathered in one reading: of each what a line about it shows. */
export class Neighbours {
  private readonly groups = new Map<string, NearMate[]>();
  private readonly groupOf = new Map<number, string>();

  /** @param asked ordinals of the rows whose mates are asked for */
  constructor(private readonly asked: readonly number[]) {}

  /** Whether a row is one of them, or within {@link NEAR} rows of one. */
  readonly isNear = (ordinal: number): boolean => this.asked.some((each) => Math.abs(each - ordinal) <= NEAR);

  add(row: InputRow): void {
    const { group } = row.columns;
    if (typeof group !== 'string') return;
    if (this.asked.includes(row.ordinal)) this.groupOf.set(row.ordinal, group);
    const known = this.groups.get(group);
    if (known === undefined) this.groups.set(group, [mateOf(row)]);
    else known.push(mateOf(row));
  }

  matesOf(ordinal: number, withItself = false): NearMate[] {
    const all = this.groups.get(this.groupOf.get(ordinal) ?? '') ?? [];
    return all.filter(
      (mate) => (withItself || mate.ordinal !== ordinal) && Math.abs(mate.ordinal - ordinal) <= NEAR,
    );
  }
}

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
