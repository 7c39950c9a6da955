// The run folder (DESIGN §5): which chunks and shards are done.
import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Figures } from '../../figures.js';
import { fileBytes } from '../files/file-bytes.js';
import { readJson, writeJson, writeText } from '../files/json-file.js';
import { isAbsent, statIfThere } from '../files/stat-if-there.js';
import type { Shard } from '../layout/chunks.js';
import { CARD_NAME, runPaths } from '../layout/run-paths.js';
import { type CardFacts, datasetCard } from './dataset-card.js';

/** A chunk that is done: the last thing written of it. */
export interface ChunkRecord extends Counts {
  readonly chunk: number;
  /** traces written of each input row; null: one of each */
  readonly traces_per_row: readonly number[] | null;
  /** what its traces came to: for the words at a run's end, over all attempts, workers and shards */
  readonly figures: Figures;
  readonly sha256: string;
  /** null where no trace was rejected */
  readonly rejects_sha256: string | null;
}

/** A shard that is done. */
export interface ShardRecord extends Counts {
  readonly shard: number;
  readonly shards: number;
  /** of the process that ended it */
  readonly seconds: number;
  readonly chunks: readonly ChunkRecord[];
  /** for the dataset card; absent where the chunks end in a single file */
  readonly card?: CardSource;
}

/** What a dataset card says of the chunks themselves. */
export type CardSource = Pick<CardFacts, 'format' | 'columns' | 'metadata'>;

/**
 * Removes what a run has made, and nothing else: a user's folder may hold more. First what says that something is done,
 * last what says that there is a run: cut off anywhere, it leaves a run that can be begun again or dropped.
 */
export async function removeRun(folder: string): Promise<void> {
  for (const name of ['_SUCCESS', CARD_NAME, 'done', 'chunks', 'rejects', 'survey.json', 'run.json'])
    await rm(join(folder, name), { recursive: true, force: true });
}

const REMOVALS = 5;

/**
 * Removes a hidden run folder. Where another process still writes there, at the same output, this is tried a few times;
 * what is left then goes when that one ends.
 */
export async function removeRunFolder(folder: string): Promise<void> {
  for (let tries = 1; tries <= REMOVALS; tries++) {
    try {
      await removeRun(folder);
      await rm(folder, { recursive: true, force: true });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
      await sleep(20 * tries);
    }
  }
}

/** Sums over chunks. */
export interface Counts {
  readonly rows: number;
  readonly traces: number;
  readonly rejects: number;
  readonly tokens: number;
}

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

/** A shard's state on disk. @returns its record where it is done, and the records of its chunks that are */
export async function readShard(
  folder: string,
  shard: Shard,
): Promise<{ done: ShardRecord | undefined; chunks: Map<number, ChunkRecord> }> {
  const paths = runPaths(folder);
  const done = await readJson<ShardRecord>(paths.done(shard));
  // a record that does not add up was not written like that: the shard is done again
  if (done?.shard === shard.index && isDeepStrictEqual(sumCounts(done.chunks), sumCounts([done])))
    return { done, chunks: new Map(done.chunks.map((record) => [record.chunk, record])) };
  const names = await readdir(paths.records(shard)).catch(() => []);
  const chunks = new Map<number, ChunkRecord>();
  for (const name of names.filter((name) => /^\d+\.json$/.test(name)).sort()) {
    const record = await readJson<ChunkRecord>(join(paths.records(shard), name));
    if (record !== undefined && record.chunk === Number.parseInt(name, 10)) chunks.set(record.chunk, record);
  }
  return { done: undefined, chunks };
}

/** What attempts that were killed have left half written; what another attempt writes now is younger. */
export async function removeLeftovers(folders: readonly string[], before: number): Promise<void> {
  for (const folder of folders)
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      if (!name.startsWith('.') || !name.endsWith('.tmp')) continue;
      const found = await statIfThere(path);
      if (found !== null && found.mtimeMs < before) await rm(path, { force: true });
    }
}

/** Where all shards write, small files that are there at once. */
export function sharedFolders(folder: string): string[] {
  return [folder, join(folder, 'done')];
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

/** sha256 of a file in hex; null where there is none. */
export async function sha256OfFile(path: string): Promise<string | null> {
  if ((await statIfThere(path)) === null) return null;
  const hash = createHash('sha256');
  for await (const bytes of fileBytes(path)) hash.update(bytes);
  return hash.digest('hex');
}

/** Writes the shard's record, and `_SUCCESS` where it was the last of the run. */
export async function finishShard(
  folder: string,
  shard: Shard,
  chunks: ReadonlyMap<number, ChunkRecord>,
  seconds: number,
  card?: CardSource,
): Promise<void> {
  const records = [...chunks.values()].sort((a, b) => a.chunk - b.chunk);
  const record: ShardRecord = {
    shard: shard.index,
    shards: shard.count,
    ...sumCounts(records),
    seconds: Math.round(seconds * 1000) / 1000,
    chunks: records,
    ...(card && { card }),
  };
  const paths = runPaths(folder);
  await writeJson(paths.done(shard), record);
  await markSuccess(folder, shard.count);
}

/**
 * Writes the dataset card and `_SUCCESS` where all shards are done: also for a shard whose process died before it could.
 */
export async function markSuccess(folder: string, shards: number): Promise<void> {
  const paths = runPaths(folder);
  if ((await statIfThere(paths.success)) !== null) return;
  const all = Array.from({ length: shards }, (_, index) => paths.done({ index, count: shards }));
  // nearly always one is missing, and a thousand records need not be read to see that
  for (const path of all) if ((await statIfThere(path)) === null) return;
  const sums = { rows: 0, rejects: 0 };
  let card: CardSource | undefined;
  for (const path of all) {
    const record = await readJson<ShardRecord>(path);
    if (record === undefined) return;
    sums.rows += record.traces;
    sums.rejects += record.rejects;
    card ??= record.card;
  }
  if (card !== undefined)
    await writeText(paths.card, datasetCard({ ...card, ...sums, files: `chunks/*-of-*/*.${card.format}` }));
  await writeJson(paths.success, { shards });
}

/** Drops the run that is in the folder. @returns whether there was one */
export async function dropRun(folder: string): Promise<boolean> {
  if (!(await isBegun(folder))) return false;
  await removeRun(folder);
  return true;
}

/** Whether there is a run in the folder. */
export async function isBegun(folder: string): Promise<boolean> {
  return (await statIfThere(runPaths(folder).run)) !== null;
}

/** Whether a run has left a chunk worth keeping, whatever its layout. */
export async function hasRecords(folder: string): Promise<boolean> {
  try {
    const names = await readdir(join(folder, 'done'), { recursive: true });
    return names.some((name) => name.endsWith('.json'));
  } catch (error) {
    // what cannot be looked at may be there
    return !isAbsent(error);
  }
}

/** Whether a shard has set rows aside. */
export async function hasRejects(folder: string, shard: Shard): Promise<boolean> {
  const names = await readdir(runPaths(folder).rejects(shard)).catch((): string[] => []);
  return names.some((name) => name.endsWith('.jsonl'));
}
