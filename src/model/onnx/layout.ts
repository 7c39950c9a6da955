// Which branches stand together in a group of the scoring graph, so that few rows are padding; and neighbours that share room.
import type { Branch, PrefixPlace } from './placed.js';

/**
 * On the CPU, the most rows that a trace has in a group, alone and behind a shared prompt, where no branch is longer: few enough that no
 * row attends to many keys beyond its own, since all of a group see the keys up to its farthest exit; enough to keep a MatMul busy.
 * `lanes`: short traces, each on a prefix of its own, fill a group up to so many rows. `start`: what a group costs besides its rows, in
 * rows. All were measured.
 */
const CPU = { alone: 64, behind: 128, lanes: 256, start: 16 } as const;

/**
 * On a GPU a lane costs a copy of its keys besides its rows: in rows, by arithmetic (67 MB of 4,096 tokens of an 8 B Llama a layer are 25
 * µs, a row of it 2 µs); and in so many parts at most the busiest trace's rows are put to find where least is padding.
 */
const LANE = { start: 12, parts: 16 } as const;

/** What lanes of a GPU's graph have room for. */
export interface LaneRoom {
  /** keys of a lane besides those of its rows, which it has whether they are in sight or not */
  readonly keys: number;
  /** scores of a head that are held at once */
  readonly scores: number;
}

/** On the CPU, rows that a trace has in a group: its longest branch fits, and no more than {@link CPU} has otherwise. @param busiest most rows of a trace */
export function rowsPerGroup(longest: number, busiest: number, isBehind: boolean): number {
  return Math.max(1, longest, Math.min(CPU[isBehind ? 'behind' : 'alone'], busiest));
}

/** Rows that stand together in a group: a branch, or a piece of a suffix. */
export interface BranchRow extends Pick<Branch, 'exit' | 'ids' | 'gap'> {
  /** of them in the flattened [G·W·R], once they are laid out */
  first?: number;
}

/** (traces) what stands together, part by part. */
type LaneParts = readonly (readonly (readonly BranchRow[])[])[];

/** What stands in a lane of a group: of one trace some branches and pieces, R rows at most. */
export interface Lane {
  readonly rows: readonly BranchRow[];
  readonly place: PrefixPlace;
}

/** Equal parts of the busiest trace's rows, with a branch's room beyond so that they pad little, and of all such layouts the one that costs least. */
export function layOut(
  branches: readonly (readonly Branch[])[],
  places: readonly PrefixPlace[],
  suffixes: readonly Int32Array[],
  gpu: LaneRoom | undefined,
) {
  const isBehind = places.some(({ suffix }) => suffix !== undefined);
  const longest = branches.flat().reduce((length, { ids }) => Math.max(length, ids.length), 1);
  const loads = branches.map((rows, b) => rowsOf(rows) + (suffixes[b] as Int32Array).length);
  const busiest = loads.reduce((load, other) => Math.max(load, other), 1);
  const most =
    gpu === undefined ? rowsPerGroup(longest, busiest, isBehind) : Math.max(longest, mostRows(gpu));
  const inParts = (count: number) => {
    const room = Math.min(most, Math.ceil(busiest / count) + longest - 1);
    const pieces = places.map(({ suffix }, b) =>
      piecesOf(suffixes[b] as Int32Array, suffix?.from ?? 0, room),
    );
    // each is filled before the next
    const parts = branches.map((own, b) => {
      const rows: BranchRow[] = [...(pieces[b] as BranchRow[]), ...[...own].sort(byExit)];
      return sharingRoom(rows, room, ({ ids }) => ids.length);
    });
    const R = parts.flat().reduce((fullest, part) => Math.max(fullest, rowsOf(part)), 1);
    return { parts, layout: { pieces, rowsPerGroup: R } };
  };
  const least = Math.ceil(busiest / most);
  if (gpu !== undefined)
    return cheapest(LANE.parts, (n) => {
      const { parts, layout } = inParts(least + n);
      const groups = laneGroups(parts, places, layout.rowsPerGroup, gpu);
      return { ...layout, groups, cost: groups.flat().length * (layout.rowsPerGroup + LANE.start) };
    });
  const { parts, layout } = inParts(least);
  const isIdle = parts.every(({ length }) => length === 0);
  const side = isBehind || isIdle ? 1 : Math.floor(CPU.lanes / layout.rowsPerGroup);
  const mostLanes = Math.max(1, Math.min(side, parts.length));
  return cheapest(1 + Math.floor(Math.log2(mostLanes)), (n) => {
    const lanes = mostLanes >> n;
    const groups = groupsOf(parts, places, lanes);
    return { ...layout, groups, cost: groups.length * (lanes * layout.rowsPerGroup + CPU.start) };
  });
}

/** The first of those that cost least. */
function cheapest<T extends { readonly cost: number }>(count: number, layoutOf: (n: number) => T): T {
  return Array.from({ length: count }, (_, n) => layoutOf(n)).reduce((best, other) =>
    other.cost < best.cost ? other : best,
  );
}

/** Rows of a lane, whose scores of one head there is room for: R (keys + R) of them. */
function mostRows({ keys, scores }: LaneRoom): number {
  return Math.floor((Math.sqrt(keys ** 2 + 4 * scores) - keys) / 2);
}

/** Every part has a lane; in as many groups of like size as there is no room for them at once. */
function laneGroups(all: LaneParts, places: readonly PrefixPlace[], R: number, room: LaneRoom): Lane[][] {
  const { keys, scores } = room;
  const lanesOf = (parts: LaneParts[number], place: PrefixPlace): Lane[] =>
    parts.map((rows) => ({ rows, place }));
  const lanes = all.flatMap((parts, b) => lanesOf(parts, places[b] as PrefixPlace));
  const most = Math.max(1, Math.floor(scores / (R * (keys + R))));
  const W = Math.ceil(lanes.length / Math.ceil(lanes.length / most)) || 1;
  while (lanes.length % W > 0 || lanes.length === 0) lanes.push(IDLE);
  return Array.from({ length: lanes.length / W }, (_, n) => lanes.slice(n * W, (n + 1) * W));
}

/** of no trace's rows */
const IDLE: Lane = { rows: [], place: { prefix: 0 } };

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
function groupsOf(all: LaneParts, places: readonly PrefixPlace[], W: number): Lane[][] {
  const groups: Lane[][] = [];
  for (let done = 0; done < all.length; done += W) {
    const first = Math.min(done, all.length - W);
    const own = all.slice(first, first + W).map((parts, w) => (first + w < done ? [] : parts));
    const most = Math.max(...own.map(({ length }) => length));
    for (let n = 0; n < most; n++)
      groups.push(own.map((parts, w) => ({ rows: parts[n] ?? [], place: places[first + w] as PrefixPlace })));
  }
  return groups.length > 0 ? groups : [[IDLE]];
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
