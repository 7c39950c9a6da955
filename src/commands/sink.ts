// Where a command's traces end: in the output or among the rejects, counted, with a report at the end.
import { TraceRejected, throwIfInterrupted } from '../errors.js';
import { type OurColumn, type OutputRow, openOutput, ReaderClosedError } from '../io/output.js';
import { openRejects } from '../io/rejects.js';
import { type BadRow, rejectTrace } from '../io/rows.js';
import type { PassThroughColumn } from '../io/schema.js';
import { colours, type Log } from '../report/log.js';
import { Progress } from '../report/progress.js';
import { Summary } from '../report/summary.js';
import { drawTrace } from '../report/trace-view.js';
import type { Trace } from '../trace.js';
import { checkRejects, type MaxRejects } from './options.js';
import type { Target } from './target.js';

export interface SinkOptions {
  readonly target: Target;
  readonly ourColumns: readonly OurColumn[];
  readonly passThrough: readonly PassThroughColumn[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly maxRejects: MaxRejects | undefined;
  /** traces to come, where they have been counted */
  readonly expected: number | undefined;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface Sink {
  /** Sets a row aside. @throws RredcotError (exit 65) beyond `--max-rejects` */
  reject(bad: BadRow): Promise<void>;
  /** The action's result; undefined where it turned the trace down, which is then among the rejects. */
  orReject<T>(trace: Trace, action: () => T | Promise<T>): Promise<T | undefined>;
  /** Writes all rows, passing over undefined, and makes the output visible; on an error nothing of it is left. */
  drain(rows: AsyncIterable<OutputRow | undefined>): Promise<void>;
  /** Tells the user what was done; with `valueName`, where there are values, draws the trace whose travel farthest. */
  report(valueName?: string): void;
}

export async function openSink(opts: SinkOptions): Promise<Sink> {
  const { target, log, maxRejects } = opts;
  const rejects = await openRejects(target.rejects);
  const output = await openOutput({ ...target, ...opts });
  const progress = new Progress(log, opts.expected);
  const summary = new Summary();

  const reject = async (bad: BadRow): Promise<void> => {
    await rejects.add(bad);
    progress.reject();
    checkRejects(progress.totals(), maxRejects, target.rejects, false);
  };
  return {
    reject,
    async orReject(trace, action) {
      try {
        return await action();
      } catch (error) {
        if (!(error instanceof TraceRejected)) throw error;
        await reject(rejectTrace(trace, error));
        return undefined;
      }
    },
    async drain(rows) {
      try {
        for await (const row of rows) {
          throwIfInterrupted(opts.signal);
          if (row === undefined) continue;
          await output.write([row]);
          progress.trace(row.completionIds?.length ?? 0);
          summary.add(row);
        }
        checkRejects(progress.totals(), maxRejects, target.rejects, true);
        await output.close();
      } catch (error) {
        await output.abort();
        // a reader that has seen enough (`| head`) is no failure
        if (!(error instanceof ReaderClosedError)) throw error;
      } finally {
        await rejects.close();
      }
    },
    report(valueName) {
      const totals = progress.totals();
      if (valueName !== undefined && summary.example !== undefined) {
        const width = process.stderr.columns || 100;
        log.text(`\n${drawTrace(summary.example, { colours: colours(), width, valueName })}\n`);
      }
      log.text(summary.describe(totals, rejects.counts, valueName !== undefined).join('\n'));
      if (totals.rejects > 0) log.text(`rejects in ${target.rejects}`);
      if (target.path !== '-') log.text(`written to ${target.path}`);
      log.record('done', { ...totals, uniform_share: summary.uniform, output: target.path });
    },
  };
}
