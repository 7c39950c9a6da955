// What is done of a run: the record of each chunk and of each shard, read with distrust and written last.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { EXIT, RredcotError } from '../errors.js';
import { MAX_CHUNKS, type Shard, shardOf } from '../io/files/chunks.js';
import { sha256OfFile } from '../io/files/file-bytes.js';
import { readJson } from '../io/files/json-file.js';
import { runPaths } from '../io/files/run-paths.js';
import type { Figures } from '../report/figures.js';
import type { CardFacts } from './dataset-card.js';
import type { RunDescription } from './description.js';

/** Sums over chunks. */
export interface Counts {
  readonly rows: number;
  readonly traces: number;
  readonly rejects: number;
  readonly tokens: number;
}

export const Count = z.int().nonnegative();
export const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const CountsShape = { rows: Count, traces: Count, rejects: Count, tokens: Count };

const CanarySchema = z.strictObject({
  /** whose: of the policy, or of a second model */
  model: z.string(),
  device: z.string(),
  precision: z.string(),
  tokens_left_out: Count,
  /** by kind of number: how far the session was off at most, and in the mean; nats, or probabilities */
  off: z.record(z.string(), z.number().nonnegative()),
  mean: z.record(z.string(), z.number().nonnegative()),
});
/** What a canary has shown of a session that a chunk was made by. */
export type CanaryRecord = Readonly<z.infer<typeof CanarySchema>>;

const ChunkSchema = z.strictObject({
  /** identity of the run that made the chunk */
  run: Sha256,
  chunk: Count.max(MAX_CHUNKS),
  ...CountsShape,
  /** traces written of each input row; null: one of each */
  traces_per_row: z.array(Count).nullable(),
  /** what its traces came to: for the words at a run's end, over all attempts, workers and shards */
  figures: z.custom<Figures>((value) => typeof value === 'object' && value !== null),
  sha256: Sha256,
  /** null where no trace was rejected */
  rejects_sha256: Sha256.nullable(),
  /** of the sessions that made it; absent where no policy ran */
  canary: z.array(CanarySchema).readonly().exactOptional(),
});

const ShardSchema = z.strictObject({
  run: Sha256,
  shard: Count,
  shards: z.int().positive(),
  ...CountsShape,
  /** of the process that ended it */
  seconds: z.number().nonnegative(),
  chunks: z.array(ChunkSchema),
  /** for the dataset card; absent where the chunks end in a single file */
  card: z.custom<CardSource>((value) => typeof value === 'object' && value !== null).exactOptional(),
});

/** A chunk that is done: the last thing written of it. */
export type ChunkRecord = Readonly<z.infer<typeof ChunkSchema>>;

/** A shard that is done. */
export type ShardRecord = Readonly<z.infer<typeof ShardSchema>>;

/** What a dataset card says of the chunks themselves. */
export type CardSource = Pick<CardFacts, 'format' | 'columns' | 'metadata' | 'words' | 'meanings'>;

/** The part of a run's description that its records are held against. */
export type RecordedRun = Pick<RunDescription, 'run' | 'shards' | 'rows_per_chunk'>;

/** What several chunks, or shards, hold together. */
export function sumCounts(records: Iterable<Counts>): Counts {
  const sum = { rows: 0, traces: 0, rejects: 0, tokens: 0 };
  for (const { rows, traces, rejects, tokens } of records) {
    sum.rows += rows;
    sum.traces += traces;
    sum.rejects += rejects;
    sum.tokens += tokens;
  }
  return sum;
}

/** A record of another run where one of this run was expected. */
export class ForeignRecordError extends RredcotError {
  constructor(readonly path: string) {
    super(`${path}: is of another run than run.json`, {
      exitCode: EXIT.data,
      hint: 'the command that made the run, once more: it makes again what is not its own',
    });
  }
}

/**
 * The record of a chunk.
 * @returns undefined where there is none, or none that can be true
 * @throws ForeignRecordError where it is another run's
 */
export async function readChunkRecord(
  folder: string,
  run: RecordedRun,
  chunk: number,
): Promise<ChunkRecord | undefined> {
  const path = runPaths(folder).record(shardOf(chunk, run.shards), chunk);
  const found = ChunkSchema.safeParse(await readJson(path));
  if (!found.success) return undefined;
  if (found.data.run !== run.run) throw new ForeignRecordError(path);
  return found.data.chunk === chunk && isPossible(found.data, run) ? found.data : undefined;
}

/** A record, where it is the run's own. @param onForeign told of another run's, which then counts for nothing; may throw */
export async function ownRecord<T>(
  record: Promise<T>,
  onForeign: (error: ForeignRecordError) => void = () => {},
): Promise<T | undefined> {
  try {
    return await record;
  } catch (error) {
    if (!(error instanceof ForeignRecordError)) throw error;
    onForeign(error);
    return undefined;
  }
}

/** Whether a record counts what a chunk of the run can hold. */
function isPossible({ rows, traces, traces_per_row: counts }: ChunkRecord, run: RecordedRun): boolean {
  if (rows > run.rows_per_chunk) return false;
  if (counts === null) return traces === rows;
  return counts.length === rows && counts.reduce((sum, count) => sum + count, 0) === traces;
}

/** The record of a shard, as {@link readChunkRecord}; one that does not add up was not written like that. */
export async function readShardRecord(
  folder: string,
  run: RecordedRun,
  shard: Shard,
): Promise<ShardRecord | undefined> {
  const path = runPaths(folder).done(shard);
  const found = ShardSchema.safeParse(await readJson(path));
  if (!found.success) return undefined;
  const { data } = found;
  if ([data, ...data.chunks].some((record) => record.run !== run.run)) throw new ForeignRecordError(path);
  const isOwn = data.shard === shard.index && data.shards === shard.count;
  const isSound = data.chunks.every((record) => isPossible(record, run));
  return isOwn && isSound && isDeepStrictEqual(sumCounts(data.chunks), sumCounts([data])) ? data : undefined;
}

/**
 * A shard's state on disk: its record where it is done, and the records of its chunks that are.
 * @param onForeign told of a record that is another run's, which then counts for nothing; may throw
 */
export async function readShard(
  folder: string,
  run: RecordedRun,
  shard: Shard,
  onForeign: (error: ForeignRecordError) => void,
): Promise<{ readonly done: ShardRecord | undefined; readonly chunks: Map<number, ChunkRecord> }> {
  const done = await ownRecord(readShardRecord(folder, run, shard), onForeign);
  if (done !== undefined)
    return { done, chunks: new Map(done.chunks.map((record) => [record.chunk, record])) };
  const names = await readdir(runPaths(folder).records(shard)).catch((): string[] => []);
  const chunks = new Map<number, ChunkRecord>();
  for (const name of names.filter((name) => /^\d+\.json$/.test(name)).sort()) {
    const chunk = Number.parseInt(name, 10);
    if (shardOf(chunk, shard.count).index !== shard.index) continue;
    const record = await ownRecord(readChunkRecord(folder, run, chunk), onForeign);
    if (record !== undefined) chunks.set(chunk, record);
  }
  return { done: undefined, chunks };
}

/** Whether a chunk's files are what its record says. @returns what is wrong, undefined where nothing is */
export async function chunkDamage(
  folder: string,
  shard: Shard,
  record: ChunkRecord,
  extension: string,
): Promise<string | undefined> {
  const paths = runPaths(folder);
  const files = [
    [paths.chunk(shard, record.chunk, extension), record.sha256],
    [paths.reject(shard, record.chunk), record.rejects_sha256],
  ] as const;
  for (const [path, expected] of files) {
    const found = await sha256OfFile(path);
    if (found === expected) continue;
    if (found === null) return `${path} is missing`;
    return expected === null
      ? `${path} is there, expected no rejects`
      : `${path} has changed since it was written`;
  }
  return undefined;
}

/** Whether a run has left a chunk worth keeping, whatever its layout. */
export async function hasRecords(folder: string): Promise<boolean> {
  try {
    const names = await readdir(join(folder, 'done'), { recursive: true });
    return names.some((name) => name.endsWith('.json'));
  } catch (error) {
    // what cannot be looked at may be there
    const { code } = error as NodeJS.ErrnoException;
    return code !== 'ENOENT' && code !== 'ENOTDIR';
  }
}

/** Whether one of them holds a trace: rejects alone are soon found again, and nobody's work. */
export async function holdsTraces(folder: string): Promise<boolean> {
  if (!(await hasRecords(folder))) return false;
  const done = join(folder, 'done');
  for (const name of await readdir(done, { recursive: true })) {
    if (!name.endsWith('.json')) continue;
    // what cannot be read may hold some
    if ((await readJson<{ readonly traces?: unknown }>(join(done, name)))?.traces !== 0) return true;
  }
  return false;
}
