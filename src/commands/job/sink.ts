// Where a command's traces end: in the output or among the rejects, counted, with a report at the end.
import { EXIT, RredcotError, throwIfInterrupted } from '../../errors.js';
import { isAnswerNow } from '../../estimate/nature.js';
import { storedNature, wordsOf } from '../../estimators/registry.js';
import { type OutputColumn, outputColumns, type WrittenColumn } from '../../io/arrow/output-columns.js';
import type { PassThroughColumn } from '../../io/arrow/schema.js';
import { ReaderClosedError } from '../../io/files/stdout.js';
import { openChunkWriter } from '../../io/run/chunk-writer.js';
import { endEmptyRun } from '../../io/run/empty-run.js';
import { publishFile, publishRejects, rejectsHash } from '../../io/run/publish.js';
import { type CardSource, type ChunkRecord, sumCounts } from '../../io/run/records.js';
import { finishShard } from '../../io/run/success.js';
import { writeSummary } from '../../io/run/summary-file.js';
import type { ColumnChoice } from '../../io/write/column-choice.js';
import type { Part } from '../../io/write/part.js';
import { type Destination, openStreamDestination } from '../../io/write/stream-destination.js';
import { escapeControls } from '../../printable.js';
import type { Log } from '../../report/log.js';
import { SeenNames } from '../../report/names.js';
import { type Expected, Progress, type TokenMeter } from '../../report/progress.js';
import { figureRecord, figureWarnings, type PolicyFacts } from '../../report/run-figures.js';
import { suggestCalibration } from '../../report/suggestion.js';
import { Summary } from '../../report/summary.js';
import { drawnHere, drawTrace } from '../../report/trace-view.js';
import { isWorker, MET } from '../../report/worker-log.js';
import { type BadRow, isBad } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import { madeBy } from './made-by.js';
import { interruption, type Run } from './open-run.js';
import {
  checkRejects,
  type MaxRejects,
  nothingBut,
  RejectTally,
  reasonsFile,
  refuseAllRejected,
  refuseHopeless,
} from './reject-limits.js';
import type { Target } from './target.js';

export interface SinkOptions {
  readonly target: Target;
  readonly run: Run;
  readonly ourColumns: readonly WrittenColumn[];
  readonly passThrough: readonly PassThroughColumn[];
  readonly choice: ColumnChoice;
  readonly metadata: Readonly<Record<string, string>>;
  /** the resolved configuration */
  readonly config: Readonly<Record<string, unknown>>;
  readonly maxRejects: MaxRejects | undefined;
  readonly expected: Expected;
  readonly meter?: TokenMeter | undefined;
  /** something follows of a trace's group */
  readonly isGrouped: boolean;
  /** what has cut the rows out of a data set */
  readonly part: Part | undefined;
  /** what made the rows, where a policy did */
  readonly policy: PolicyFacts | undefined;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface Sink {
  /**
   * Writes rows and rejects, in input order, and makes the output visible.
   * @throws RredcotError with exit code 65 where too many were rejected, 75 where the run was interrupted
   */
  drain(items: AsyncIterable<OutputRow | BadRow>): Promise<void>;
  /** Tells the user what was done; with `valueName`, where there are values, draws the trace whose travel farthest. */
  report(valueName?: string): void;
}

/** Traces after which the figures say something. */
const ENOUGH_TO_WARN = 64;

/** Counts what goes by: progress, figures, names, rejects. */
function openAccount(opts: SinkOptions) {
  const { target, run, log, maxRejects } = opts;
  const progress = new Progress(log, opts.expected, opts.meter);
  const summary = new Summary(Array.from(run.chunks.values(), ({ figures }) => figures));
  const warned = new Set<string>();
  // of what was surveyed it has been told
  const isNamed = typeof run.survey?.traces === 'number';
  const names = isNamed ? undefined : new SeenNames(opts.isGrouped);
  const isAll = run.shard.count === 1;
  const tally = new RejectTally();
  /** everything of this shard, the chunks of earlier attempts included */
  const totals = () => {
    const { traces, rejects } = progress.totals();
    return { traces: traces + run.before.traces, rejects: rejects + run.before.rejects };
  };

  /** a worker's figures are a part of what its parent looks at */
  function warn(isEarly: boolean): void {
    if (isWorker()) return;
    for (const { code, message } of figureWarnings(summary.figures, opts.policy, madeBy(opts.config))) {
      // the first traces may well be of one side
      if (isEarly && code === 'one_sided') continue;
      if (!warned.has(code)) log.warn(code, message);
      warned.add(code);
    }
  }
  function countReject(reject: BadRow): void {
    tally.add(reject);
    progress.reject(reject.ordinal);
    summary.reject(reject);
    checkRejects(totals(), maxRejects, target, false);
    // a shard of many may well hold nothing but rejects; a worker's parent tells where the reasons are
    if (isAll) refuseHopeless(totals().traces, tally, maxRejects, nothingBut(target));
    else if (isWorker())
      refuseHopeless(totals().traces, tally, maxRejects, `the reasons are in ${target.rejects}`);
  }
  function count(item: OutputRow | BadRow): void {
    if (isBad(item)) {
      countReject(item);
      return;
    }
    progress.trace(item.completionIds?.length ?? 0, item.trace.source.ordinal);
    summary.add(item);
    names?.add({ ...item.trace, prompt: item.promptIds?.join() ?? null, completion: undefined });
    // hours may pass until the end
    if (progress.totals().traces === ENOUGH_TO_WARN) warn(true);
  }
  /** the record with which the log ends */
  function doneRecord(): Record<string, unknown> {
    const { traces, tokens, rejects, seconds } = progress.totals();
    const tokens_per_s = Math.round(tokens / Math.max(seconds, 1e-3));
    const done = { traces, tokens, rejects, seconds, tokens_per_s };
    return { ...done, ...figureRecord(summary.figures, opts.policy), output: target.path };
  }
  return { progress, summary, names, tally, totals, warn, count, doneRecord };
}

export async function openSink(opts: SinkOptions): Promise<Sink> {
  const { target, run, log, maxRejects } = opts;
  // before the first pass, not when the first chunk is written
  if (target.format === 'parquet') await refuseColumns(opts);
  const account = openAccount(opts);
  const { progress, summary, names, tally, totals, doneRecord } = account;
  const destination = await openDestination(opts);
  const isAll = run.shard.count === 1;

  /** The reasons of too many rejects are what the user needs next; a run without a trace is not to stand in its way. */
  async function leaveReasons(): Promise<void> {
    const { traces, rejects } = totals();
    const { folder } = run;
    if (folder === undefined || target.kind === 'stdout') return;
    const onProgress = (): void => throwIfInterrupted(opts.signal);
    if (!isAll || traces > 0 || rejects === 0) {
      if (target.kind === 'file') await publishRejects(folder, target.rejects, onProgress);
      return;
    }
    await run.assertOurs();
    await endEmptyRun(target.kind, folder, reasonsFile(target), onProgress);
  }
  /** The summary counts the whole run, earlier attempts included; the time is this attempt's. */
  async function summarise(folder: string, identity: string, records: readonly ChunkRecord[]): Promise<void> {
    const { traces, tokens, rejects } = sumCounts(records);
    const rejectsSha256 = target.kind === 'file' ? await rejectsHash(folder, records, 1) : null;
    const summarised = { run: identity, config: opts.config, folder, rejectsSha256 };
    const figures = { ...doneRecord(), traces, tokens, rejects, part: opts.part };
    const problem = await writeSummary(target.path, summarised, figures);
    if (problem !== undefined) log.warn('summary', problem);
  }
  async function finish(): Promise<void> {
    // a worker's share is a part of what its parent counts
    if (!isWorker()) checkRejects(totals(), maxRejects, target, true);
    if (isAll) refuseAllRejected(totals(), target, tally.commonest);
    await destination.close();
    if (run.folder === undefined || run.description === undefined) return;
    const { seconds } = progress.totals();
    const card = target.kind === 'folder' ? cardSource(opts) : undefined;
    await run.assertOurs();
    // the shards of a run have no summary in common, and a worker's parent writes it
    const records = [...run.chunks.values()];
    await run.assertFree();
    if (isAll) await summarise(run.folder, run.description.run, records);
    await finishShard(run.folder, run.description, run.shard, run.chunks, seconds, card);
    if (target.kind !== 'file') return;
    const replaced = { ...target, replaces: run.replaces };
    await publishFile(run.folder, replaced, records, run.shard.count, () => throwIfInterrupted(opts.signal));
  }
  return {
    async drain(items) {
      try {
        for await (const item of items) {
          if (opts.signal.aborted) throw interruption(run);
          await destination.add(item);
          account.count(item);
        }
        if (opts.signal.aborted) throw interruption(run);
        await finish();
      } catch (error) {
        // what fails while a failure is tidied up says nothing new
        await destination.abort().catch(() => {});
        if (opts.signal.aborted) throw interruption(run);
        const isData = error instanceof RredcotError && error.exitCode === EXIT.data;
        if (isData) await leaveReasons();
        // a reader that has seen enough (`| head`) is no failure
        if (!(error instanceof ReaderClosedError)) throw error;
      } finally {
        progress.end();
      }
    },
    report(valueName) {
      if (isWorker()) log.record(MET, { ...summary.part });
      if (valueName !== undefined && summary.example !== undefined) {
        log.text(`\n${drawTrace(summary.example, { ...drawnHere(), valueName })}\n`);
      }
      const { figures } = summary;
      log.text(summary.describe(progress.totals(), opts.policy, valueName).join('\n'));
      account.warn(false);
      for (const { code, message } of names?.warnings ?? []) log.warn(code, message);
      const rejected = isWorker() ? undefined : summary.rejectWarning(totals().traces);
      if (rejected !== undefined) log.warn(rejected.code, rejected.message);
      if (Object.keys(figures.rejects).length > 0) log.text(`rejects in ${escapeControls(target.rejects)}`);
      if (target.path !== '-') log.text(`written to ${escapeControls(target.path)}`);
      const next =
        isAll &&
        suggestCalibration(figures, opts.config, target.path, isAnswerNow(storedNature(opts.config)));
      if (next) log.text(next);
      log.record('done', doneRecord());
    },
  };
}

/** @throws RredcotError (exit 2) for columns that no Parquet file can have */
async function refuseColumns(opts: SinkOptions): Promise<void> {
  const [{ arrowSchema }, { refuseUnwritable }] = await Promise.all([
    import('../../io/arrow/batch.js'),
    import('../../io/parquet/types.js'),
  ]);
  refuseUnwritable(opts.target.path, arrowSchema(columnsOf(opts), {}).fields);
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

function openDestination({
  target,
  run,
  log,
  config: _,
  part: __,
  ...columns
}: SinkOptions): Promise<Destination> {
  const { folder, description, shard, rowsPerChunk, chunks, proofs, assertOurs } = run;
  if (folder === undefined || description === undefined)
    return openStreamDestination({ ...target, ...columns });
  const onChunk = () => log.record('chunk', { chunks: chunks.size });
  const { format } = target;
  const place = { folder, run: description.run, shard, rowsPerChunk };
  return openChunkWriter({ ...columns, ...place, format, chunks, proofs, assertOurs, onChunk });
}
