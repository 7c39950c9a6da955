// A command's run in: its folder found or made, its shard, what of it is done and what is still to be read.
import { readFile, rm, rmdir } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { readJson, writeJson } from '../../io/files/json-file.js';
import {
  chunkCount,
  chunkOf,
  defaultRowsPerChunk,
  MAX_ROW_GROUPS,
  type Shard,
  shardName,
  shardOf,
} from '../../io/layout/chunks.js';
import { runPaths } from '../../io/layout/run-paths.js';
import type { Input } from '../../io/read/inputs.js';
import {
  type AskedRun,
  createRun,
  findRun,
  fingerprint,
  type RunDescription,
} from '../../io/run/description.js';
import {
  type ChunkRecord,
  chunkDamage,
  dropRun,
  hasRecords,
  hasRejects,
  isBegun,
  markSuccess,
  readShard,
  removeLeftovers,
  removeRun,
  sharedFolders,
  sumCounts,
} from '../../io/run/folder.js';
import { are, plural } from '../../plural.js';
import type { Log } from '../../report/log.js';
import { VERSION } from '../../version.js';
import { resolveShard } from './shard.js';
import { readSurvey, type Survey, writeSurvey } from './survey.js';
import type { Target } from './target.js';

/** The flags that say how a run is cut and begun. */
export interface RunOptions {
  /** undefined: the scheduler's, or the whole */
  readonly shard: Shard | undefined;
  /** undefined: by the number of rows */
  readonly rowsPerChunk: number | undefined;
  /** drop what an earlier run has left in the folder */
  readonly restart: boolean;
  readonly limit: number | undefined;
}

/** What decides the bytes of a run, beside its inputs and how it is cut. */
export type Described = Pick<RunDescription, 'command' | 'config' | 'policy' | 'passes'>;

/** The first light pass over the inputs. */
export interface Surveyor {
  /** whether the job needs it even where nothing is kept */
  readonly isNeeded: boolean;
  make(): Promise<Survey>;
}

/** A run with the part of it that this process does. */
export interface Run {
  readonly shard: Shard;
  readonly rowsPerChunk: number;
  /** undefined where the output is a stream: nothing is kept, nothing resumed */
  readonly folder: string | undefined;
  /** what the inputs hold; undefined for streams, and where nobody needs it */
  readonly survey: Survey | undefined;
  /** the chunks that are done */
  readonly chunks: Map<number, ChunkRecord>;
  /** nothing is left to do for this shard; a single file is done when it is published, and then there is no folder */
  readonly isDone: boolean;
  /** traces and rejects of the chunks that are done */
  readonly before: { readonly traces: number; readonly rejects: number };
  /** whether an input row is this shard's and its chunk still to be made */
  wanted(ordinal: number): boolean;
  /** @throws RredcotError (exit 75) where the folder has become another run's, ENOENT where it is gone */
  assertOurs(): Promise<void>;
  /** Leaves no folder behind in which nothing is whole, unless other shards may be at work in it. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Finds or makes the run's folder.
 * @throws RredcotError (exit 2) where the folder holds another run, naming the field that differs
 */
export async function openRun(
  target: Target,
  inputs: readonly Input[],
  described: Described,
  opts: RunOptions,
  surveyor: Surveyor,
  log: Log,
): Promise<Run> {
  const started = Date.now();
  const isStream = inputs.some(({ size }) => size === null);
  const shard = resolveShard(target, opts, isStream, log);
  const { folder } = target;
  const survey = (): Promise<Survey | undefined> => (isStream ? Promise.resolve(undefined) : surveyor.make());
  const rowsPerChunk = (found: Survey | undefined): number =>
    opts.rowsPerChunk ?? defaultRowsPerChunk(found?.rows, described.policy !== null);
  if (folder === undefined) {
    const found = surveyor.isNeeded ? await survey() : undefined;
    const cut = { shard, rowsPerChunk: rowsPerChunk(found), survey: found };
    return begun(target, cut, new Map(), false, false, async () => {});
  }

  const asked: AskedRun = {
    format: 2,
    rredcot: VERSION,
    ...described,
    output: target.format,
    inputs: await fingerprint(inputs),
    shards: shard.count,
    rows_per_chunk: opts.rowsPerChunk,
  };
  let isDropped = opts.restart && (await dropRun(folder));
  const streamTaken = () =>
    usageError(
      `${folder}: holds a run, and a stream cannot be read again to resume it`,
      'name another output with -o, or start again with --restart',
    );
  if (isStream && (await isBegun(folder))) {
    if (target.kind === 'folder') throw streamTaken();
    isDropped = await dropRun(folder);
  }
  const found = await findRun(folder, asked, isDropped).catch(async (error: unknown) => {
    // nothing is lost with an unfinished file of which no chunk is whole, or nobody can tell whose chunks they are
    if (target.kind === 'folder' || ((await isBegun(folder)) && (await hasRecords(folder)))) throw error;
    // what lies there without a run.json is nobody's
    await removeRun(folder);
    return undefined;
  });
  if (found === undefined) {
    const made = await survey();
    const cut = { shard, rowsPerChunk: rowsPerChunk(made), survey: made };
    const most = Math.min(made?.rows ?? 0, opts.limit ?? Number.POSITIVE_INFINITY);
    refuseManyRowGroups(target, most, cut.rowsPerChunk);
    const description = { ...asked, rows_per_chunk: cut.rowsPerChunk };
    // another process may have been faster
    const isOurs = await createRun(folder, description);
    if (!isOurs && isStream) throw streamTaken();
    if (!isOurs) await findRun(folder, description);
    if (isOurs && made !== undefined) await writeSurvey(runPaths(folder).survey, made);
    return resumed(target, cut, started, !isOurs, log);
  }
  if (isStream) throw streamTaken();
  const cut = { shard, rowsPerChunk: found.rows_per_chunk, survey: undefined };
  const run = await resumed(target, cut, started, true, log);
  if (run.isDone) return run;
  // the survey of a run is made by its first process, and read by those that resume it or do its other shards
  const known = await readSurvey(runPaths(folder).survey);
  if (known !== undefined) return { ...run, survey: known };
  const made = await surveyor.make();
  await writeSurvey(runPaths(folder).survey, made);
  return { ...run, survey: made };
}

/** What could not be joined in the end. @throws RredcotError (exit 2) */
function refuseManyRowGroups({ kind, format, path }: Target, rows: number, rowsPerChunk: number): void {
  const chunks = chunkCount(rows, rowsPerChunk);
  if (kind !== 'file' || format !== 'parquet' || chunks <= MAX_ROW_GROUPS) return;
  throw usageError(
    `${path}: ${rows} rows make ${chunks} chunks, and a Parquet file has at most ${MAX_ROW_GROUPS} row groups`,
    '-o out/, then rredcot merge out/ -o all/; or a larger --rows-per-chunk',
  );
}

type Cut = Pick<Run, 'shard' | 'rowsPerChunk' | 'survey'>;

/** Looks at what the shard's earlier attempts have done. */
async function resumed(
  target: Target,
  cut: Cut,
  started: number,
  isResumed: boolean,
  log: Log,
): Promise<Run> {
  const { shard } = cut;
  const folder = target.folder as string;
  const description = await readFile(runPaths(folder).run, 'utf8');
  const state = await readShard(folder, shard);
  for (const record of state.done === undefined ? [] : state.chunks.values()) {
    const path = runPaths(folder).record(shard, record.chunk);
    if (!isDeepStrictEqual(await readJson(path), record)) await writeJson(path, record);
  }
  for (const record of state.chunks.values()) {
    const damage = await chunkDamage(folder, shard, record, target.format);
    if (damage === undefined) continue;
    await rm(runPaths(folder).success, { force: true });
    log.warn('chunk_damaged', `${damage}: chunk ${record.chunk} of ${shardName(shard)} is made again`);
    state.chunks.delete(record.chunk);
    await rm(runPaths(folder).done(shard), { force: true });
    await rm(runPaths(folder).record(shard, record.chunk), { force: true });
  }
  const isWhole = state.done !== undefined && state.done.chunks.length === state.chunks.size;
  const isDone = isWhole && target.kind === 'folder';
  if (isDone) {
    await markSuccess(folder, shard.count);
    await removeLeftovers(sharedFolders(folder), started);
  }
  if (isResumed && !isWhole && state.chunks.size > 0)
    log.info(`resuming: ${plural(state.chunks.size, 'chunk')} ${are(state.chunks.size)} done, in ${folder}`);
  return begun(target, cut, state.chunks, isDone, isResumed, async () => {
    if ((await readFile(runPaths(folder).run, 'utf8')) === description) return;
    throw new RredcotError(`${folder}: has become another run, of a command with other flags or inputs`, {
      exitCode: EXIT.interrupted,
      hint: 'name another output with -o',
    });
  });
}

function begun(
  { kind, folder }: Target,
  cut: Cut,
  chunks: Map<number, ChunkRecord>,
  isDone: boolean,
  isResumed: boolean,
  assertOurs: Run['assertOurs'],
): Run {
  // what is done when the run begins; the writer adds to `chunks` while rows are still being read
  const done = new Set(chunks.keys());
  return {
    ...cut,
    folder,
    chunks,
    isDone,
    before: sumCounts(chunks.values()),
    assertOurs,
    wanted(ordinal) {
      const chunk = chunkOf(ordinal, cut.rowsPerChunk);
      return shardOf(chunk, cut.shard.count).index === cut.shard.index && !done.has(chunk);
    },
    async [Symbol.asyncDispose]() {
      // another attempt may be at work in what was there before, or have made a chunk meanwhile
      if (folder === undefined || isResumed || cut.shard.count > 1 || chunks.size > 0) return;
      if (await hasRecords(folder)) return;
      // the reasons of rejects are what the user needs next; a single file's have been put beside it
      if (kind === 'folder' && (await hasRejects(folder, cut.shard))) return;
      const remove = async (): Promise<void> => {
        await assertOurs();
        await dropRun(folder);
        // the folder too, where it is empty now
        if (kind === 'file') await rm(folder, { recursive: true, force: true });
        else await rmdir(folder);
      };
      await remove().catch(() => {});
    },
  };
}

/** What an interrupted run tells its user. */
export function interruption({ folder, chunks, rowsPerChunk }: Run): RredcotError {
  const message =
    folder === undefined
      ? 'interrupted'
      : chunks.size === 0
        ? 'interrupted before the first chunk was whole, nothing was kept'
        : `interrupted: ${plural(chunks.size, 'chunk')} of ${plural(rowsPerChunk, 'row')} ${are(chunks.size)} kept in ${folder}`;
  return new RredcotError(message, {
    exitCode: EXIT.interrupted,
    ...(chunks.size > 0 ? { hint: 'the same command again, which goes on from there' } : {}),
  });
}
