// A run folder in, what of it is done and what is missing out: counted from records, no chunk is opened.
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { EXIT, RredcotError } from '../errors.js';
import { readJson } from './json-file.js';
import { type RunDescription, readRunDescription } from './run-description.js';
import { type CardSource, type ChunkRecord, readShard, runPaths } from './run-folder.js';
import type { Shard } from './shard.js';

/** A shard as its records tell it. */
export interface ShardState {
  readonly shard: Shard;
  /** its last record is written: nothing more will come */
  readonly isDone: boolean;
  /** done chunks in order */
  readonly chunks: readonly ChunkRecord[];
  /** chunks it will have; null where nobody has counted the input rows */
  readonly expected: number | null;
  /** numbers of chunks that are not done, or whose files are gone; without `expected` only those before the last one */
  readonly missing: readonly number[];
  /** what a dataset card says of its files; undefined where it is not done */
  readonly card: CardSource | undefined;
  /** when its last record was written; null before the first */
  readonly updatedMs: number | null;
}

/** A run as its records tell it. */
export interface RunState {
  readonly folder: string;
  readonly description: RunDescription;
  /** every shard is done and no file of it is gone */
  readonly isFinished: boolean;
  /** `_SUCCESS` is there */
  readonly hasSuccess: boolean;
  /** rows of all inputs; null where nobody has counted them */
  readonly rows: number | null;
  readonly shards: readonly ShardState[];
}

/** Sums over chunks. */
export interface Counts {
  readonly rows: number;
  readonly traces: number;
  readonly rejects: number;
  readonly tokens: number;
}

/**
 * The run folder that a name stands for: the folder itself, or the hidden one beside a file that is being made.
 * @returns undefined where the name is a file and no run is under way for it
 * @throws RredcotError (exit 2) where there is neither
 */
export async function locateRun(out: string): Promise<string | undefined> {
  const path = out.replace(/(?<=.)\/+$/, '');
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) return path;
  const hidden = hiddenRun(path);
  if ((await stat(runPaths(hidden).run).catch(() => null)) !== null) return hidden;
  if (found !== null) return undefined;
  throw new RredcotError(`${out}: no such run folder`, {
    exitCode: EXIT.usage,
    hint: 'name what was given to score or segment with -o',
  });
}

/** Where a single file is made until it is whole. */
function hiddenRun(path: string): string {
  return join(dirname(path), `.${basename(path)}.rredcot-run`);
}

/** Reads a run's records; a run under way may have more of them a moment later. @throws RredcotError (exit 2) */
export async function readRunState(folder: string): Promise<RunState> {
  const description = await readRunDescription(folder);
  const paths = runPaths(folder);
  const survey = await readJson<{ rows?: number }>(paths.survey);
  // a run that stops after so many traces does not read all rows
  const isLimited = typeof description.config.limit === 'number';
  const rows = isLimited || typeof survey?.rows !== 'number' ? null : survey.rows;
  const shards: ShardState[] = [];
  for (let index = 0; index < description.shards; index++)
    shards.push(await shardState(folder, description, { index, count: description.shards }, rows));
  return {
    folder,
    description,
    isFinished: shards.every(({ isDone, missing }) => isDone && missing.length === 0),
    hasSuccess: (await stat(paths.success).catch(() => null)) !== null,
    rows,
    shards,
  };
}

async function shardState(
  folder: string,
  { rows_per_chunk: rowsPerChunk, output: extension }: RunDescription,
  shard: Shard,
  rows: number | null,
): Promise<ShardState> {
  const paths = runPaths(folder);
  const { done, chunks } = await readShard(folder, shard);
  const present = new Set(await readdir(paths.chunks(shard)).catch((): string[] => []));
  const sorted = [...chunks.values()].sort((a, b) => a.chunk - b.chunk);
  const expected = done?.chunks.length ?? (rows === null ? null : chunkCount(rows, shard, rowsPerChunk));
  const last = sorted.at(-1)?.chunk ?? -1;
  const missing: number[] = [];
  for (let chunk = 0; chunk < Math.max(expected ?? 0, last + 1); chunk++) {
    const isWhole = chunks.has(chunk) && present.has(basename(paths.chunk(shard, chunk, extension)));
    if (!isWhole) missing.push(chunk);
  }
  const record = done === undefined ? paths.record(shard, last) : paths.done(shard);
  const written = await stat(record).catch(() => null);
  return {
    shard,
    isDone: done !== undefined,
    chunks: sorted,
    expected,
    missing,
    card: done?.card,
    updatedMs: written?.mtimeMs ?? null,
  };
}

/** Chunks of a shard; one without any row where the shard has none. @param rows of all inputs */
export function chunkCount(rows: number, shard: Shard, rowsPerChunk: number): number {
  return Math.max(1, Math.ceil(ownRows(rows, shard) / rowsPerChunk));
}

/** How many of the inputs' rows are a shard's. */
export function ownRows(rows: number, { index, count }: Shard): number {
  return Math.max(0, Math.ceil((rows - index) / count));
}

/** What a run's chunks hold together. */
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
