// Packs traces and their branches into the rows that the scoring graph runs over: pure index arithmetic.

/** A continuation of a trace from one exit point, of which a span is scored. */
export interface Branch {
  /** tokens of the trace in sight: the branch stands at position `exit` */
  readonly exit: number;
  /** the continuation's token ids (A) */
  readonly ids: Int32Array;
  /** tokens scoredFrom..A-1 are scored, each given everything before it; at least 1: the token before must be in `ids` */
  readonly scoredFrom: number;
  /** tokens of the trace that are hidden from the branch: their places stay free, so many positions before `ids[before]` */
  readonly gap?: { readonly before: number; readonly tokens: number };
}

/** One more than the last position of a branch's tokens. */
export function branchEnd({ exit, ids, gap }: Branch): number {
  return exit + ids.length + (gap?.tokens ?? 0);
}

/** A trace in a run: its own tokens, of which promptLength.. are scored, and its branches. */
export interface PackedTrace {
  readonly ids: Int32Array;
  readonly promptLength: number;
  readonly branches: readonly Branch[];
}

/** The branch rows of a run: G groups of R rows. */
export interface PackedBranches {
  readonly groups: number;
  readonly rowsPerGroup: number;
  /** (G·R) token, position, tokens of the trace in sight, branch number */
  readonly ids: BigInt64Array;
  readonly pos: BigInt64Array;
  readonly exit: BigInt64Array;
  readonly number: BigInt64Array;
  /** (G,2) where the group's keys begin and end among the traces' [B,T]: its trace, up to its last branch's exit */
  readonly from: BigInt64Array;
  readonly to: BigInt64Array;
  /** rows of the flattened [G·R] to read out and the token that follows each, in the order of the branches given */
  readonly rows: Int32Array;
  readonly targets: Int32Array;
}

/** Rows of a group: few enough that no row attends to many keys beyond its exit, enough to keep a MatMul busy. */
const ROWS_PER_GROUP = 64;

/** R: the longest branch fits, and no more than {@link ROWS_PER_GROUP} otherwise. @param busiest most rows of a trace */
export function rowsPerGroup(longest: number, busiest: number): number {
  return Math.max(1, longest, Math.min(ROWS_PER_GROUP, busiest));
}

/**
 * The branches of each trace, sorted by exit, fill one group after the other. A group belongs to one trace, and a branch
 * never straddles two groups, since its rows attend to each other inside their group only. Without any branch there is
 * one idle group of one row.
 * @param traces (B) branches of each trace
 */
export function packBranches(traces: readonly (readonly Branch[])[]): PackedBranches {
  const all = traces.flat();
  const longest = all.reduce((most, b) => Math.max(most, b.ids.length), 1);
  const busiest = traces.reduce((most, branches) => Math.max(most, branchRowsOf(branches)), 1);
  const R = rowsPerGroup(longest, busiest);

  const start: number[] = []; // first row of each branch in the flattened [G·R], in the order given
  const trace: number[] = [];
  const keys: number[] = [];
  for (const [b, branches] of traces.entries()) {
    const first = start.length;
    let free = 0; // rows left in the last group
    const order = branches
      .map((_, i) => i)
      .sort((i, j) => exitOf(branches, i) - exitOf(branches, j) || i - j);
    for (const i of order) {
      const { ids, exit } = branches[i] as Branch;
      if (ids.length > free) {
        trace.push(b);
        keys.push(0);
        free = R;
      }
      start[first + i] = keys.length * R - free;
      free -= ids.length;
      keys[keys.length - 1] = exit; // exits rise along the order
    }
  }
  if (keys.length === 0) {
    trace.push(0);
    keys.push(0);
  }

  const G = keys.length;
  // rows that stay padding: token 0 at position 0, in sight of nothing but their own kind (branch -1)
  const ids = new BigInt64Array(G * R);
  const pos = new BigInt64Array(G * R);
  const exits = new BigInt64Array(G * R);
  const number = new BigInt64Array(G * R).fill(-1n);
  const scored = all.reduce((sum, b) => sum + b.ids.length - b.scoredFrom, 0);
  const rows = new Int32Array(scored);
  const targets = new Int32Array(scored);
  let next = 0;
  for (const [i, branch] of all.entries()) {
    const { exit, scoredFrom, gap } = branch;
    if (scoredFrom < 1 || scoredFrom >= branch.ids.length)
      throw new RangeError(
        `branch ${i} scores tokens ${scoredFrom}..${branch.ids.length}: expected at least one, after the first`,
      );
    const first = start[i] as number;
    for (let j = 0; j < branch.ids.length; j++) {
      ids[first + j] = BigInt(branch.ids[j] as number);
      pos[first + j] = BigInt(exit + j + (gap !== undefined && j >= gap.before ? gap.tokens : 0));
      exits[first + j] = BigInt(exit);
      number[first + j] = BigInt(i);
      if (j < scoredFrom) continue;
      rows[next] = first + j - 1;
      targets[next++] = branch.ids[j] as number;
    }
  }
  return {
    groups: G,
    rowsPerGroup: R,
    ids,
    pos,
    exit: exits,
    number,
    from: BigInt64Array.from(
      trace.flatMap((b) => [b, 0]),
      BigInt,
    ),
    to: BigInt64Array.from(
      trace.flatMap((b, group) => [b + 1, keys[group] as number]),
      BigInt,
    ),
    rows,
    targets,
  };
}

/** Row numbers as the head's [n,C] input: padded to whole blocks with 0. */
export function blockRows(values: Int32Array, block: number): BigInt64Array {
  const padded = new BigInt64Array(Math.max(1, Math.ceil(values.length / block)) * block);
  for (let i = 0; i < values.length; i++) padded[i] = BigInt(values[i] as number);
  return padded;
}

function branchRowsOf(branches: readonly Branch[]): number {
  return branches.reduce((sum, b) => sum + b.ids.length, 0);
}

function exitOf(branches: readonly Branch[], i: number): number {
  return (branches[i] as Branch).exit;
}
