// The rows of branches that the scoring graph runs over: pure index arithmetic.
import { type BranchRow, type Lane, type LaneRoom, layOut } from './layout.js';
import type { Branch, PrefixPlace } from './placed.js';

/**
 * The branches of each trace, sorted by exit, fill one lane after the other, of R rows each; W lanes are a group. A branch never straddles
 * two of them, since its rows attend to each other inside their lane only. Before them stands the trace's suffix, cut into branches as long
 * as a lane, each of which sees those before it as keys. Without any branch there is one idle row.
 * On the CPU the lanes of a group are of traces that follow one another, or of one alone whose suffix is read (W = 1).
 * @param traces (B) branches of each trace
 * @param places (B) where each trace's keys are; default: each on a prefix of its own
 * @param suffixes (N) ids of the suffixes that are read in this run
 * @param gpu of a graph that takes lanes
 */
export function packBranches(
  traces: readonly (readonly Branch[])[],
  places: readonly PrefixPlace[] = traces.map((_, prefix) => ({ prefix })),
  suffixes: readonly Int32Array[] = [],
  gpu?: LaneRoom,
) {
  // copies: the same branch may be given twice
  const own = traces.map((branches) => branches.map((branch): Branch & BranchRow => ({ ...branch })));
  const all = own.flat();
  const ownSuffixes = places.map(({ suffix }) => (suffix && suffixes[suffix.number]) ?? new Int32Array(0));
  const { groups, pieces, rowsPerGroup: R } = layOut(own, places, ownSuffixes, gpu);
  const [G, W] = [groups.length, (groups[0] as Lane[]).length];
  for (const [n, { rows }] of groups.flat().entries()) {
    let row = n * R;
    for (const branch of rows) {
      branch.first = row;
      row += branch.ids.length;
    }
  }

  // rows that stay padding: token 0 at position 0, in sight of nothing but their own kind (branch -1)
  const ids = new BigInt64Array(G * W * R);
  const pos = new BigInt64Array(G * W * R);
  const exit = new BigInt64Array(G * W * R);
  const number = new BigInt64Array(G * W * R).fill(-1n);
  for (const [i, row] of [...all, ...pieces.flat()].entries()) {
    const { first = 0 } = row;
    ids.set(Array.from(row.ids, BigInt), first);
    pos.set(positionsOf(row).map(BigInt), first);
    exit.fill(BigInt(row.exit), first, first + row.ids.length);
    number.fill(BigInt(i), first, first + row.ids.length);
  }

  const suffixRows: Int32Array[] = [];
  for (const [b, { suffix }] of places.entries())
    if (suffix !== undefined)
      suffixRows[suffix.number] = Int32Array.from((pieces[b] as readonly BranchRow[]).flatMap(rowNumbers));
  return {
    // G groups of R rows for each of W lanes
    ...{ groups: G, lanes: W, rowsPerGroup: R },
    // (G·W·R) token, position, tokens of the trace in sight, branch number
    ...{ ids, pos, exit, number },
    /** where keys are, as inputs of the graph, of each group as many numbers */
    places: gpu === undefined ? cutsOf(groups) : lanesOf(groups, gpu.keys),
    /** (B) the branches of each trace, with their first rows */
    branches: own as readonly (readonly (Branch & { readonly first: number })[])[],
    /** (N) the row of each suffix's tokens in the flattened [G·W·R] */
    suffixRows,
    ...readOut(all),
  };
}

/** [G,2] where a group's keys begin and end among the prefixes' [B,T], its W traces' up to the farthest exit, and behind them among the suffixes' [N,L]. */
function cutsOf(groups: readonly (readonly Lane[])[]): Record<string, readonly number[]> {
  const cuts = groups.map((lanes) => {
    const { prefix, suffix } = (lanes[0] as Lane).place;
    const exits = lanes.flatMap(({ rows }) => rows.map(({ exit }) => exit));
    const keys = exits.reduce((far, exit) => Math.max(far, exit), 0);
    const onPrefix = Math.min(keys, suffix?.from ?? keys);
    return { prefix, number: suffix?.number ?? 0, W: lanes.length, onPrefix, behind: keys - onPrefix };
  });
  return {
    prefix_from: cuts.flatMap(({ prefix }) => [prefix, 0]),
    prefix_to: cuts.flatMap(({ prefix, W, onPrefix }) => [prefix + W, onPrefix]),
    suffix_from: cuts.flatMap(({ number }) => [number, 0]),
    suffix_to: cuts.flatMap(({ number, W, behind }) => [number + W, behind]),
  };
}

/** [G,W] which prefix and which suffix a lane's trace stands on, and how many tokens of it are on the prefix: without a suffix as many as there can be. */
function lanesOf(groups: readonly (readonly Lane[])[], most: number): Record<string, readonly number[]> {
  const places = groups.flat().map(({ place }) => place);
  return {
    lane_prefix: places.map(({ prefix }) => prefix),
    lane_suffix: places.map(({ suffix }) => suffix?.number ?? 0),
    lane_from: places.map(({ suffix }) => suffix?.from ?? most),
  };
}

function rowNumbers({ ids, first = 0 }: BranchRow): number[] {
  return Array.from(ids, (_, j) => first + j);
}

/** Of a branch's tokens. */
export function positionsOf({ exit, ids, gap }: BranchRow): number[] {
  return Array.from(ids, (_, j) => exit + j + (gap && j >= gap.before ? gap.tokens : 0));
}

/** Rows of all to read out and the token that follows each, in the order of the branches given. */
export function readOut(branches: readonly (Branch & BranchRow)[]) {
  const rows: number[] = [];
  const targets: number[] = [];
  for (const [i, branch] of branches.entries()) {
    const { ids, scoredFrom, also } = branch;
    if (scoredFrom < 1 || scoredFrom >= ids.length)
      throw new RangeError(
        `branch ${i} scores tokens ${scoredFrom}..${ids.length}: expected at least one, after the first`,
      );
    const own = rowNumbers(branch).slice(scoredFrom - 1, -1);
    rows.push(...own);
    targets.push(...ids.subarray(scoredFrom));
    if (also === undefined) continue;
    rows.push(own.at(-1) as number);
    targets.push(also);
  }
  return { rows, targets };
}
