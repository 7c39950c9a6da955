// Puts a stream of traces to the policy: windows of neighbours, batches inside them, results in input order.
import type { TraceRejected } from '../errors.js';
import { joinIds } from '../estimate/references.js';
import type { Trace } from '../trace.js';
import { inOrder } from './in-order.js';
import type { PolicyRuns } from './session.js';
import { planWindow, runBatch, type Strategy, type TraceJob, type TraceResult } from './strategy.js';

/** A trace on its way through the policy. */
export interface Job extends Omit<TraceJob, 'ids' | 'promptLength'> {
  readonly trace: Trace;
  readonly promptIds: Int32Array;
  readonly completionIds: Int32Array;
}

export interface Scored<T extends Job> {
  readonly job: T;
  readonly result: TraceResult | TraceRejected;
}

/** Input rows whose traces may share runs. A chunk of the output holds whole windows, so its bytes depend on no other. */
const WINDOW_ROWS = 64;
/** Traces a window at most: an input row may explode into many. */
const WINDOW_TRACES = 256;
/** While one batch is in the graph, the next is prepared and the last one written. */
const BATCHES_AT_WORK = 3;

/** Scores every trace; the order is the input's, whatever ran together. */
export async function* scoreWindows<T extends Job>(
  jobs: AsyncIterable<T>,
  session: PolicyRuns,
  strategy: Strategy,
): AsyncGenerator<Scored<T>> {
  async function* batches() {
    for await (const window of windowsOf(jobs)) {
      const traceJobs = window.map(toTraceJob);
      const planned = planWindow(traceJobs, strategy);
      for (const [n, batch] of planned.entries())
        yield {
          ...batch,
          window,
          isLast: n === planned.length - 1,
          jobs: batch.members.map((i) => traceJobs[i] as TraceJob),
        };
    }
  }
  const results: (TraceResult | TraceRejected)[] = [];
  const done = inOrder(batches(), BATCHES_AT_WORK, async (batch) => ({
    ...batch,
    scored: await runBatch(session, batch.jobs, batch.strategy),
  }));
  for await (const { window, members, scored, isLast } of done) {
    for (const [n, i] of members.entries()) results[i] = scored[n] as TraceResult | TraceRejected;
    if (!isLast) continue;
    for (const [i, job] of window.entries()) yield { job, result: results[i] as TraceResult | TraceRejected };
    results.length = 0;
  }
}

function toTraceJob({ promptIds, completionIds, ...job }: Job): TraceJob {
  return { ...job, ids: joinIds(promptIds, completionIds), promptLength: promptIds.length };
}

/** Consecutive traces whose rows fall into the same multiple of {@link WINDOW_ROWS}. */
async function* windowsOf<T extends Job>(jobs: AsyncIterable<T>): AsyncGenerator<T[]> {
  let window: T[] = [];
  let current = '';
  for await (const job of jobs) {
    const { file, row } = job.trace.source;
    const key = `${Math.floor(row / WINDOW_ROWS)} ${file}`;
    if (window.length > 0 && (key !== current || window.length >= WINDOW_TRACES)) {
      yield window;
      window = [];
    }
    current = key;
    window.push(job);
  }
  if (window.length > 0) yield window;
}
