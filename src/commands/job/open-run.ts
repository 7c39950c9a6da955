// A command's run in: its folder found or made, its shard, what of it is done and what is still to be read.
import { randomBytes } from 'node:crypto';
import { rm, rmdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { EXIT, RredcotError, usageError } from '../../errors.js';
import {
  chunkCount,
  chunkOf,
  defaultRowsPerChunk,
  MAX_CHUNKS,
  MAX_ROW_GROUPS,
  type Shard,
  shardName,
  shardOf,
} from '../../io/files/chunks.js';
import { readJson, writeJson } from '../../io/files/json-file.js';
import { hiddenFolder, runPaths } from '../../io/files/run-paths.js';
import { statIfThere } from '../../io/files/stat-if-there.js';
import type { Input } from '../../io/read/inputs.js';
import { findRun } from '../../io/run/begin.js';
import { assertSameRun, claimRun } from '../../io/run/claim.js';
import { type AskedRun, askedIdentity, type RunDescription } from '../../io/run/description.js';
import { fingerprint } from '../../io/run/fingerprint.js';
import { hiddenFolders, isWorthKeeping, removeHidden } from '../../io/run/hidden.js';
import {
  type CanaryRecord,
  type ChunkRecord,
  chunkDamage,
  hasRecords,
  holdsTraces,
  readShard,
  sumCounts,
} from '../../io/run/records.js';
import { dropRun, hasHalfWritten, hasRejects, removeLeftovers, sharedFolders } from '../../io/run/remove.js';
import { markSuccess } from '../../io/run/success.js';
import { are, plural } from '../../plural.js';
import type { WatchedPolicy } from '../../policy/unchanged.js';
import type { Log } from '../../report/log.js';
import { isWorker } from '../../report/worker-log.js';
import { VERSION } from '../../version.js';
import { resolveShard } from './shard.js';
import { assertFree, assertSame, OUTPUT_VARIABLE, refuseOther, refuseStream, standing } from './standing.js';
import { readSurvey, type Survey, writeSurvey } from './survey.js';
import type { Target } from './target.js';

/** The flags that say how a run is cut and begun. */
export interface RunOptions {
  /** undefined: the scheduler's, or the whole */
  readonly shard: Shard | undefined;
  /** undefined: by the number of rows */
  readonly rowsPerChunk: number | undefined;
  /** put the output in the place of another run's, and drop what that has left */
  readonly overwrite: boolean;
  readonly limit: number | undefined;
  readonly signal: AbortSignal;
}

/** What decides the bytes of a run, beside its inputs and how it is cut. */
export interface Described
  extends Pick<RunDescription, 'command' | 'config' | 'policy' | 'vocab' | 'passes'> {
  /** the policy's, which have to stay what they are */
  readonly files: WatchedPolicy | undefined;
}

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
  /** another run's output is replaced, and what others have left of it goes */
  readonly replaces: boolean;
  /** what `run.json` says of it; undefined where there is no folder */
  readonly description: RunDescription | undefined;
  /** the chunks that are done */
  readonly chunks: Map<number, ChunkRecord>;
  /** what the canaries of this process's sessions have shown, as they are opened: for the records of its chunks */
  readonly proofs: CanaryRecord[];
  /** nothing is left to do for this shard; a single file is done when it is published, and then there is no folder */
  readonly isDone: boolean;
  /** traces and rejects of the chunks that are done */
  readonly before: { readonly traces: number; readonly rejects: number };
  /** whether an input row is this shard's and its chunk still to be made */
  wanted(ordinal: number): boolean;
  /** @throws RredcotError (exit 75) where the folder has become another run's, ENOENT where it is gone */
  assertOurs(): Promise<void>;
  /** Asked before the file gets its name. @throws RredcotError (exit 2) where another run's stands there now */
  assertFree(): Promise<void>;
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
  { files, ...described }: Described,
  opts: RunOptions,
  surveyor: Surveyor,
  log: Log,
): Promise<Run> {
  const started = Date.now();
  const isStream = inputs.some(({ size }) => size === null);
  const shard = resolveShard(target, opts, isStream, log);
  const survey = (): Promise<Survey | undefined> => (isStream ? Promise.resolve(undefined) : surveyor.make());
  const rowsPerChunk = (found: Survey | undefined): number =>
    opts.rowsPerChunk ?? defaultRowsPerChunk(found?.rows, described.policy !== null);
  if (target.kind === 'stdout') {
    await files?.assertSince(null);
    const found = surveyor.isNeeded ? await survey() : undefined;
    const cut = { shard, rowsPerChunk: rowsPerChunk(found), survey: found };
    return begun(target, cut, new Map(), undefined, opts);
  }

  const asked: AskedRun = {
    rredcot: VERSION,
    ...described,
    output: target.format,
    inputs: await fingerprint(inputs),
    shards: shard.count,
    rows_per_chunk: opts.rowsPerChunk,
  };
  // workers make the parts of a file in its folder, and their parent knows its name
  const output = target.kind === 'file' ? target.path : isWorker() ? process.env[OUTPUT_VARIABLE] : undefined;
  const stands = output !== undefined && !opts.overwrite ? await standing(output) : undefined;
  if (stands !== undefined) refuseOther(stands, asked);
  if (stands !== undefined && isStream) refuseStream(stands);
  const own =
    target.kind === 'folder'
      ? target.path
      : hiddenFolder(target.path, isStream ? randomBytes(8).toString('hex') : askedIdentity(asked));
  const left = output === undefined || opts.overwrite || isStream ? own : await leftBy(output, own, asked);
  const folder = target.kind === 'folder' ? own : left;
  const isNew = (await statIfThere(folder)) === null;
  let made: Survey | undefined;
  const { description, isOurs } = await claimRun(folder, asked, {
    isHidden: target.kind === 'file',
    overwrite: opts.overwrite,
    isStream,
    async describe() {
      made = await survey();
      const rows = rowsPerChunk(made);
      refuseManyChunks(target, Math.min(made?.rows ?? 0, opts.limit ?? Number.POSITIVE_INFINITY), rows);
      await files?.assertSince(null);
      return { run: { ...asked, rows_per_chunk: rows }, stamps: files?.stamps ?? null };
    },
  });
  const place = { folder, description, isOurs, isNew };
  const cut = { shard, rowsPerChunk: description.rows_per_chunk, survey: made };
  const empty = begun(target, cut, new Map(), place, opts);
  try {
    if (!isOurs) await files?.assertSince(description.policy_files);
    // JSON lines that have no hash yet are put to their end
    if (stands !== undefined && (await assertSame(stands, description.run, asked.inputs))) {
      if (target.kind === 'file') await removeHidden(folder);
      return { ...empty, isDone: true, before: stands.counts };
    }
    const run = await resumed(target, cut, place, started, opts, log);
    if (run.isDone || isStream) return run;
    // the survey of a run is made by its first process, and read by those that resume it or do its other shards
    const path = runPaths(folder).survey;
    const known = isOurs ? undefined : (made ?? (await readSurvey(path, description.run)));
    const found = known ?? made ?? (await surveyor.make());
    if (known === undefined) await writeSurvey(path, found, description.run);
    return { ...run, survey: found };
  } catch (error) {
    await empty[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * The folder in which an earlier attempt has done a part of the run: its own, or one of the same run by other words.
 * @throws RredcotError (exit 2) where there is none, and another run could be gone on with: naming the field that differs
 */
async function leftBy(output: string, own: string, asked: AskedRun): Promise<string> {
  if (await isWorthKeeping(own)) return own;
  let other: unknown;
  for (const folder of await hiddenFolders(output)) {
    if (resolve(folder) === resolve(own) || !(await isWorthKeeping(folder))) continue;
    try {
      if ((await findRun(folder, asked, true)) !== undefined) return folder;
    } catch (error) {
      other ??= error;
    }
  }
  if (other !== undefined) throw other;
  return own;
}

/** What could not be joined in the end, or is no folder that a file system likes. @throws RredcotError (exit 2) */
function refuseManyChunks({ kind, format, path }: Target, rows: number, rowsPerChunk: number): void {
  const chunks = chunkCount(rows, rowsPerChunk);
  if (chunks > MAX_CHUNKS)
    throw usageError(
      `${path}: ${rows} rows make ${chunks} chunks, and a run has at most ${MAX_CHUNKS}`,
      'a larger --rows-per-chunk',
    );
  if (kind !== 'file' || format !== 'parquet' || chunks <= MAX_ROW_GROUPS) return;
  throw usageError(
    `${path}: ${rows} rows make ${chunks} chunks, and a Parquet file has at most ${MAX_ROW_GROUPS} row groups`,
    '-o out/, then rredcot merge out/ -o all/; or a larger --rows-per-chunk',
  );
}

type Cut = Pick<Run, 'shard' | 'rowsPerChunk' | 'survey'>;

/** A run's folder as this process has found it. */
interface Place {
  readonly folder: string;
  readonly description: RunDescription;
  /** whether this process has begun the run */
  readonly isOurs: boolean;
  /** whether the folder was not there before */
  readonly isNew: boolean;
}

/** Looks at what the shard's earlier attempts have done. */
async function resumed(
  target: Target,
  cut: Cut,
  place: Place,
  started: number,
  opts: RunOptions,
  log: Log,
): Promise<Run> {
  const { shard } = cut;
  const { folder, description, isOurs } = place;
  const paths = runPaths(folder);
  const strangers: string[] = [];
  const state = await readShard(folder, description, shard, ({ path }) => void strangers.push(path));
  for (const path of strangers) {
    log.warn('record_foreign', `${path} is of another run: what it tells of is made again`);
    await rm(paths.success, { force: true });
    await rm(path, { force: true });
  }
  for (const record of state.done === undefined ? [] : state.chunks.values()) {
    const path = paths.record(shard, record.chunk);
    if (!isDeepStrictEqual(await readJson(path), record)) await writeJson(path, record);
  }
  for (const record of state.chunks.values()) {
    const damage = await chunkDamage(folder, shard, record, target.format);
    if (damage === undefined) continue;
    await rm(paths.success, { force: true });
    log.warn('chunk_damaged', `${damage}: chunk ${record.chunk} of ${shardName(shard)} is made again`);
    state.chunks.delete(record.chunk);
    await rm(paths.done(shard), { force: true });
    await rm(paths.record(shard, record.chunk), { force: true });
  }
  const isWhole = state.done !== undefined && state.done.chunks.length === state.chunks.size;
  const isDone = isWhole && target.kind === 'folder';
  if (isDone) {
    await markSuccess(folder, description);
    await removeLeftovers(sharedFolders(folder), started);
  }
  if (!isOurs && !isWhole && state.chunks.size > 0)
    log.info(`resuming: ${plural(state.chunks.size, 'chunk')} ${are(state.chunks.size)} done, in ${folder}`);
  return { ...begun(target, cut, state.chunks, place, opts), isDone };
}

function begun(
  { kind, path }: Target,
  cut: Cut,
  chunks: Map<number, ChunkRecord>,
  place: Place | undefined,
  { signal, overwrite }: RunOptions,
): Run {
  // what is done when the run begins; the writer adds to `chunks` while rows are still being read
  const done = new Set(chunks.keys());
  const { folder, description } = place ?? {};
  const assertOurs = async (): Promise<void> => {
    if (folder !== undefined && description !== undefined) await assertSameRun(folder, description);
  };
  /** Leaves nothing of a run in which nothing is whole, unless another attempt writes there. */
  async function clean({ folder, isOurs, isNew }: Place): Promise<void> {
    if (cut.shard.count > 1) return;
    // rejects are soon found again, and a run of nothing else would stand in the way of the mended command
    if (signal.aborted) {
      if ((await holdsTraces(folder)) || (await statIfThere(runPaths(folder).success)) !== null) return;
    } else {
      // another attempt may have made a chunk
      if (!isOurs || chunks.size > 0 || (await hasRecords(folder))) return;
      // the reasons of rejects are what the user needs next; a single file's have been put beside it
      if (kind === 'folder' && (await hasRejects(folder, cut.shard))) return;
    }
    await assertOurs();
    if (await hasHalfWritten(folder)) return;
    if (kind === 'file') return removeHidden(folder);
    await dropRun(folder);
    if (isNew) await rmdir(folder);
  }
  return {
    ...cut,
    folder,
    description,
    chunks,
    proofs: [],
    isDone: false,
    replaces: overwrite,
    before: sumCounts(chunks.values()),
    assertOurs,
    async assertFree() {
      if (kind === 'file' && description !== undefined && !overwrite) await assertFree(path, description.run);
    },
    wanted(ordinal) {
      const chunk = chunkOf(ordinal, cut.rowsPerChunk);
      return shardOf(chunk, cut.shard.count).index === cut.shard.index && !done.has(chunk);
    },
    async [Symbol.asyncDispose]() {
      if (place !== undefined) await clean(place).catch(() => {});
    },
  };
}

/** What an interrupted run tells its user. */
export function interruption({ folder, chunks, rowsPerChunk, shard }: Run): RredcotError {
  const hasNoTraces = chunks.size > 0 && sumCounts(chunks.values()).traces === 0 && shard.count === 1;
  const message =
    folder === undefined
      ? 'interrupted'
      : chunks.size === 0 || hasNoTraces
        ? `interrupted before the first ${hasNoTraces ? 'trace that is no reject' : 'chunk was whole'}, nothing was kept`
        : `interrupted: ${plural(chunks.size, 'chunk')} of ${plural(rowsPerChunk, 'row')} ${are(chunks.size)} kept in ${folder}`;
  return new RredcotError(message, {
    exitCode: EXIT.interrupted,
    ...(chunks.size > 0 && !hasNoTraces ? { hint: 'the same command again, which goes on from there' } : {}),
  });
}
