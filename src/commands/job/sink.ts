// Where a command's traces end: in the output or among the rejects, counted, with a report at the end.
import { EXIT, RredcotError, throwIfInterrupted } from '../../errors.js';
import { ReaderClosedError } from '../../io/files/stdout.js';
import { openChunkWriter } from '../../io/run/chunk-writer.js';
import { publishFile, publishRejects } from '../../io/run/publish.js';
import type { CardSource } from '../../io/run/records.js';
import { finishShard } from '../../io/run/success.js';
import { outputColumns, type WrittenColumn } from '../../io/table/output-columns.js';
import type { PassThroughColumn } from '../../io/table/schema.js';
import { type Destination, openStreamDestination } from '../../io/write/stream-destination.js';
import { colours, type Log } from '../../report/log.js';
import { type Expected, Progress } from '../../report/progress.js';
import { Summary } from '../../report/summary.js';
import { drawTrace, escapeControls } from '../../report/trace-view.js';
import { isWorker } from '../../report/worker-log.js';
import { type BadRow, isBad } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import { interruption, type Run } from './open-run.js';
import { checkRejects, type MaxRejects, refuseAllRejected } from './reject-limits.js';
import type { Target } from './target.js';

export interface SinkOptions {
  readonly target: Target;
  readonly run: Run;
  readonly ourColumns: readonly WrittenColumn[];
  readonly passThrough: readonly PassThroughColumn[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly maxRejects: MaxRejects | undefined;
  readonly expected: Expected;
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

export async function openSink(opts: SinkOptions): Promise<Sink> {
  const { target, run, log, maxRejects } = opts;
  const progress = new Progress(log, opts.expected);
  const summary = new Summary();
  const copied = opts.passThrough.flatMap(({ arrow }) => arrow ?? []);
  if (target.format === 'parquet' && copied.length > 0) {
    const { refuseUnwritable } = await import('../../io/parquet/types.js');
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
  async function add(item: OutputRow | BadRow): Promise<void> {
    await destination.add(item);
    if (isBad(item)) return countReject(item);
    progress.trace(item.completionIds?.length ?? 0);
    summary.add(item);
  }
  async function finish(): Promise<void> {
    // a worker's share is a part of what its parent counts
    if (!isWorker()) checkRejects(totals(), maxRejects, target, true);
    // a shard of many may well hold nothing but rejects
    if (run.shard.count === 1) refuseAllRejected(totals(), target, firstReject);
    await destination.close();
    if (run.folder === undefined || run.description === undefined) return;
    const { seconds } = progress.totals();
    const card = target.kind === 'folder' ? cardSource(opts) : undefined;
    await run.assertOurs();
    await finishShard(run.folder, run.description, run.shard, run.chunks, seconds, card);
    if (target.kind !== 'file') return;
    const records = [...run.chunks.values()];
    await publishFile(run.folder, target, records, run.shard.count, () => throwIfInterrupted(opts.signal));
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
          await publishRejects(run.folder, target.rejects, () => throwIfInterrupted(opts.signal));
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

/** What the dataset card of a folder says of its files. */
function cardSource({ target: { format }, passThrough, ourColumns, metadata }: SinkOptions): CardSource {
  const columns = outputColumns(format === 'jsonl' ? [] : passThrough, ourColumns).map(({ name }) => name);
  return { format, columns, metadata };
}

function openDestination({ target, run, log, ...columns }: SinkOptions): Promise<Destination> {
  const { folder, description, shard, rowsPerChunk, chunks, assertOurs } = run;
  if (folder === undefined || description === undefined)
    return openStreamDestination({ ...target, ...columns });
  const onChunk = () => log.record('chunk', { chunks: chunks.size });
  const { format } = target;
  const place = { folder, run: description.run, shard, rowsPerChunk };
  return openChunkWriter({ ...columns, ...place, format, chunks, assertOurs, onChunk });
}
