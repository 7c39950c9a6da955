// Packs branches into groups of the scoring graph, so that few rows are padding; and neighbours that share room.

import type { Device } from './device.js';
import type { Branch, PrefixPlace } from './placed.js';

/**
 * Most rows that a trace has in a group, alone and behind a shared prompt, where no branch is longer: all of them see, and every group
 * copies, the keys up to its farthest exit. On the CPU few enough that no row attends to many keys beyond its own, enough to keep a
 * MatMul busy (measured). On a GPU by arithmetic, none was at hand: a group starts some 20 kernels a layer, 5 µs each; 64
 * rows of a 7 B model over 4,096 keys are 3.8 GFLOP there, 19 µs at 200 TFLOP/s, so that five times as many keep it busy. 256 rows of
 * 32 heads over 25,000 keys are .8 GB of float32. `lanes`: short traces, each on a prefix of its own, fill a group up to so many rows.
 * `start`: what a group costs besides its rows, in rows: on the CPU measured, on a GPU 100 µs a layer at 2 µs a row of a 7 B model.
 */
const ROWS_PER_GROUP = {
  cpu: { alone: 64, behind: 128, lanes: 256, start: 16 },
  cuda: { alone: 256, behind: 512, lanes: 512, start: 48 },
} as const satisfies Record<Device['name'], object>;

/** Rows that a trace has in a group: its longest branch fits, and no more than {@link ROWS_PER_GROUP} otherwise. @param busiest most rows of a trace */
export function rowsPerGroup(
  longest: number,
  busiest: number,
  isBehind: boolean,
  device: Device['name'],
): number {
  const most = ROWS_PER_GROUP[device][isBehind ? 'behind' : 'alone'];
  return Math.max(1, longest, Math.min(most, busiest));
}

/** Rows that stand together in a group: a branch, or a piece of a suffix. */
interface BranchRow extends Pick<Branch, 'exit' | 'ids' | 'gap'> {
  /** of them in the flattened [G·W·R], once they are laid out */
  first?: number;
}

/** What stands in a group: of each of W traces some branches and pieces, R rows at most. */
interface BranchGroup {
  readonly parts: readonly (readonly BranchRow[])[];
  /** the first trace's */
  readonly place: PrefixPlace;
  /** how many the farthest exit sees on the prefix, and on the suffix behind it */
  readonly keys: readonly [onPrefix: number, behind: number];
}

/** Equal parts of the busiest trace's rows, with a branch's room beyond so that they pad little, and as many lanes as leave least padding. */
function layOut(
  branches: readonly (readonly Branch[])[],
  places: readonly PrefixPlace[],
  suffixes: readonly Int32Array[],
  device: Device['name'],
) {
  const isBehind = places.some(({ suffix }) => suffix !== undefined);
  const longest = branches.flat().reduce((length, { ids }) => Math.max(length, ids.length), 1);
  const loads = branches.map((rows, b) => rowsOf(rows) + (suffixes[b] as Int32Array).length);
  const busiest = loads.reduce((load, other) => Math.max(load, other), 1);
  const most = rowsPerGroup(longest, busiest, isBehind, device);
  const room = Math.min(most, Math.ceil(busiest / Math.ceil(busiest / most)) + longest - 1);
  const pieces = places.map(({ suffix }, b) => piecesOf(suffixes[b] as Int32Array, suffix?.from ?? 0, room));
  // each is filled before the next
  const parts = branches.map((own, b) => {
    const rows: BranchRow[] = [...(pieces[b] as BranchRow[]), ...[...own].sort(byExit)];
    return sharingRoom(rows, room, ({ ids }) => ids.length);
  });
  const R = parts.flat().reduce((fullest, part) => Math.max(fullest, rowsOf(part)), 1);
  const isIdle = parts.every(({ length }) => length === 0);
  const side = isBehind || isIdle ? 1 : Math.floor(ROWS_PER_GROUP[device].lanes / R);
  const mostLanes = Math.max(1, Math.min(side, parts.length));
  const layouts = Array.from({ length: 1 + Math.floor(Math.log2(mostLanes)) }, (_, n) => {
    const lanes = mostLanes >> n;
    const groups = groupsOf(parts, places, lanes);
    const cost = groups.length * (lanes * R + ROWS_PER_GROUP[device].start);
    return { groups, pieces, lanes, rowsPerGroup: R, cost };
  });
  return layouts.reduce((best, other) => (other.cost < best.cost ? other : best));
}

/** Of one exit by length and ids: references in another order stand in the same rows, and have the same bits. */
function byExit(one: Branch, other: Branch): number {
  const before = one.exit - other.exit || one.ids.length - other.ids.length;
  if (before !== 0) return before;
  const t = one.ids.findIndex((id, n) => id !== other.ids[n]);
  return t < 0 ? 0 : (one.ids[t] as number) - (other.ids[t] as number);
}

/** Consecutive items, as many together as have room; one that is larger is alone. @param size of an item */
export function sharingRoom<T>(items: readonly T[], room: number, size: (item: T) => number): T[][] {
  const parts: T[][] = [];
  let free = 0;
  for (const item of items) {
    const own = size(item);
    if (parts.length === 0 || own > free) {
      parts.push([]);
      free = room;
    }
    parts.at(-1)?.push(item);
    free -= own;
  }
  return parts;
}

/** The n-th parts of W traces share a group, a lane each; the last W traces begin with some that are done, and have nothing more there. */
function groupsOf(
  all: readonly (readonly (readonly BranchRow[])[])[],
  places: readonly PrefixPlace[],
  W: number,
): BranchGroup[] {
  const groups: BranchGroup[] = [];
  for (let done = 0; done < all.length; done += W) {
    const first = Math.min(done, all.length - W);
    const own = all.slice(first, first + W).map((parts, w) => (first + w < done ? [] : parts));
    const most = Math.max(...own.map(({ length }) => length));
    for (let n = 0; n < most; n++) {
      const parts = own.map((each) => each[n] ?? []);
      const place = places[first] as PrefixPlace;
      const keys = parts.flat().reduce((far, { exit }) => Math.max(far, exit), 0);
      const onPrefix = Math.min(keys, place.suffix?.from ?? keys);
      groups.push({ parts, place, keys: [onPrefix, keys - onPrefix] });
    }
  }
  return groups.length > 0 ? groups : [{ parts: [[]], place: { prefix: 0 }, keys: [0, 0] }];
}

/** A suffix's tokens, which begin at a position, in pieces of up to R. */
function piecesOf(suffix: Int32Array, from: number, R: number): BranchRow[] {
  return Array.from({ length: Math.ceil(suffix.length / R) }, (_, n) => ({
    exit: from + n * R,
    ids: suffix.subarray(n * R, (n + 1) * R),
  }));
}

function rowsOf(branches: readonly BranchRow[]): number {
  return branches.reduce((sum, { ids }) => sum + ids.length, 0);
}

// ------ the rows that the scoring graph runs over: pure index arithmetic

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
) {
  // copies: the same branch may be given twice
  const own = traces.map((branches) => branches.map((branch): Branch & BranchRow => ({ ...branch })));
  const all = own.flat();
  const ownSuffixes = places.map(({ suffix }) => (suffix && suffixes[suffix.number]) ?? new Int32Array(0));
  const { groups, pieces, lanes: W, rowsPerGroup: R } = layOut(own, places, ownSuffixes, device);

  const G = groups.length;
  for (const [g, { parts }] of groups.entries())
    for (const [w, part] of parts.entries()) {
      let row = (g * W + w) * R;
      for (const branch of part) {
        branch.first = row;
        row += branch.ids.length;
      }
    }

  // rows that stay padding: token 0 at position 0, in sight of nothing but their own kind (branch -1)
  const ids = new BigInt64Array(G * W * R);
  const pos = new BigInt64Array(G * W * R);
  const exit = new BigInt64Array(G * W * R);
  const number = new BigInt64Array(G * W * R).fill(-1n);
  for (const [i, { exit: at, ids: tokens, gap, first = 0 }] of [...all, ...pieces.flat()].entries())
    for (const [j, id] of tokens.entries()) {
      ids[first + j] = BigInt(id);
      pos[first + j] = BigInt(at + j + (gap !== undefined && j >= gap.before ? gap.tokens : 0));
      exit[first + j] = BigInt(at);
      number[first + j] = BigInt(i);
    }

  const suffixRows: Int32Array[] = [];
  for (const [b, { suffix }] of places.entries())
    if (suffix !== undefined)
      suffixRows[suffix.number] = Int32Array.from((pieces[b] as readonly BranchRow[]).flatMap(rowNumbers));
  const table = (entry: (group: BranchGroup) => readonly [number, number]) =>
    BigInt64Array.from(groups.flatMap(entry), BigInt);
  return {
    // G groups of R rows for each of W lanes
    ...{ groups: G, lanes: W, rowsPerGroup: R },
    // (G·W·R) token, position, tokens of the trace in sight, branch number
    ...{ ids, pos, exit, number },
    // (G,2) where the group's keys begin and end among the prefixes' [B,T]: its W traces', up to the farthest exit
    from: table(({ place }) => [place.prefix, 0]),
    to: table(({ place, keys }) => [place.prefix + W, keys[0]]),
    // (G,2) the same among the suffixes' [N,L], of what is behind the prefix
    suffixFrom: table(({ place }) => [place.suffix?.number ?? 0, 0]),
    suffixTo: table(({ place, keys }) => [(place.suffix?.number ?? 0) + W, keys[1]]),
    /** (B) the branches of each trace, with their first rows */
    branches: own as readonly (readonly (Branch & { readonly first: number })[])[],
    /** (N) the row of each suffix's tokens in the flattened [G·W·R] */
    suffixRows,
    ...readOut(all),
  };
}

function rowNumbers({ ids, first = 0 }: BranchRow): number[] {
  return Array.from(ids, (_, j) => first + j);
}

/** Rows of the flattened [G·W·R] to read out and the token that follows each, in the order of the branches given. */
function readOut(branches: readonly (Branch & BranchRow)[]) {
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
