// The order in which a run's rows go through a delta net: a prefix up to an exit, the branches there, the prefix on.
import type { Branch, PrefixPlace } from './placed.js';

/** What the graph's `walk` says of rows that follow one another: the first, the one behind the last, and which held states they go on from and leave. */
type Steps = readonly [first: number, end: number, from: number, to: number];

/** Held states: that of no token; and as they are at that time those of a prefix, of a suffix behind it, and of a branch, which nothing goes on from. */
const STATE = { none: 0, prefix: 1, suffix: 2, branch: 3 } as const;

/** A branch of a trace, and its first row. */
export interface PlacedBranch extends Pick<Branch, 'exit' | 'ids'> {
  readonly first: number;
}

/** Rows are those of all that a delta net has before it; own ones stand behind those of an earlier run. */
interface Rows {
  /** (B) those of each prefix's tokens */
  readonly prefixes: readonly ArrayLike<number>[];
  /** (N) those of each suffix's tokens */
  readonly suffixes: readonly ArrayLike<number>[];
  /** (traces) the branches of each trace */
  readonly branches: readonly (readonly PlacedBranch[])[];
  /** (traces) where each trace is */
  readonly places: readonly PrefixPlace[];
}

/** (n) A prefix up to an exit, the branches there, and on to the next; its suffixes in the same way behind its end. */
export function walkOf({ prefixes, suffixes, branches, places }: Rows): Steps[] {
  const walk: Steps[] = [];
  /** @param start position of the first token @param before the state there @param own the state of these rows */
  const along = (
    rows: ArrayLike<number>,
    branches: readonly PlacedBranch[],
    [start, before, own]: readonly [start: number, before: number, own: number],
  ): void => {
    let [done, state] = [0, before];
    const goOn = (to: number): void => {
      while (done < to) {
        const first = rows[done] as number;
        let end = first;
        for (; done < to && rows[done] === end; end++) done++;
        walk.push([first, end, state, own]);
        state = own;
      }
    };
    for (const { exit, ids, first } of branches.toSorted((one, other) => one.exit - other.exit)) {
      goOn(exit - start);
      walk.push([first, first + ids.length, state, STATE.branch]);
    }
    goOn(rows.length);
  };
  for (const [b, rows] of prefixes.entries()) {
    const here = places.flatMap(({ prefix, suffix }, i) => {
      const own = branches[i] as readonly PlacedBranch[];
      return prefix === b ? [{ own, suffix, end: suffix?.from ?? rows.length }] : [];
    });
    const before = here.flatMap(({ own, end }) => own.filter(({ exit }) => exit <= end));
    along(rows, before, [0, STATE.none, STATE.prefix]);
    for (const { own, suffix, end } of here)
      if (suffix)
        along(
          suffixes[suffix.number] as ArrayLike<number>,
          own.filter(({ exit }) => exit > end),
          [end, STATE.prefix, STATE.suffix],
        );
  }
  return walk;
}

/** (rows) where the output of each own row is among those of a walk, which follow a first that belongs to none. @param before rows of an earlier run */
export function placesIn(walk: readonly Steps[], before: number, rows: number): BigInt64Array {
  const places = new BigInt64Array(rows);
  let at = 1n;
  for (const [first, end] of walk)
    for (let row = first; row < end; row++, at++) if (row >= before) places[row - before] = at;
  return places;
}
