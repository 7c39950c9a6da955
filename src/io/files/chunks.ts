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

/** A run has about so many chunks, so that as many processes have work, until a chunk would be larger than a death may cost. */
const CHUNKS = {
  // minutes of a policy
  policy: { count: 32, mostRows: 512 },
  // half a minute where a row takes a fraction of a millisecond
  none: { count: 8, mostRows: 16_384 },
} as const;

/**
 * Rows a chunk where the user does not say.
 * @param rows of all inputs; undefined where nobody can count them before they are read
 */
export function defaultRowsPerChunk(rows: number | undefined, hasPolicy: boolean): number {
  const { count, mostRows } = hasPolicy ? CHUNKS.policy : CHUNKS.none;
  if (rows === undefined) return mostRows;
  const windows = Math.ceil(rows / count / WINDOW_ROWS);
  return Math.min(mostRows, Math.max(1, windows) * WINDOW_ROWS);
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
