// The chunks that lie side by side in all shards in, their rows in input order out, as ranges of what was loaded.
import type { Piece } from './gather.js';

/** A run of traces of one chunk, as it lies in a file. */
export interface Part {
  readonly path: string;
  readonly offset: number;
  readonly length: number;
  readonly traces: number;
}

/** One shard's chunk of the stripe. */
export interface Lane {
  /** traces of each input row */
  readonly counts: ArrayLike<number>;
  /** of each block of rows, in order */
  readonly blocks: readonly (readonly Part[])[];
}

/** Raw bytes that are put together at a time. */
export const BATCH_BYTES = 8 * 2 ** 20;

/**
 * Rows of each lane that make a block: those of all lanes together are about one batch.
 * @param bytesPerRow raw, on average
 */
export function blockRows(lanes: number, bytesPerRow: number, batchBytes: number): number {
  return Math.max(1, Math.floor(batchBytes / (Math.max(1, bytesPerRow) * lanes)));
}

/** Traces at which a lane's blocks end. */
export function blockCuts(counts: ArrayLike<number>, rowsPerBlock: number): number[] {
  const cuts: number[] = [];
  let traces = 0;
  for (let row = 0; row < counts.length; row++) {
    traces += counts[row] as number;
    if ((row + 1) % rowsPerBlock === 0 || row === counts.length - 1) cuts.push(traces);
  }
  return cuts;
}

/** Puts parts, in order, under the block that each lies in. @param cuts as `blockCuts` gives them */
export function partsByBlock(parts: readonly Part[], cuts: readonly number[]): Part[][] {
  const blocks: Part[][] = cuts.map(() => []);
  let block = 0;
  let traces = 0;
  for (const part of parts) {
    while (traces >= (cuts[block] ?? Number.POSITIVE_INFINITY)) block++;
    blocks[block]?.push(part);
    traces += part.traces;
  }
  return blocks;
}

/**
 * Row k of every lane, then row k + 1 of every lane. Where a block is one row, or there is one lane, parts are loaded one
 * at a time; else one block of every lane.
 * @param lanes in shard order
 */
export async function* interleave<T>(
  lanes: readonly Lane[],
  rowsPerBlock: number,
  batchBytes: number,
  load: (part: Part) => Promise<T>,
): AsyncGenerator<Piece<T>[]> {
  const blocks = lanes.reduce((most, lane) => Math.max(most, lane.blocks.length), 0);
  let pieces: Piece<T>[] = [];
  let bytes = 0;
  for (let block = 0; block < blocks; block++) {
    if (rowsPerBlock === 1 || lanes.length === 1) {
      for (const lane of lanes)
        for (const part of lane.blocks[block] ?? []) {
          pieces.push({ unit: await load(part), from: 0, to: part.traces });
          bytes += part.length;
          if (bytes < batchBytes) continue;
          yield pieces;
          pieces = [];
          bytes = 0;
        }
      continue;
    }
    const cursors = [];
    for (const lane of lanes) cursors.push(await openCursor(lane.blocks[block] ?? [], load));
    for (let row = block * rowsPerBlock; row < (block + 1) * rowsPerBlock; row++)
      for (const [n, lane] of lanes.entries())
        cursors[n]?.(row < lane.counts.length ? (lane.counts[row] as number) : 0, pieces);
    yield pieces;
    pieces = [];
  }
  if (pieces.length > 0) yield pieces;
}

/** Takes a block's traces one row after the other. */
async function openCursor<T>(parts: readonly Part[], load: (part: Part) => Promise<T>) {
  const units: { unit: T; traces: number }[] = [];
  for (const part of parts) units.push({ unit: await load(part), traces: part.traces });
  let at = 0;
  let from = 0;
  return (traces: number, into: Piece<T>[]): void => {
    for (let left = traces; left > 0; ) {
      const found = units[at];
      if (found === undefined) throw new Error(`a chunk has ${left} traces less than its record says`);
      const to = Math.min(found.traces, from + left);
      into.push({ unit: found.unit, from, to });
      left -= to - from;
      from = to;
      if (from < found.traces) continue;
      at++;
      from = 0;
    }
  };
}
