// Where a command's traces end: in the output or among the rejects, made by this process or by its workers, and published whole.
import { rm } from 'node:fs/promises';
import { EXIT, RredcotError, throwIfInterrupted } from '../errors.js';
import { wordsOf } from '../estimate/registry.js';
import type { ColumnChoice, OutputColumn } from '../io/arrow/output-columns.js';
import type { PassThroughColumn } from '../io/arrow/schema.js';
import { runPaths } from '../io/files/run-paths.js';
import { ReaderClosedError } from '../io/files/stdout.js';
import { type Destination, openStreamDestination } from '../io/write/destination.js';
import type { WholeFile } from '../io/write/output.js';
import type { Part } from '../io/write/part.js';
import type { BadRow } from '../rows.js';
import { outputColumns, type WrittenColumn } from '../scored/columns.js';
import type { OutputRow } from '../scored.js';
import { Account, type AccountOptions } from './account.js';
import { openChunkWriter } from './chunk-writer.js';
import type { RunDescription } from './description.js';
import { openWhole } from './join.js';
import { interruption } from './open-run.js';
import type { JobOptions } from './options.js';
import { endEmptyRun, publishFile, publishRejects, rejectsHash } from './publish.js';
import { type CardSource, sumCounts } from './records.js';
import { reasonsFile } from './reject-limits.js';
import { finishShard } from './success.js';
import { writeSummary } from './summary-file.js';
import { makeShards, type Notes, type SharedRun } from './workers.js';

export interface SinkOptions extends AccountOptions, Pick<JobOptions, 'overwrite' | 'signal'> {
  readonly ourColumns: readonly WrittenColumn[];
  readonly passThrough: readonly PassThroughColumn[];
  readonly choice: ColumnChoice;
  readonly metadata: Readonly<Record<string, string>>;
  /** what has cut the rows out of a data set */
  readonly part: Part | undefined;
  /** whether the rows make several chunks, as far as anybody knows */
  readonly isPieces: boolean;
}

/**
 * Writes rows and rejects, in input order, makes the output visible, and tells what was done.
 * @throws RredcotError with exit code 65 where too many were rejected, 75 where the run was interrupted
 */
export async function writeRows(items: AsyncIterable<OutputRow | BadRow>, opts: SinkOptions): Promise<void> {
  const { target, run, signal } = opts;
  // before the first pass, not when the first chunk is written
  if (target.format === 'parquet') await refuseColumns(opts);
  const account = new Account(opts);
  const whole = await wholeFile(opts);
  const destination = await openDestination(opts, whole);
  const work = async (): Promise<void> => {
    for await (const item of items) {
      if (signal.aborted) throw interruption(run);
      await destination.add(item);
      account.add(item);
    }
    if (signal.aborted) throw interruption(run);
    account.check();
    await destination.close();
    const { seconds } = account.progress.totals();
    const card = target.kind === 'folder' ? cardSource(opts) : undefined;
    const finish = (folder: string, found: RunDescription) =>
      finishShard(folder, found, run.shard, run.chunks, seconds, card);
    await publish(opts, account, finish, whole);
  };
  const abort = async (): Promise<void> => {
    await whole?.abort();
    await destination.abort();
  };
  await ended(work, abort, opts, account);
}

/** The same of rows that workers make and write. */
export async function shareRows(
  shared: Pick<SharedRun, 'command' | 'devices' | 'flags' | 'inputs'>,
  opts: SinkOptions,
): Promise<void> {
  const { target, run, maxRejects, signal, log } = opts;
  const { folder, shards } = run;
  if (folder === undefined) throw new TypeError('workers share a folder');
  if (target.format === 'parquet') await refuseColumns(opts);
  const account = new Account(opts);
  const place = { folder, shards, format: target.format, countsRejects: maxRejects !== undefined };
  const onNotes = (notes: Notes): void => account.look(notes);
  const work = async (): Promise<void> => {
    const notes = await makeShards({ ...shared, ...place }, { signal, log, onNotes }).catch(
      async (error: unknown) => {
        // what was taken away from them was taken away from this one
        if (!signal.aborted) await run.assertOurs();
        throw error;
      },
    );
    await run.reread();
    account.close(notes);
    try {
      account.check();
    } catch (error) {
      // each of them was right
      await rm(runPaths(folder).success, { force: true });
      throw error;
    }
    await publish(opts, account);
  };
  await ended(work, () => run.reread(), opts, account);
}

/** Does the work to its end, or to the one that a signal, a reader or too many rejects make of it, and tells of it. */
async function ended(
  work: () => Promise<void>,
  abort: () => Promise<void>,
  opts: SinkOptions,
  account: Account,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    // what fails while a failure is tidied up says nothing new
    await abort().catch(() => {});
    if (opts.signal.aborted) throw interruption(opts.run);
    if (error instanceof RredcotError && error.exitCode === EXIT.data) await leaveReasons(opts, account);
    // a reader that has seen enough (`| head`) is no failure
    if (!(error instanceof ReaderClosedError)) throw error;
  } finally {
    account.progress.end();
  }
  account.report();
}

/** The reasons of too many rejects are what the user needs next; a run without a trace is not to stand in its way. */
async function leaveReasons({ target, run, signal }: SinkOptions, account: Account): Promise<void> {
  const { folder, chunks, shard } = run;
  if (folder === undefined || target.kind === 'stdout') return;
  const onProgress = (): void => throwIfInterrupted(signal);
  const { traces, rejects } = account.totals;
  const isEmpty = traces + sumCounts(chunks.values()).traces === 0 && rejects > 0;
  if (isEmpty && shard.count === 1) {
    await run.assertOurs();
    await endEmptyRun(target.kind, folder, reasonsFile(target), onProgress);
  } else if (target.kind === 'file') await publishRejects(folder, target.rejects, onProgress);
}

/**
 * Makes what the records hold visible.
 * @param finish the end of the one shard that a process alone has done, which may have written the file `whole`
 */
async function publish(
  { target, run, config, part, overwrite, log, signal }: SinkOptions,
  account: Account,
  finish?: (folder: string, run: RunDescription) => Promise<void>,
  whole?: WholeFile,
): Promise<void> {
  const { folder, description } = run;
  if (folder === undefined || description === undefined) return;
  await run.assertOurs();
  const records = [...run.chunks.values()];
  const parts = run.shards.length;
  const assertFree = () => run.assertFree();
  await assertFree();
  const summarise = async (): Promise<void> => {
    // the shards of a run have no summary in common, and a worker's parent writes it
    if (run.shard.count !== 1) return;
    // it counts the whole run, earlier attempts included; the time is this attempt's
    const { traces, tokens, rejects } = sumCounts(records);
    const rejectsSha256 = target.kind === 'file' ? await rejectsHash(folder, records, parts) : null;
    const summarised = { run: description.run, config, folder, rejectsSha256 };
    const figures = { ...account.doneRecord(), traces, tokens, rejects, part };
    const problem = await writeSummary(target.path, summarised, figures, assertFree);
    if (problem !== undefined) log.warn('summary', problem);
  };
  if (target.kind !== 'file') await summarise();
  await finish?.(folder, description);
  if (target.kind !== 'file') return;
  const replaced = { ...target, replaces: overwrite, whole, assertFree, summarise };
  await publishFile(folder, replaced, records, parts, () => throwIfInterrupted(signal));
}

/** @throws RredcotError (exit 2) for columns that no Parquet file can have */
async function refuseColumns(opts: SinkOptions): Promise<void> {
  const [{ arrowSchema }, { refuseUnwritable }] = await Promise.all([
    import('../io/arrow/writer.js'),
    import('../io/parquet/types.js'),
  ]);
  refuseUnwritable(opts.target.path, arrowSchema(columnsOf(opts)).fields);
}

function columnsOf({ target: { format }, passThrough, ourColumns }: SinkOptions): OutputColumn[] {
  return outputColumns(format === 'jsonl' ? [] : passThrough, ourColumns);
}

/** What the dataset card of a folder says of its files. */
function cardSource(opts: SinkOptions): CardSource {
  const { target, metadata, config } = opts;
  const columns = columnsOf(opts);
  const meanings = columns.flatMap(({ name, meaning }) => (meaning === undefined ? [] : [[name, meaning]]));
  return {
    ...{ format: target.format, columns: columns.map(({ name }) => name), metadata },
    words: wordsOf(config),
    meanings: Object.fromEntries(meanings),
  };
}

/**
 * The file in which the chunks end, written beside them, where one process makes all of them in one go; undefined where they are put
 * together in the end. Packed bytes follow from how they come, and Parquet's from what a thread writes.
 */
async function wholeFile(opts: SinkOptions): Promise<WholeFile | undefined> {
  const { target, run, isPieces, metadata, overwrite } = opts;
  const { path, format } = target;
  const isOne = isPieces && run.shards.length === 1 && run.chunks.size === 0;
  if (target.kind !== 'file' || run.folder === undefined || !isOne) return undefined;
  if (format === 'parquet' || /\.gz$/i.test(path)) return undefined;
  return openWhole(path, format, {
    ...{ folder: run.folder, replaces: overwrite, columns: columnsOf(opts), metadata },
  });
}

function openDestination(
  { target, run, log, isPieces, ourColumns, passThrough, choice, metadata }: SinkOptions,
  whole: WholeFile | undefined,
): Promise<Destination> {
  const { folder, description, shard, rowsPerChunk, chunks, proofs, leftovers } = run;
  const columns = { ourColumns, passThrough, choice, metadata };
  if (folder === undefined || description === undefined)
    return openStreamDestination({ ...target, ...columns });
  const onChunk = () => log.record('chunk', { chunks: chunks.size });
  const assertOurs = () => run.assertOurs();
  const { format } = target;
  const isPiece = isPieces && target.kind === 'file';
  const place = { folder, run: description.run, shard, rowsPerChunk, leftovers, isPiece, whole };
  return openChunkWriter({ ...columns, ...place, format, chunks, proofs, assertOurs, onChunk });
}
