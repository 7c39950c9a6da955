// Counts from a run folder's records what of it is done and what is missing; no chunk is opened.

import { readdir } from 'node:fs/promises';
import { dataError, type RredcotError, usageError } from '../errors.js';
import { chunkCount, MAX_CHUNKS, ownChunks, shardOf } from '../io/files/chunks.js';
import { addressError } from '../io/files/elsewhere.js';
import { statIfThere } from '../io/files/file-error.js';
import { chunkNumber, runPaths } from '../io/files/run-paths.js';
import { type Part, parsePart } from '../io/write/part.js';
import { sumFigures } from '../report/figures.js';
import { type RunDescription, readRunDescription } from './description.js';
import {
  type ChunkRecord,
  type ForeignRecordError,
  ownRecord,
  readChunkRecord,
  readShard,
  sumCounts,
} from './records.js';
import { hiddenFolders } from './remove.js';
import { readSurveyFile } from './summary-file.js';

/** A shard as its records tell it. */
export type ShardState = Awaited<ReturnType<typeof shardState>>;

/** A run as its records tell it; nothing in it grows with the chunks that are done. */
export type RunState = Awaited<ReturnType<typeof readRunState>>;

/** What of `survey.json` is looked at here. */
interface StoredSurvey {
  readonly rows?: number;
  readonly part?: unknown;
  readonly warnings?: readonly { readonly code: string; readonly message: string }[];
}

/**
 * The run folder that a name stands for: the folder itself, or of the hidden ones beside a file that is being made the one
 * that was begun last.
 * @returns undefined where the name is a file and no run is under way for it
 * @throws RredcotError (exit 2) where there is neither
 */
export async function locateRun(out: string): Promise<string | undefined> {
  const path = out.replace(/(?<=.)\/+$/, '');
  const found = await statIfThere(path);
  if (found?.isDirectory()) return path;
  for (const hidden of await hiddenFolders(path))
    if ((await statIfThere(runPaths(hidden).run)) !== null) return hidden;
  if (found !== null) return undefined;
  throw (
    addressError(path) ??
    usageError(`${out}: no such run folder`, 'name what was given to score or segment with -o')
  );
}

/** Shards whose records are read at a time. */
const SHARDS_AT_ONCE = 8;

/**
 * Reads a run's records; a run under way may have more of them a moment later.
 * @param onForeign told of a record that is another run's, which then counts for nothing
 * @throws RredcotError: exit 2 for what is no run, 65 for another run's record where `onForeign` does not take it
 */
export async function readRunState(folder: string, onForeign: (error: ForeignRecordError) => void = refuse) {
  const description = await readRunDescription(folder);
  const paths = runPaths(folder);
  const survey = await readSurveyFile<StoredSurvey>(paths.survey, description.run);
  // a run that stops after so many traces does not read all rows
  const { limit } = description.config;
  const rows = typeof limit === 'number' ? null : countedRows(survey, description);
  const shards: ShardState[] = [];
  for (let first = 0; first < description.shards; first += SHARDS_AT_ONCE) {
    const indices = Array.from({ length: SHARDS_AT_ONCE }, (_, n) => first + n);
    const some = indices.filter((index) => index < description.shards);
    shards.push(
      ...(await Promise.all(some.map((index) => shardState(folder, description, index, rows, onForeign)))),
    );
  }
  const isFinished = shards.every(({ isDone, missing }) => isDone && missing.length === 0);
  // nobody has seen what follows in a stream
  const whole = survey ?? (typeof limit === 'number' ? { part: { by: 'limit' as const, limit } } : {});
  return {
    folder,
    description,
    /** every shard is done and no file of it is gone */
    isFinished,
    /** what has cut the chunks that are done out of a data set; undefined where nothing has */
    part: isFinished ? (parsePart(whole.part) ?? undefined) : piecesOf(shards),
    /** what the survey has found against the names of the run's traces; the code is for programs */
    warnings: survey?.warnings ?? [],
    /** `_SUCCESS` is there */
    hasSuccess: (await statIfThere(paths.success)) !== null,
    /** rows of all inputs; null where nobody has counted them */
    rows,
    /** no chunk that is done has this number or a higher one */
    end: shards.reduce((most, { end }) => Math.max(most, end), 0),
    /** what a dataset card says of the files; undefined where no shard is done, which is the first to know all columns */
    card: shards.find(({ card }) => card !== undefined)?.card,
    shards,
  };
}

async function shardState(
  folder: string,
  run: RunDescription,
  index: number,
  rows: number | null,
  onForeign: (error: ForeignRecordError) => void,
) {
  const { rows_per_chunk: rowsPerChunk, output: extension, shards } = run;
  const shard = { index, count: shards };
  const paths = runPaths(folder);
  const { done, chunks } = await readShard(folder, run, shard, onForeign);
  const present = await numbersIn(paths.chunks(shard), extension);
  const recorded = await numbersIn(paths.records(shard), 'json');
  // the records of a shard's chunks are read where they are all that there is; a stranger among others is found here
  if (done !== undefined)
    for (const chunk of recorded) await ownRecord(readChunkRecord(folder, run, chunk), onForeign);
  let last = -1;
  for (const chunk of chunks.keys()) last = Math.max(last, chunk);
  const counted = rows === null ? null : ownChunks(chunkCount(rows, rowsPerChunk), shard);
  const expected = done?.chunks.length ?? counted;
  const own = Math.max(expected ?? 0, ownChunks(last + 1, shard));
  const numbers = Array.from({ length: own }, (_, n) => index + n * shards);
  const record = done === undefined ? paths.record(shard, last) : paths.done(shard);
  const written = await statIfThere(record);
  return {
    shard,
    /** its last record is written: nothing more will come */
    isDone: done !== undefined,
    /** chunks that are done, and what they hold together */
    chunks: chunks.size,
    counts: sumCounts(chunks.values()),
    figures: sumFigures(Array.from(chunks.values(), ({ figures }) => figures)),
    /** chunks it will have; null where nobody has counted the input rows */
    expected,
    /** numbers of chunks that are not done, or whose files are gone; without `expected` only those before the last one */
    missing: numbers.filter((chunk) => !recorded.has(chunk) || !present.has(chunk)),
    /** when its last record was written; null before the first */
    updatedMs: written?.mtimeMs ?? null,
    card: done?.card,
    end: last + 1,
  };
}

function refuse(error: ForeignRecordError): never {
  throw error;
}

/** Rows of all inputs, by the survey of the run; null where nobody has counted them, or to a number that cannot be. */
function countedRows(
  survey: StoredSurvey | undefined,
  { rows_per_chunk: rowsPerChunk }: RunDescription,
): number | null {
  const rows = survey?.rows;
  const isCount = Number.isSafeInteger(rows) && (rows as number) >= 0;
  return isCount && chunkCount(rows as number, rowsPerChunk) <= MAX_CHUNKS ? (rows as number) : null;
}

/** The chunks of a run that is not finished. */
function piecesOf(shards: readonly ShardState[]): Part {
  const counted = shards.map(({ expected }) => expected).filter((expected) => expected !== null);
  return {
    by: 'pieces',
    pieces: shards.reduce((sum, { chunks }) => sum + chunks, 0),
    of: counted.length < shards.length ? null : counted.reduce((sum, expected) => sum + expected, 0),
  };
}

async function numbersIn(folder: string, extension: string): Promise<Set<number>> {
  const names = await readdir(folder).catch((): string[] => []);
  return new Set(names.filter((name) => name.endsWith(`.${extension}`)).map(chunkNumber));
}

/**
 * The records of all chunks that are done, in the order of their rows.
 * @throws RredcotError (exit 65) where a shard is done and the record of a chunk is missing or damaged
 */
export async function* recordsInOrder({
  folder,
  description,
  shards,
  end,
}: RunState): AsyncGenerator<ChunkRecord> {
  const paths = runPaths(folder);
  for (let chunk = 0; chunk < end; chunk++) {
    const shard = shardOf(chunk, shards.length);
    const record = await readChunkRecord(folder, description, chunk);
    if (record !== undefined) yield record;
    else if (shards[shard.index]?.isDone)
      throw damagedRun(`${paths.record(shard, chunk)}: is missing or damaged`);
  }
}

/** An error that the run itself can put right. */
export function damagedRun(message: string): RredcotError {
  return dataError(message, 'the command that made the run, once more: it makes the chunk again');
}
