// Where a job's rows end: on stdout, in one file that is written in one go, or in parts, of a folder or of a file; and what is left where it fails.

import { rmdir } from 'node:fs/promises';
import { interruptedError, type RredcotError, throwIfInterrupted, usageError } from '../errors.js';
import { outputColumns } from '../io/arrow/output-columns.js';
import { openAtomicFile } from '../io/files/atomic-file.js';
import { fileBytes, isStored, statIfThere } from '../io/files/files.js';
import { filePaths, hiddenFolder, MAX_PARTS, type Shard } from '../io/files/run-folder.js';
import { openStreamSink, ReaderClosedError } from '../io/files/stdout.js';
import { type Counts, PART_KEY, type Part, sumCounts } from '../io/write/facts.js';
import { type OutputTarget, openOutput, openRejects } from '../io/write/output.js';
import type { Target } from '../io/write/target.js';
import { are, plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { checkRejects, type RejectLimits, RejectsError } from '../report/reject-limits.js';
import type { RunStats } from '../report/run-stats.js';
import { type BadRow, isBad } from '../rows.js';
import type { OutputRow } from '../scored.js';
import {
  assertOurs,
  type ClaimOptions,
  claimRun,
  dropHidden,
  dropParts,
  existingParts,
  isBusy,
  isLost,
  rejectFiles,
  sweepHidden,
  TakenError,
} from './folder.js';
import type { Run } from './identity.js';
import { openParts, type PartsOptions, type Sink } from './parts.js';
import { joinParts, lookAtOutput, madeAlready } from './single-file.js';

/** Where a run's rows go. */
export interface RunPlace extends RejectLimits {
  readonly target: Target;
  readonly run: Run;
  readonly begun: BegunRun;
  readonly log: Log;
}

/** A run as this process has found it. */
export interface BegunRun {
  /** the output, which stands already */
  readonly made?: Pick<Counts, 'traces' | 'rejects'>;
  /** undefined on stdout, where nothing is kept */
  readonly folder?: string;
  readonly parts?: Pick<PartsOptions, 'existing' | 'todo'>;
}

/** Claims the output, and looks at what of the run is there. @throws RredcotError (exit 2) where it is another run's */
export async function beginRun(
  target: Target,
  run: Run,
  shard: Shard,
  { overwrite, isStream, log }: Pick<ClaimOptions, 'overwrite' | 'isStream'> & Pick<RunPlace, 'log'>,
): Promise<BegunRun> {
  const { kind, path } = target;
  if (kind === 'stdout') return {};
  if (isStream && kind === 'folder')
    throw usageError(
      `${path}: is a folder, and a stream is not cut into parts: it can be read only once`,
      '-o <file>, or name the input files',
    );
  if (run.parts > MAX_PARTS)
    throw usageError(
      `${path}: the rows make ${run.parts} parts, and a run has at most ${MAX_PARTS}`,
      'a larger --rows-per-part',
    );
  const made = kind === 'file' ? await lookAtOutput(target, run, overwrite) : undefined;
  if (made !== undefined && isStream)
    throw usageError(
      `${path}: is there already, and whether a stream is what it was made of cannot be known`,
      '--overwrite puts the new one in its place; or name another output with -o',
    );
  const folder = kind === 'folder' ? path : hiddenFolder(path);
  if (made !== undefined) {
    await sweepHidden(folder, run);
    return { made: made.counts ?? { traces: 0, rejects: 0 } };
  }
  await claimRun(folder, run, { isHidden: kind === 'file', overwrite, isStream });
  const existing = await existingParts(folder, run, shard, log);
  const all = Array.from({ length: run.parts }, (_, part) => part);
  const todo = new Set(all.filter((part) => part % shard.count === shard.index && !existing.has(part)));
  const n = existing.size;
  if (n > 0 && todo.size > 0) log.info(`resuming: ${plural(n, 'part')} ${are(n)} there, in ${folder}`);
  return { folder, parts: { existing, todo } };
}

export interface SinkOptions extends Omit<OutputTarget, 'path' | 'format'>, RunPlace {
  readonly overwrite: boolean;
  readonly stats: RunStats;
  readonly signal: AbortSignal;
  /** lines in the place of rows, those that came since it was asked: nothing of the run is kept */
  readonly writes?: (() => string) | undefined;
  /** of a folder: writes what stands beside the parts of a run that is whole */
  readonly finish?: (folder: string) => Promise<void>;
}

/** Before anybody is asked, not when the first part is written. @throws RredcotError (exit 2) for columns that the run's files cannot hold */
export async function refuseColumns(
  { path }: Target,
  { output }: Pick<Run, 'output'>,
  { passThrough, ourColumns }: Pick<SinkOptions, 'passThrough' | 'ourColumns'>,
): Promise<void> {
  if (output !== 'parquet') return;
  const { arrowSchema } = await import('../io/arrow/writer.js');
  const { refuseUnwritable } = await import('../io/arrow/types.js');
  refuseUnwritable(path, arrowSchema(outputColumns(passThrough, ourColumns)).fields);
}

/** Opens it. @throws RredcotError (exit 2) for columns that no Parquet file can have */
export async function openSink(opts: SinkOptions): Promise<Sink> {
  const { target, run, begun } = opts;
  const { folder, parts: begunParts } = begun;
  if (folder === undefined || begunParts === undefined) return openStdout(opts);
  const isFile = target.kind === 'file';
  const pieces: Part = { by: 'pieces', pieces: 1, of: run.parts };
  const ofPart =
    run.parts > 1 && opts.metadata[PART_KEY] === undefined ? { [PART_KEY]: JSON.stringify(pieces) } : {};
  const parts = openParts({ ...opts, ...begunParts, folder, metadata: { ...opts.metadata, ...ofPart } });
  return {
    add: parts.add,
    async close() {
      await parts.close();
      if (isFile) await joinParts({ ...opts, ...begunParts, folder });
      else await opts.finish?.(folder);
    },
    async abort(error) {
      await parts.abort(error);
      if (error instanceof RejectsError && (isFile || error.isAll)) await leaveReasons(folder, target);
    },
  };
}

/** Leaves no folder behind in which nothing is worth keeping. @param isAll no other shard has a part of it */
export async function leaveRun(
  { folder, parts }: BegunRun,
  { kind }: Target,
  run: Pick<Run, 'run'>,
  isAll: boolean,
  error: unknown,
): Promise<void> {
  // rejects alone are soon found again, and a run of nothing else would stand in the way of the mended command
  const holdsTraces = sumCounts(parts?.existing.values() ?? []).traces > 0;
  const holdsReasons = kind === 'folder' && error instanceof RejectsError && !error.isAll;
  if (folder === undefined || holdsTraces || holdsReasons || !isAll || (await isBusy(folder))) return;
  await assertOurs(folder, run);
  if (kind === 'file') return dropHidden(folder);
  await dropParts(folder);
  if (!isStored(folder)) await rmdir(folder);
}

/** The reasons of too many rejects are what the user needs next: beside the output. */
async function leaveReasons(folder: string, target: Target): Promise<void> {
  const rejects = await openRejects(
    target.kind === 'file' ? target.rejects : filePaths(target.path).rejects,
    folder,
  );
  for (const file of await rejectFiles(folder)) await rejects.append(fileBytes(file));
  await rejects.finish();
  await rejects.publish();
}

/** Lines in the place of rows, to stdout or to a file that appears when it is whole. */
async function openLines(path: string, text: () => string, overwrite: boolean) {
  if (!overwrite && path !== '-' && (await statIfThere(path)) !== null)
    throw usageError(`${path}: is there already`, '--overwrite, or name another output with -o');
  const file = path === '-' ? undefined : await openAtomicFile(path);
  const sink = file ?? openStreamSink();
  const finish = async () => {
    await sink.finish();
    await file?.publish();
  };
  return { write: () => sink.write(Buffer.from(text())), finish, abort: () => sink.abort() };
}

/** Stdout, and the rejects beside it, which are left whatever becomes of it. */
async function openStdout({ target, writes, ...opts }: SinkOptions): Promise<Sink> {
  const rejects = await openRejects(target.rejects);
  const output = writes
    ? await openLines(target.path, writes, opts.overwrite)
    : await openOutput({ ...opts, ...target });
  const end = async (ended: Promise<void>): Promise<void> => {
    await ended;
    await rejects.finish();
    await rejects.publish();
  };
  return {
    add: (item) => (isBad(item) ? rejects.add(item) : output.write(item)),
    close: () => end(output.finish()),
    abort: () => end(output.abort()),
  };
}

/** Writes rows and rejects in order, publishes them, and tells what was done. @throws RredcotError (exit 65 of too many rejects, 75 interrupted) */
export async function writeRows(
  items: AsyncIterable<OutputRow | BadRow> | Iterable<OutputRow | BadRow>,
  sink: Sink,
  stats: RunStats,
  signal: AbortSignal,
  place: RunPlace,
): Promise<void> {
  try {
    for await (const item of items) {
      throwIfInterrupted(signal);
      await sink.add(item);
      stats.add(item);
      if (isBad(item)) checkRejects(stats.totals(), place, false, stats.rejects);
    }
    throwIfInterrupted(signal);
    checkRejects(stats.totals(), place, true, stats.rejects);
    await sink.close();
  } catch (error) {
    // what fails while a failure is tidied up says nothing new
    await sink.abort(error).catch(() => {});
    if (signal.aborted) throw interruption(place.begun);
    if (await isMadeByOther(error, place)) return;
    // a reader that has seen enough (`| head`) is no failure
    if (!(error instanceof ReaderClosedError)) throw error;
  } finally {
    stats.end();
  }
  stats.report();
}

/** Whether the same command, started twice, has made the output, and taken the folder away. @throws RredcotError (exit 75) where it is gone */
async function isMadeByOther(
  error: unknown,
  { target, run, begun: { folder }, log }: RunPlace,
): Promise<boolean> {
  if (folder === undefined || !isLost(error, folder)) return false;
  if (target.kind === 'file' && (await madeAlready(target.path, run)) !== undefined) {
    log.info(`${target.path} was made by the same command, which was started twice`);
    return true;
  }
  throw error instanceof TakenError ? error : new TakenError(folder, error);
}

/** What an interrupted run tells its user. */
function interruption({ folder, parts }: BegunRun): RredcotError {
  const { traces } = sumCounts(parts?.existing.values() ?? []);
  const n = parts?.existing.size ?? 0;
  if (traces === 0) return interruptedError(`interrupted${folder === undefined ? '' : ': no row was kept'}`);
  const kept = `interrupted: ${plural(n, 'part')} ${are(n)} kept in ${folder}`;
  return interruptedError(kept, 'the same command again, which goes on from there');
}
