// The order in which a run's rows go through a delta net: a prefix up to an exit, the branches there, the prefix on.
import type { Branch, PrefixPlace } from './placed.js';

/** Rows that follow one another: the first, the one behind the last, and which held states they go on from and leave. */
type Turn = readonly [first: number, end: number, from: number, to: number];

/** Held states: that of no token, and as they are at a time those of a prefix, of a suffix behind it, and of a branch, from which nothing goes on. */
const STATE = { none: 0, prefix: 1, suffix: 2, branch: 3 } as const;

export type PlacedBranch = Pick<Branch, 'exit' | 'ids'> & { readonly first: number };

/**
 * @param prefixes (B) rows of each prefix's tokens
 * @param suffixes (N) rows of each suffix's tokens
 * @param branches (traces) the branches of each trace, with their first rows
 * @param places (traces) where each trace is
 */
export function walkOf(
  prefixes: readonly Int32Array[],
  suffixes: readonly Int32Array[],
  branches: readonly (readonly PlacedBranch[])[],
  places: readonly PrefixPlace[],
): Turn[] {
  const walk: Turn[] = [];
  /** @param start position of the first row @param from the state there @param own the state behind the rows */
  const along = (rows: Int32Array, start: number, from: number, own: number, at: readonly PlacedBranch[]) => {
    let [done, state] = [0, from];
    const goOn = (to: number): void => {
      while (done < to) {
        const first = rows[done] as number;
        let end = first;
        for (; done < to && rows[done] === end; end++) done++;
        walk.push([first, end, state, own]);
        state = own;
      }
    };
    for (const { exit, ids, first } of at.toSorted((one, other) => one.exit - other.exit)) {
      goOn(exit - start);
      walk.push([first, first + ids.length, state, STATE.branch]);
    }
    goOn(rows.length);
  };
  for (const [b, rows] of prefixes.entries()) {
    const here = places.flatMap(({ prefix, suffix }, i) => {
      return prefix === b ? [{ suffix, own: branches[i] as readonly PlacedBranch[] }] : [];
    });
    const before = here.flatMap(({ own }) => own.filter(({ exit }) => exit <= rows.length));
    along(rows, 0, STATE.none, STATE.prefix, before);
    for (const { own, suffix } of here) {
      const behind = own.filter(({ exit }) => exit > rows.length);
      if (suffix)
        along(suffixes[suffix.number] as Int32Array, rows.length, STATE.prefix, STATE.suffix, behind);
    }
  }
  return walk;
}

/** (rows) where the output of each own row is in a walk's, 1 the first; 0 for one without. @param before rows of an earlier run */
export function placesIn(walk: readonly Turn[], before: number, rows: number): BigInt64Array {
  const places = new BigInt64Array(rows);
  let at = 1n;
  for (const [first, end] of walk)
    for (let row = first; row < end; row++, at++) if (row >= before) places[row - before] = at;
  return places;
}
