// A command's run in: its folder found or made, its shard, what of it is done and what is still to be read.
import { randomBytes } from 'node:crypto';
import { rm, rmdir } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { EXIT, RredcotError } from '../errors.js';
import { chunkOf, defaultRowsPerChunk, type Shard, shardName, shardOf } from '../io/files/chunks.js';
import { statIfThere } from '../io/files/file-error.js';
import { readJson, writeJson } from '../io/files/json-file.js';
import { hiddenFolder, runPaths } from '../io/files/run-paths.js';
import type { Input } from '../io/read/inputs.js';
import { fingerprint } from '../io/read/unchanged.js';
import type { WatchedPolicy } from '../model/onnx/unchanged-policy.js';
import { VERSION } from '../package-files.js';
import { are, plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { isWorker } from '../report/worker-log.js';
import { assertSameRun, claimRun, leftBy } from './begin.js';
import { type AskedRun, askedIdentity, type RunDescription } from './description.js';
import type { RunOptions } from './options.js';
import {
  type CanaryRecord,
  type ChunkRecord,
  type Counts,
  chunkDamage,
  hasRecords,
  holdsTraces,
  readShard,
  sumCounts,
} from './records.js';
import { dropRun, halfWritten, hasHalfWritten, hasRejects, removeHidden, removeLeftovers } from './remove.js';
import { refuseManyChunks, resolveShard, sharedOut } from './shard.js';
import { assertFree, assertSame, refuseOther, standing, standsInTheWay } from './standing.js';
import { markSuccess } from './success.js';
import { readSurvey, type Survey, writeSurvey } from './survey.js';
import type { Target } from './target.js';

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

/** How a run is cut, and what its inputs hold. */
interface Cut {
  /** what this command does of it */
  readonly shard: Shard;
  /** as which its chunks lie in the folder: one, or one of each worker */
  readonly shards: readonly Shard[];
  readonly rowsPerChunk: number;
  /** undefined for streams, and where nobody needs it */
  readonly survey: Survey | undefined;
}

/** A run's folder as this process has found it. */
interface RunPlace {
  readonly folder: string;
  readonly description: RunDescription;
  /** whether this process has begun the run */
  readonly isOurs: boolean;
  /** whether the folder was not there before */
  readonly isNew: boolean;
}

/**
 * A run with the part of it that this command does. Its end leaves no folder behind in which nothing is whole, unless other shards may
 * be at work in it.
 */
export class Run implements AsyncDisposable {
  readonly shard: Shard;
  readonly shards: readonly Shard[];
  readonly rowsPerChunk: number;
  survey: Survey | undefined;
  /** nothing is left to do for this shard; a single file is done when it is published, and then there is no folder */
  isDone = false;
  /** chunks that are done; those that are made meanwhile are added */
  readonly chunks = new Map<number, ChunkRecord>();
  /** what the chunks hold that were done when the run began */
  before: Pick<Counts, 'traces' | 'rejects' | 'tokens'> = sumCounts([]);
  /** what killed attempts have left half written */
  leftovers: readonly string[] = [];
  /** what the canaries of this process's sessions have shown, as they are opened: for the records of its chunks */
  readonly proofs: CanaryRecord[] = [];
  private done: ReadonlySet<number> = new Set();

  /** @param place undefined where the output is a stream: nothing is kept, nothing resumed */
  constructor(
    private readonly target: Target,
    { shard, shards, rowsPerChunk, survey }: Cut,
    private readonly place: RunPlace | undefined,
    private readonly opts: Pick<RunOptions, 'signal' | 'overwrite'>,
  ) {
    [this.shard, this.shards, this.rowsPerChunk, this.survey] = [shard, shards, rowsPerChunk, survey];
  }

  /** Goes on from the chunks that earlier attempts have done. */
  resume(chunks: ReadonlyMap<number, ChunkRecord>): void {
    for (const [chunk, record] of chunks) this.chunks.set(chunk, record);
    this.done = new Set(chunks.keys());
    this.before = sumCounts(chunks.values());
  }

  get folder(): string | undefined {
    return this.place?.folder;
  }

  /** What `run.json` says of it. */
  get description(): RunDescription | undefined {
    return this.place?.description;
  }

  /** Whether an input row is this shard's and its chunk still to be made. */
  readonly wanted = (ordinal: number): boolean => {
    const chunk = chunkOf(ordinal, this.rowsPerChunk);
    return shardOf(chunk, this.shard.count).index === this.shard.index && !this.done.has(chunk);
  };

  /** Reads from the records which chunks are done by now. */
  async reread(): Promise<void> {
    if (this.place === undefined) return;
    this.chunks.clear();
    for (const [chunk, record] of await recorded(this.place, this.shards)) this.chunks.set(chunk, record);
  }

  /** @throws RredcotError (exit 75) where the folder has become another run's, ENOENT where it is gone */
  async assertOurs(): Promise<void> {
    if (this.place !== undefined) await assertSameRun(this.place.folder, this.place.description);
  }

  /** Asked before the file gets its name. @throws RredcotError (exit 2) where another run's stands there now */
  async assertFree(): Promise<void> {
    const { kind, path } = this.target;
    if (kind === 'file' && this.place !== undefined && !this.opts.overwrite)
      await assertFree(path, this.place.description.run);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.place !== undefined) await this.clean(this.place).catch(() => {});
  }

  /** Leaves nothing of a run in which nothing is whole, unless another attempt writes there. */
  private async clean({ folder, isOurs, isNew }: RunPlace): Promise<void> {
    const { kind } = this.target;
    if (this.shard.count > 1) return;
    // rejects are soon found again, and a run of nothing else would stand in the way of the mended command
    if (this.opts.signal.aborted) {
      if ((await holdsTraces(folder)) || (await statIfThere(runPaths(folder).success)) !== null) return;
    } else {
      // another attempt may have made a chunk
      if (!isOurs || this.chunks.size > 0 || (await hasRecords(folder))) return;
      // the reasons of rejects are what the user needs next; a single file's have been put beside it
      for (const shard of this.shards) if (kind === 'folder' && (await hasRejects(folder, shard))) return;
    }
    await this.assertOurs();
    if (await hasHalfWritten(folder)) return;
    if (kind === 'file') return removeHidden(folder);
    await dropRun(folder);
    if (isNew) await rmdir(folder);
  }
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
  const isStream = inputs.some(({ size }) => size === null);
  const shard = resolveShard(target, opts, isStream, log);
  const shards = sharedOut(shard, opts.workers?.devices.length ?? 1);
  const survey = (): Promise<Survey | undefined> => (isStream ? Promise.resolve(undefined) : surveyor.make());
  const rowsPerChunk = (found: Survey | undefined): number =>
    opts.rowsPerChunk ?? defaultRowsPerChunk(found?.rows, described.policy !== null, found?.rowBytes);
  if (target.kind === 'stdout') {
    await files?.assertSince(null);
    const found = surveyor.isNeeded ? await survey() : undefined;
    const cut = { shard, shards, rowsPerChunk: rowsPerChunk(found), survey: found };
    return new Run(target, cut, undefined, opts);
  }

  const asked: AskedRun = {
    rredcot: VERSION,
    ...described,
    output: target.format,
    inputs: await fingerprint(inputs),
    shards: shard.count * shards.length,
    rows_per_chunk: opts.rowsPerChunk,
  };
  const output = target.kind === 'file' && !opts.overwrite ? target.path : undefined;
  const stands = output === undefined ? undefined : await standing(output);
  if (stands !== undefined) refuseOther(stands, asked);
  if (stands !== undefined && isStream)
    throw standsInTheWay(
      stands,
      'is there already, and whether a stream is what it was made of cannot be known',
    );
  const own =
    target.kind === 'folder'
      ? target.path
      : hiddenFolder(target.path, isStream ? randomBytes(8).toString('hex') : askedIdentity(asked));
  const folder = output === undefined || isStream ? own : await leftBy(output, own, asked);
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
  const cut = { shard, shards, rowsPerChunk: description.rows_per_chunk, survey: made };
  const run = new Run(target, cut, place, opts);
  try {
    if (!isOurs) await files?.assertSince(description.policy_files);
    // JSON lines that have no hash yet are put to their end
    if (stands !== undefined && (await assertSame(stands, description.run, asked.inputs))) {
      await removeHidden(folder);
      run.isDone = true;
      run.before = { ...stands.counts, tokens: 0 };
      return run;
    }
    if (opts.workers === undefined) await resume(run, place, target, log);
    else run.resume(await recorded(place, shards));
    if (!isOurs && !isWorker() && !run.isDone && run.chunks.size > 0)
      log.info(`resuming: ${plural(run.chunks.size, 'chunk')} ${are(run.chunks.size)} done, in ${folder}`);
    if (run.isDone || isStream) return run;
    // the survey of a run is made by its first process, and read by those that resume it or do its other shards
    const path = runPaths(folder).survey;
    const known = isOurs ? undefined : (made ?? (await readSurvey(path, description.run)));
    run.survey = known ?? made ?? (await surveyor.make());
    if (known === undefined) await writeSurvey(path, run.survey, description.run);
    return run;
  } catch (error) {
    await run[Symbol.asyncDispose]();
    throw error;
  }
}

/** The chunks that are done by the records; whether they are what these say is looked at by whoever does the shard. */
async function recorded(
  { folder, description }: Pick<RunPlace, 'folder' | 'description'>,
  shards: readonly Shard[],
): Promise<Map<number, ChunkRecord>> {
  const found = await Promise.all(shards.map((shard) => readShard(folder, description, shard, () => {})));
  return new Map(found.flatMap(({ chunks }) => [...chunks]));
}

/** Looks at what the shard's earlier attempts have done, and puts aside what is not as it was written. */
async function resume(run: Run, { folder, description }: RunPlace, target: Target, log: Log): Promise<void> {
  const { shard } = run;
  const paths = runPaths(folder);
  const leftovers = await halfWritten(folder, shard);
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
  run.resume(state.chunks);
  run.leftovers = leftovers;
  run.isDone = isWhole && target.kind === 'folder';
  if (run.isDone) {
    await markSuccess(folder, description);
    await removeLeftovers(leftovers);
  }
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
