// A command's run: its folder found or made, its shard, what of it is done and what is still to be read.
import { rm, rmdir } from 'node:fs/promises';
import { EXIT, RredcotError } from '../errors.js';
import type { Input } from '../io/inputs.js';
import { fingerprint, openRunFolder, type RunDescription } from '../io/run-description.js';
import {
  type ChunkRecord,
  chunkDamage,
  markSuccess,
  readShard,
  removeLeftovers,
  runPaths,
  sharedFolders,
} from '../io/run-folder.js';
import { dropRun, hasRecords, hasRejects, isBegun } from '../io/run-remains.js';
import {
  chunkOf,
  isOwn,
  type Layout,
  ROWS_PER_CHUNK,
  type Shard,
  shardName,
  shardOfEnvironment,
  WHOLE,
} from '../io/shard.js';
import { are, plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { VERSION } from '../version.js';
import { usageError } from './options.js';
import type { Target } from './target.js';

/** The flags that say how a run is cut and begun. */
export interface RunOptions {
  /** undefined: the scheduler's, or the whole */
  readonly shard: Shard | undefined;
  /** undefined: {@link rowsPerChunk} */
  readonly rowsPerChunk: number | undefined;
  /** drop what an earlier run has left in the folder */
  readonly restart: boolean;
  readonly limit: number | undefined;
}

/** What a death costs at most: minutes of a policy, or half a minute where a row takes a fraction of a millisecond. */
function rowsPerChunk({ kind }: Target, hasPolicy: boolean): number {
  if (hasPolicy) return ROWS_PER_CHUNK.policy;
  // the chunks of a single file are joined in the end, which for one chunk costs nothing
  return kind === 'file' ? ROWS_PER_CHUNK.file : ROWS_PER_CHUNK.folder;
}

/** A run with the part of it that this process does. */
export interface Run {
  readonly layout: Layout;
  /** undefined where the output is a stream: nothing is kept, nothing resumed */
  readonly folder: string | undefined;
  /** the chunks that are done */
  readonly chunks: Map<number, ChunkRecord>;
  /** nothing is left to do for this shard; a single file is done when it is published, and then there is no folder */
  readonly isDone: boolean;
  /** traces and rejects of the chunks that are done */
  readonly before: { readonly traces: number; readonly rejects: number };
  /** whether an input row is this shard's and its chunk still to be made */
  wanted(ordinal: number): boolean;
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
  described: Pick<RunDescription, 'command' | 'config' | 'policy' | 'runs'>,
  opts: RunOptions,
  log: Log,
): Promise<Run> {
  const started = Date.now();
  const isStream = inputs.some(({ size }) => size === null);
  const shard = resolveShard(target, opts, isStream, log);
  const rows = opts.rowsPerChunk ?? rowsPerChunk(target, described.policy !== null);
  const layout: Layout = { shard, rowsPerChunk: rows };
  const { folder } = target;
  if (folder === undefined) return begun(layout, target, new Map(), false, false);

  const description: RunDescription = {
    format: 1,
    rredcot: VERSION,
    ...described,
    output: target.extension,
    inputs: await fingerprint(inputs),
    shards: shard.count,
    rows_per_chunk: rows,
  };
  const isDropped = opts.restart && (await dropRun(folder));
  if (isStream && (await isBegun(folder))) {
    if (target.kind === 'folder')
      throw usageError(
        `${folder}: holds a run, and a stream cannot be read again to resume it`,
        'name another folder with -o, or start anew with --restart',
      );
    await dropRun(folder);
  }
  const isResumed = await openRunFolder(folder, description, isDropped).catch(async (error: unknown) => {
    // nothing is lost with an unfinished file of which no chunk is whole, or nobody can tell whose chunks they are
    if (target.kind === 'folder' || ((await isBegun(folder)) && (await hasRecords(folder)))) throw error;
    await dropRun(folder);
    return openRunFolder(folder, description, true);
  });
  const state = await readShard(folder, shard);
  for (const record of state.chunks.values()) {
    const damage = await chunkDamage(folder, shard, record, target.extension);
    if (damage === undefined) continue;
    await rm(runPaths(folder).success, { force: true });
    log.warn('chunk_damaged', `${damage}: chunk ${record.chunk} of ${shardName(shard)} is made anew`);
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
  return begun(layout, target, state.chunks, isDone, isResumed);
}

function begun(
  layout: Layout,
  { kind, folder }: Target,
  chunks: Map<number, ChunkRecord>,
  isDone: boolean,
  isResumed: boolean,
): Run {
  const before = { traces: 0, rejects: 0 };
  for (const { traces, rejects } of chunks.values()) {
    before.traces += traces;
    before.rejects += rejects;
  }
  // what is done when the run begins; the writer adds to `chunks` while rows are still being read
  const done = new Set(chunks.keys());
  return {
    layout,
    folder,
    chunks,
    isDone,
    before,
    wanted: (ordinal) => isOwn(ordinal, layout.shard) && !done.has(chunkOf(ordinal, layout)),
    async [Symbol.asyncDispose]() {
      // another attempt may be at work in what was there before, or have made a chunk meanwhile
      if (folder === undefined || isResumed || layout.shard.count > 1 || chunks.size > 0) return;
      if (await hasRecords(folder)) return;
      // the reasons of rejects are what the user needs next; a single file's have been put beside it
      if (kind === 'folder' && (await hasRejects(folder, layout.shard))) return;
      const remove = async (): Promise<void> => {
        await dropRun(folder);
        // the folder too, where it is empty now
        if (kind === 'file') await rm(folder, { recursive: true, force: true });
        else await rmdir(folder);
      };
      await remove().catch(() => {});
    },
  };
}

/** The part of a run that a command does: what `--shard` or the scheduler says. @throws RredcotError (exit 2) */
export function resolveShard(target: Target, opts: RunOptions, isStream: boolean, log: Log): Shard {
  const scheduled = opts.shard === undefined ? shardOfEnvironment(process.env) : undefined;
  if (scheduled !== undefined && target.kind !== 'folder') {
    log.info(`${scheduled.from}, but the output is no folder: every row is taken (-o out/ splits them)`);
    return WHOLE;
  }
  const shard = opts.shard ?? scheduled?.shard ?? WHOLE;
  if (scheduled !== undefined) log.info(`${scheduled.from}: shard ${shard.index}/${shard.count}`);
  if (shard.count === 1) return shard;
  if (target.kind === 'file')
    throw usageError(
      `--shard ${shard.index}/${shard.count}: ${target.path} is one file, expected a folder that the shards share`,
      '-o out/',
    );
  if (isStream) throw usageError('a shard needs files, stdin can be read only once', 'name the input files');
  if (opts.limit !== undefined)
    throw usageError(
      '--limit counts traces from the first, so it cannot be split into shards',
      'leave out --limit',
    );
  return shard;
}

/** What an interrupted run tells its user. */
export function interruption({ folder, chunks, layout }: Run): RredcotError {
  const message =
    folder === undefined
      ? 'interrupted'
      : chunks.size === 0
        ? 'interrupted before the first chunk was whole, nothing was kept'
        : `interrupted: ${plural(chunks.size, 'chunk')} of ${plural(layout.rowsPerChunk, 'row')} ${are(chunks.size)} kept in ${folder}`;
  return new RredcotError(message, {
    exitCode: EXIT.interrupted,
    ...(chunks.size > 0 ? { hint: 'the same command again, which goes on from there' } : {}),
  });
}
