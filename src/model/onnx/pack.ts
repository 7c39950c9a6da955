// Packs branches into the rows that the scoring graph runs over: pure index arithmetic.
import type { Device } from './device.js';
import { type BranchGroup, type BranchRow, layOut } from './layout.js';
import { type Branch, type PrefixPlace, scoresOf } from './placed.js';

/** The branch rows of a run: G groups of R rows for each of W traces lanes. */
export interface PackedBranches {
  readonly groups: number;
  readonly lanes: number;
  readonly rowsPerGroup: number;
  /** (G·W·R) token, position, tokens of the trace in sight, branch number */
  readonly ids: BigInt64Array;
  readonly pos: BigInt64Array;
  readonly exit: BigInt64Array;
  readonly number: BigInt64Array;
  /** (G,2) where the group's keys begin and end among the prefixes' [B,T]: its W traces', up to the farthest exit */
  readonly from: BigInt64Array;
  readonly to: BigInt64Array;
  /** (G,2) the same among the suffixes' [N,L], of what is behind the prefix */
  readonly suffixFrom: BigInt64Array;
  readonly suffixTo: BigInt64Array;
  /** (N) the row of each suffix's tokens in the flattened [G·W·R] */
  readonly suffixRows: readonly Int32Array[];
  /** rows of the flattened [G·W·R] to read out and the token that follows each, in the order of the branches given */
  readonly rows: Int32Array;
  readonly targets: Int32Array;
}

/**
 * The branches of each trace, sorted by exit, fill one group after the other. Of a group's rows R belong to each of W traces, which
 * follow one another, and a branch never straddles two groups, since its rows attend to each other inside their group only. Before
 * them stands the trace's suffix, cut into branches as long as a group, each of which sees those before it as keys; suffixes are read one
 * at a time (W = 1). Without any branch there is one idle group of one row.
 * @param traces (B) branches of each trace
 * @param places (B) where each trace's keys are; default: each on a prefix of its own
 * @param suffixes (N) ids of the suffixes that are read in this run
 */
export function packBranches(
  traces: readonly (readonly Branch[])[],
  places: readonly PrefixPlace[] = traces.map((_, prefix) => ({ prefix })),
  suffixes: readonly Int32Array[] = [],
  device: Device['name'] = 'cpu',
): PackedBranches {
  // copies: the same branch may be given twice
  const own = traces.map((branches) => branches.map((branch) => ({ ...branch })));
  const all = own.flat();
  const ownSuffixes = places.map(({ suffix }) => (suffix && suffixes[suffix.number]) ?? new Int32Array(0));
  const { groups, pieces, lanes: W, rowsPerGroup: R } = layOut(own, places, ownSuffixes, device);

  const G = groups.length;
  const start = new Map<BranchRow, number>(); // first row of each branch and piece in the flattened [G·W·R]
  for (const [g, { parts }] of groups.entries())
    for (const [w, part] of parts.entries()) {
      let row = (g * W + w) * R;
      for (const branch of part) {
        start.set(branch, row);
        row += branch.ids.length;
      }
    }

  // rows that stay padding: token 0 at position 0, in sight of nothing but their own kind (branch -1)
  const ids = new BigInt64Array(G * W * R);
  const pos = new BigInt64Array(G * W * R);
  const exits = new BigInt64Array(G * W * R);
  const number = new BigInt64Array(G * W * R).fill(-1n);
  for (const [i, row] of [...all, ...pieces.flat()].entries()) {
    const { exit, gap } = row;
    const first = start.get(row) as number;
    for (let j = 0; j < row.ids.length; j++) {
      ids[first + j] = BigInt(row.ids[j] as number);
      pos[first + j] = BigInt(exit + j + (gap !== undefined && j >= gap.before ? gap.tokens : 0));
      exits[first + j] = BigInt(exit);
      number[first + j] = BigInt(i);
    }
  }

  const suffixRows: Int32Array[] = [];
  for (const [b, { suffix }] of places.entries())
    if (suffix !== undefined)
      suffixRows[suffix.number] = Int32Array.from(
        (pieces[b] as BranchRow[]).flatMap((piece) =>
          Array.from(piece.ids, (_, j) => (start.get(piece) as number) + j),
        ),
      );
  const table = (entry: (group: BranchGroup) => readonly [number, number]) =>
    BigInt64Array.from(groups.flatMap(entry), BigInt);
  const onPrefix = ({ place: { suffix }, keys }: BranchGroup) => Math.min(keys, suffix?.from ?? keys);
  return {
    groups: G,
    lanes: W,
    rowsPerGroup: R,
    ids,
    pos,
    exit: exits,
    number,
    from: table(({ place }) => [place.prefix, 0]),
    to: table((group) => [group.place.prefix + W, onPrefix(group)]),
    suffixFrom: table(({ place }) => [place.suffix?.number ?? 0, 0]),
    suffixTo: table((group) => [(group.place.suffix?.number ?? 0) + W, group.keys - onPrefix(group)]),
    suffixRows,
    ...readOut(all, start),
  };
}

/** Which rows are read out for some branches, and for which tokens. @param start first row of each */
function readOut(
  branches: readonly Branch[],
  start: ReadonlyMap<BranchRow, number>,
): Pick<PackedBranches, 'rows' | 'targets'> {
  const scored = branches.reduce((sum, branch) => sum + scoresOf(branch), 0);
  const rows = new Int32Array(scored);
  const targets = new Int32Array(scored);
  let next = 0;
  for (const [i, branch] of branches.entries()) {
    const { scoredFrom } = branch;
    if (scoredFrom < 1 || scoredFrom >= branch.ids.length)
      throw new RangeError(
        `branch ${i} scores tokens ${scoredFrom}..${branch.ids.length}: expected at least one, after the first`,
      );
    for (let j = scoredFrom; j < branch.ids.length; j++) {
      rows[next] = (start.get(branch) as number) + j - 1;
      targets[next++] = branch.ids[j] as number;
    }
    if (branch.also === undefined) continue;
    rows[next] = rows[next - 1] as number;
    targets[next++] = branch.also;
  }
  return { rows, targets };
}

/** The graph's table of the suffixes' rows: (N, L), short suffixes padded with row 0, which nothing sees. */
export function suffixTable(
  suffixes: readonly Int32Array[],
  count: number,
): [BigInt64Array, [number, number]] {
  const longest = suffixes.reduce((most, { length }) => Math.max(most, length), 0);
  const table = new BigInt64Array(count * longest);
  for (const [n, rows] of suffixes.entries())
    for (const [t, row] of rows.entries()) table[n * longest + t] = BigInt(row);
  return [table, [count, longest]];
}

/** Row numbers as the head's [n,C] input: padded to whole blocks with 0. */
export function blockRows(values: ArrayLike<number>, block: number): BigInt64Array {
  const padded = new BigInt64Array(Math.max(1, Math.ceil(values.length / block)) * block);
  for (let i = 0; i < values.length; i++) padded[i] = BigInt(values[i] as number);
  return padded;
}
