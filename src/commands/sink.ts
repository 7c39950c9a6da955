// Where a command's traces end: in the output or among the rejects, counted, with a report at the end.
import { EXIT, RredcotError } from '../errors.js';
import { type Destination, openChunkWriter } from '../io/chunk-writer.js';
import { type OutputColumn, outputColumns } from '../io/columns.js';
import { type EncodedBlock, isBlock, tracesOf } from '../io/encoded-block.js';
import { hubFeature } from '../io/hub-features.js';
import { type OutputRow, ReaderClosedError, type WrittenColumn } from '../io/output.js';
import { publishFile, publishRejects } from '../io/publish.js';
import { type BadRow, isBad } from '../io/rows.js';
import { type CardSource, finishShard } from '../io/run-folder.js';
import type { PassThroughColumn } from '../io/schema.js';
import { openStreamDestination } from '../io/stream-destination.js';
import { colours, type Log } from '../report/log.js';
import { type Ahead, Progress } from '../report/progress.js';
import { Summary } from '../report/summary.js';
import { drawTrace, escapeControls } from '../report/trace-view.js';
import { isWorker } from '../report/worker-log.js';
import { checkRejects, type MaxRejects, refuseAllRejected } from './options.js';
import { interruption, type Run } from './run.js';
import type { Target } from './target.js';

export interface SinkOptions {
  readonly target: Target;
  readonly run: Run;
  readonly ourColumns: readonly WrittenColumn[];
  readonly passThrough: readonly PassThroughColumn[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly maxRejects: MaxRejects | undefined;
  readonly ahead: Ahead;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface Sink {
  /**
   * Writes rows and rejects, in input order, and makes the output visible.
   * @throws RredcotError with exit code 65 where too many were rejected, 75 where the run was interrupted
   */
  drain(items: AsyncIterable<OutputRow | EncodedBlock | BadRow>): Promise<void>;
  /** Tells the user what was done; with `valueName`, where there are values, draws the trace whose travel farthest. */
  report(valueName?: string): void;
}

export async function openSink(opts: SinkOptions): Promise<Sink> {
  const { target, run, log, maxRejects } = opts;
  const progress = new Progress(log, opts.ahead);
  const summary = new Summary();
  const copied = opts.passThrough.flatMap(({ arrow }) => arrow ?? []);
  if (target.format === 'parquet' && copied.length > 0) {
    const { refuseUnwritable } = await import('../io/parquet-types.js');
    refuseUnwritable(target.path, copied);
  }
  const destination = await openDestination(opts);
  let firstReject: string | undefined;
  /** everything of this shard, the chunks of earlier attempts included */
  const totals = () => {
    const { traces, rejects } = progress.totals();
    return { traces: traces + run.before.traces, rejects: rejects + run.before.rejects };
  };

  function countReject(reject: BadRow): void {
    firstReject ??= reject.rejection.reason;
    progress.reject();
    summary.reject(reject);
    checkRejects(totals(), maxRejects, target, false);
  }
  async function add(item: OutputRow | EncodedBlock | BadRow): Promise<void> {
    if (isBlock(item)) {
      if (destination.addBlock === undefined) throw new Error('a stream takes rows one by one');
      const allowed = maxRejects !== undefined && 'count' in maxRejects ? maxRejects.count : undefined;
      // the run ends with the first reject too many, and that is the last one told
      if (allowed !== undefined && totals().rejects + item.rejects.length > allowed)
        for (const reject of item.rejects) await add(reject);
      await destination.addBlock(item);
      progress.traces(tracesOf(item));
      summary.addBlock(item);
      item.rejects.forEach(countReject);
      return;
    }
    await destination.add(item);
    if (isBad(item)) return countReject(item);
    progress.trace(item.completionIds?.length ?? 0);
    summary.add(item);
  }
  async function finish(): Promise<void> {
    // a worker's share is a part of what its parent counts
    if (!isWorker()) checkRejects(totals(), maxRejects, target, true);
    // a shard of many may well hold nothing but rejects
    if (run.layout.shard.count === 1) refuseAllRejected(totals(), target, firstReject);
    await destination.close();
    if (run.folder === undefined) return;
    const { seconds } = progress.totals();
    const card = target.kind === 'folder' ? await cardSource(opts) : undefined;
    await finishShard(run.folder, run.layout.shard, run.chunks, seconds, card);
    if (target.kind === 'file')
      await publishFile(run.folder, target, opts.metadata, opts.signal, [...run.chunks.values()]);
  }
  return {
    async drain(items) {
      try {
        for await (const item of items) {
          if (opts.signal.aborted) throw interruption(run);
          await add(item);
        }
        if (opts.signal.aborted) throw interruption(run);
        await finish();
      } catch (error) {
        // what fails while a failure is tidied up says nothing new
        await destination.abort().catch(() => {});
        if (opts.signal.aborted) throw interruption(run);
        // the reasons of too many rejects are what the user needs next
        const isData = error instanceof RredcotError && error.exitCode === EXIT.data;
        if (isData && target.kind === 'file' && run.folder !== undefined)
          await publishRejects(run.folder, target.rejects, opts.signal);
        // a reader that has seen enough (`| head`) is no failure
        if (!(error instanceof ReaderClosedError)) throw error;
      }
    },
    report(valueName) {
      const { traces, tokens, rejects, seconds } = progress.totals();
      if (valueName !== undefined && summary.example !== undefined) {
        const width = process.stderr.columns || 100;
        log.text(`\n${drawTrace(summary.example, { colours: colours(), width, valueName })}\n`);
      }
      const lines = summary.describe(progress.totals(), valueName !== undefined);
      log.text(lines.join('\n'));
      if (rejects > 0) log.text(`rejects in ${escapeControls(target.rejects)}`);
      if (target.path !== '-') log.text(`written to ${escapeControls(target.path)}`);
      const figures = { traces, tokens, rejects, seconds };
      log.record('done', { ...figures, uniform_share: summary.uniform, output: target.path });
    },
  };
}

/** What the dataset card of a folder says of its columns. */
async function cardSource({ target, passThrough, ourColumns, metadata }: SinkOptions): Promise<CardSource> {
  const { format } = target;
  // whoever writes JSONL need not load arrow
  const featureOf =
    format === 'jsonl'
      ? ({ type }: OutputColumn) => hubFeature(type)
      : (await import('../io/arrow-features.js')).columnFeatures(format);
  const columns = outputColumns(format === 'jsonl' ? [] : passThrough, ourColumns).map((column) => ({
    name: column.name,
    feature: featureOf(column),
  }));
  return { format, columns, metadata };
}

function openDestination({ target, run, log, ...columns }: SinkOptions): Promise<Destination> {
  if (run.folder === undefined) return openStreamDestination({ ...target, ...columns });
  const { folder, layout, chunks } = run;
  const onChunk = () => log.record('chunk', { chunks: chunks.size });
  const { format, extension } = target;
  return openChunkWriter({ ...columns, format, extension, folder, layout, chunks, onChunk });
}
