// What stands together: branches in a group of the scoring graph, so that few rows are padding, neighbours that share room, and halves of what memory does not hold.

import { OutOfMemoryError } from '../../errors.js';
import type { Device } from './device.js';
import type { Branch, PrefixPlace } from './placed.js';

/**
 * Most rows that a trace has in a group, alone and behind a shared prompt, where no branch is longer: all of them see, and every group
 * copies, the keys up to its farthest exit. On the CPU few enough that no row attends to many keys beyond its own, enough to keep a
 * MatMul busy (bench/exits.mjs). On a GPU by arithmetic, none was at hand: a group starts some 20 kernels a layer, 5 µs each; 64
 * rows of a 7 B model over 4,096 keys are 3.8 GFLOP there, 19 µs at 200 TFLOP/s, so that five times as many keep it busy. 256 rows of
 * 32 heads over 25,000 keys are .8 GB of float32. `lanes`: short traces, each on a prefix of its own, fill a group up to so many rows.
 * `start`: what a group costs besides its rows, in rows: on the CPU measured, on a GPU 100 µs a layer at 2 µs a row of a 7 B model.
 */
const ROWS_PER_GROUP = {
  cpu: { alone: 64, behind: 128, lanes: 256, start: 16 },
  cuda: { alone: 256, behind: 512, lanes: 512, start: 48 },
} as const satisfies Record<Device['name'], object>;

/**
 * Rows that a trace has in a group at most: its longest branch fits, and no more than {@link ROWS_PER_GROUP} otherwise.
 * @param busiest most rows of a trace
 * @param isBehind whether traces stand behind shared prompts
 */
export function rowsPerGroup(
  longest: number,
  busiest: number,
  isBehind: boolean,
  device: Device['name'],
): number {
  const most = ROWS_PER_GROUP[device][isBehind ? 'behind' : 'alone'];
  return Math.max(1, longest, Math.min(most, busiest));
}

/** Divisions that are tried. */
const MOST_TRIED = 16;

/** Rows that stand together in a group: a branch, or a piece of a suffix. */
export type BranchRow = Pick<Branch, 'exit' | 'ids' | 'gap'>;

/** What stands in a group: of each of W traces some branches and pieces, R rows at most. */
export interface BranchGroup {
  readonly parts: readonly (readonly BranchRow[])[];
  /** the first trace's */
  readonly place: PrefixPlace;
  /** how many the farthest exit sees */
  readonly keys: number;
}
interface GroupLayout {
  readonly groups: readonly BranchGroup[];
  /** of each trace, those of its suffix */
  readonly pieces: readonly (readonly BranchRow[])[];
  readonly lanes: number;
  readonly rowsPerGroup: number;
}

/** Of divisions of the busiest trace's rows into equal parts the one that pads least. */
export function layOut(
  branches: readonly (readonly Branch[])[],
  places: readonly PrefixPlace[],
  suffixes: readonly Int32Array[],
  device: Device['name'],
): GroupLayout {
  const isBehind = places.some(({ suffix }) => suffix !== undefined);
  const longest = branches.flat().reduce((length, { ids }) => Math.max(length, ids.length), 1);
  const loads = branches.map((rows, b) => rowsOf(rows) + (suffixes[b] as Int32Array).length);
  const busiest = loads.reduce((load, other) => Math.max(load, other), 1);
  const sorted = branches.map((own) => [...own].sort(byExit));
  /** parts of up to `room` rows, of as many traces lanes as leave least padding */
  const of = (room: number): GroupLayout => {
    const pieces = places.map(({ suffix }, b) =>
      piecesOf(suffixes[b] as Int32Array, suffix?.from ?? 0, room),
    );
    // each is filled before the next
    const parts = sorted.map((own, b) =>
      sharingRoom<BranchRow>([...(pieces[b] as BranchRow[]), ...own], room, sizeOf),
    );
    const rowsPerGroup = parts.flat().reduce((fullest, part) => Math.max(fullest, rowsOf(part)), 1);
    const isIdle = parts.every(({ length }) => length === 0);
    const side = isBehind || isIdle ? 1 : Math.floor(ROWS_PER_GROUP[device].lanes / rowsPerGroup);
    let best: GroupLayout | undefined;
    for (let lanes = Math.max(1, Math.min(side, parts.length)); lanes >= 1; lanes >>= 1) {
      const layout = { groups: groupsOf(parts, places, lanes), pieces, lanes, rowsPerGroup };
      if (best === undefined || cost(layout) < cost(best)) best = layout;
    }
    return best as GroupLayout;
  };
  const cost = ({ groups, lanes, rowsPerGroup }: GroupLayout) =>
    groups.length * (lanes * rowsPerGroup + ROWS_PER_GROUP[device].start);
  const most = rowsPerGroup(longest, busiest, isBehind, device);
  const fewest = Math.ceil(busiest / most);
  // with a branch's room beyond an equal part, so many are enough
  const rooms = Array.from({ length: MOST_TRIED }, (_, n) =>
    Math.min(most, Math.ceil(busiest / (fewest + n)) + longest - 1),
  );
  const layouts = [...new Set([most, ...rooms])].map(of);
  return layouts.reduce((best, other) => (cost(other) < cost(best) ? other : best));
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

/** The n-th parts of W traces stand lanes; the last W traces begin with some that are done, and have nothing more there. */
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
      const keys = parts.flat().reduce((far, { exit }) => Math.max(far, exit), 0);
      groups.push({ parts, place: places[first] as PrefixPlace, keys });
    }
  }
  return groups.length > 0 ? groups : [{ parts: [[]], place: { prefix: 0 }, keys: 0 }];
}

/** A suffix's tokens, which begin at a position, in pieces of up to R. */
function piecesOf(suffix: Int32Array, from: number, R: number): BranchRow[] {
  return Array.from({ length: Math.ceil(suffix.length / R) }, (_, n) => ({
    exit: from + n * R,
    ids: suffix.subarray(n * R, (n + 1) * R),
  }));
}

function rowsOf(branches: readonly BranchRow[]): number {
  return branches.reduce((sum, branch) => sum + sizeOf(branch), 0);
}

/** Rows of a branch, or a piece. */
export function sizeOf({ ids }: Pick<BranchRow, 'ids'>): number {
  return ids.length;
}

// ------ what does not fit into memory

/**
 * Runs items, at least one. Where memory runs out, the two halves are tried by themselves.
 * @param alone what comes of an item that does not fit by itself
 * @returns a result an item, in order
 */
export async function inHalves<T, R>(
  items: readonly T[],
  run: (items: readonly T[]) => Promise<readonly R[]>,
  alone: (item: T, error: OutOfMemoryError) => Promise<R> | R,
): Promise<readonly R[]> {
  try {
    return await run(items);
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    if (items.length < 2) return [await alone(items[0] as T, error)];
    const half = Math.ceil(items.length / 2);
    const first = await inHalves(items.slice(0, half), run, alone);
    return [...first, ...(await inHalves(items.slice(half), run, alone))];
  }
}
