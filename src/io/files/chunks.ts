// How a run's input rows are cut into chunks, and which shard has which chunk: arithmetic on row numbers alone.

/** Chunk c belongs to shard c mod count (DESIGN §5). */
export interface Shard {
  readonly index: number;
  readonly count: number;
}

/** The only shard of a run that is not split. */
export const WHOLE: Shard = { index: 0, count: 1 };

/** Chunks of a Parquet file at most: each is a row group, and the format numbers these in 16 bits. */
export const MAX_ROW_GROUPS = 32_767;

/** Shards of a run at most: as many as their names have digits for. */
export const MAX_SHARDS = 99_999;

/** Chunks of a run at most: each is a file, and a number beyond this is no run's but damage. */
export const MAX_CHUNKS = 10_000_000;

/** Input rows whose traces may share runs of the policy; a chunk holds whole windows, so its bytes depend on no other. */
const WINDOW_ROWS = 64;

/** Rows of so many bytes in the mean fill a window together; of longer ones it has fewer, the fewer the less they share a run. */
const SHORT_ROW_BYTES = 2 ** 11;

/** A run has about so many chunks, so that as many processes have work, until a chunk would be larger than a death may cost. */
const CHUNKS = {
  // minutes of a policy
  policy: { count: 32, mostRows: 512 },
  // half a minute where a row takes a fraction of a millisecond
  none: { count: 8, mostRows: 16_384 },
} as const;

/**
 * Rows a chunk where the user does not say.
 *
 * A policy's work on a row grows faster than its length, up to the square of it. So a chunk of rows of k times the short length has
 * k² times fewer, down to one: ten long traces are ten chunks, and as many workers have work. All chunks have the same number of
 * rows, so that the chunk of a row follows from its number alone.
 * @param rows of all inputs; undefined where nobody can count them before they are read
 * @param rowBytes their mean length in the inputs; undefined where a chunk is to hold whole groups, however long they are
 */
export function defaultRowsPerChunk(
  rows: number | undefined,
  hasPolicy: boolean,
  rowBytes: number | undefined,
): number {
  const { count, mostRows } = hasPolicy ? CHUNKS.policy : CHUNKS.none;
  if (rows === undefined) return mostRows;
  const isLong = hasPolicy && rowBytes !== undefined && rowBytes > SHORT_ROW_BYTES;
  const share = isLong ? (SHORT_ROW_BYTES / rowBytes) ** 2 : 1;
  const window = Math.max(1, Math.floor(WINDOW_ROWS * share));
  const windows = Math.max(1, Math.ceil(rows / count / window));
  const own = Math.min(Math.max(1, Math.floor(mostRows * share)), windows * window);
  // as many as one Parquet file can hold, where the rule of short rows does not make more
  return isLong ? Math.max(own, Math.min(mostRows, Math.ceil(rows / MAX_ROW_GROUPS))) : own;
}

/** The chunk of an input row. @param ordinal number of the row over all inputs */
export function chunkOf(ordinal: number, rowsPerChunk: number): number {
  return Math.floor(ordinal / rowsPerChunk);
}

/** The window of an input row: a number that grows from window to window, and never spans two chunks. */
export function windowOf(ordinal: number, rowsPerChunk: number): number {
  const windowsPerChunk = Math.ceil(rowsPerChunk / WINDOW_ROWS);
  const inChunk = Math.floor((ordinal % rowsPerChunk) / WINDOW_ROWS);
  return chunkOf(ordinal, rowsPerChunk) * windowsPerChunk + inChunk;
}

/** Chunks of a run; one without any row where there is none. @param rows of all inputs */
export function chunkCount(rows: number, rowsPerChunk: number): number {
  return Math.max(1, Math.ceil(rows / rowsPerChunk));
}

/** The shard that a chunk belongs to. */
export function shardOf(chunk: number, shards: number): Shard {
  return { index: chunk % shards, count: shards };
}

/** How many of the first `chunks` chunks are a shard's. */
export function ownChunks(chunks: number, { index, count }: Shard): number {
  return Math.max(0, Math.ceil((chunks - index) / count));
}

/** As folders and files are named: 00003-of-00016. */
export function shardName({ index, count }: Shard): string {
  const digits = (n: number) => String(n).padStart(5, '0');
  return `${digits(index)}-of-${digits(count)}`;
}
