// Puts windows of traces to the policy: batches inside them, results in input order.
import { dataError, type RredcotError, TraceRejected } from '../errors.js';
import { deviceName } from '../policy/device.js';
import type { PolicyRuns } from '../policy/run/session.js';
import { type BadRow, isBad } from '../rows.js';
import type { Trace } from '../trace.js';
import type { PassJob, Window } from './cut-windows.js';
import { inOrder } from './in-order.js';
import { ImpossibleNumberError } from './possible.js';
import { joinIds } from './references.js';
import { runBatch } from './run-batch.js';
import { planWindow, type Strategy, type TraceJob } from './strategy.js';
import type { TraceResult } from './trace-result.js';
import type { TraceValues } from './value.js';

export interface Scored<T extends PassJob> {
  readonly job: T;
  readonly trace: Trace;
  readonly result: TraceResult | TraceRejected;
  /** (T) log-probabilities of the traces that the job needs; undefined for one that could not be read */
  readonly needed: readonly (Float32Array | undefined)[];
}

/** A trace with its values. */
export interface Valued<T extends PassJob> {
  readonly job: T;
  readonly trace: T['trace'];
  readonly result: TraceResult;
  readonly values: TraceValues;
}

/** While one batch is in the graph, the next is prepared and the last one written. */
const BATCHES_AT_WORK = 3;

/**
 * Scores every trace; the order is the input's, whatever ran together, and what was set aside passes by in its place.
 * @throws RredcotError (exit 65) where the policy gives numbers that cannot be
 * @param windows traces of different ones never share a run
 * @param how strategy: another than the cheaper one; who: runs them, for the error
 */
export async function* scoreWindows<T extends PassJob>(
  windows: AsyncIterable<Window<T>>,
  session: PolicyRuns,
  { strategy = 'auto', who = 'the policy' }: { readonly strategy?: Strategy; readonly who?: string } = {},
): AsyncGenerator<Scored<T> | BadRow> {
  async function* batches() {
    for await (const { items: window, guests } of windows) {
      const jobs = [...window, ...guests].filter((item): item is T | PassJob => !isBad(item));
      const traceJobs = jobs.map(toTraceJob);
      const planned = planWindow(traceJobs, strategy, session.device);
      // a window without a job still has to pass in its turn
      if (planned.length === 0)
        yield {
          window,
          jobs,
          isLast: true,
          members: [],
          shares: [],
          inBatch: [],
          strategy: 'one-run' as const,
        };
      for (const [n, batch] of planned.entries())
        yield {
          ...batch,
          window,
          jobs,
          isLast: n === planned.length - 1,
          inBatch: batch.members.map(
            (i, n): TraceJob => ({ ...(traceJobs[i] as TraceJob), shares: batch.shares[n] }),
          ),
        };
    }
  }
  const done = inOrder(batches(), BATCHES_AT_WORK, async (batch) => {
    const { inBatch, strategy, members, jobs } = batch;
    if (inBatch.length === 0) return { ...batch, scored: [] };
    const scored = await runBatch(session, inBatch, strategy).catch((error: unknown) => {
      if (!(error instanceof ImpossibleNumberError)) throw error;
      const { trace } = jobs[members[inBatch.indexOf(error.job as TraceJob)] as number] as PassJob;
      throw impossible(trace, error, session, who);
    });
    return { ...batch, scored };
  });
  const results = new Map<Trace, TraceResult | TraceRejected>(); // of one window
  const logprobsOf = (trace: Trace): Float32Array | undefined => {
    const result = results.get(trace);
    return result instanceof TraceRejected ? undefined : result?.logprobs;
  };
  for await (const { window, jobs, members, scored, isLast } of done) {
    for (const [n, i] of members.entries())
      results.set((jobs[i] as PassJob).trace, scored[n] as TraceResult | TraceRejected);
    if (!isLast) continue;
    for (const item of window) {
      if (isBad(item)) yield item;
      else
        yield {
          job: item,
          trace: item.trace,
          result: results.get(item.trace) as TraceResult | TraceRejected,
          needed: item.needs?.map(logprobsOf) ?? [],
        };
    }
    results.clear();
  }
}

/** A broken policy or device: nothing that it says can be trusted, so the run ends. */
export function impossible(
  { id, source }: Trace,
  { message }: Error,
  { device = { name: 'cpu' } }: Pick<PolicyRuns, 'device'>,
  who = 'the policy',
): RredcotError {
  return dataError(
    `${source.file}:${source.row} (id ${JSON.stringify(id)}): ${who} on ${deviceName(device)} gave ${message}`,
    device.name === 'cpu'
      ? 'rredcot policy check <folder>; the checkpoint may be damaged, or not of the kind that its config.json says'
      : 'rredcot policy check <folder> compares the device with the CPU; --device cpu does without it',
  );
}

function toTraceJob({ promptIds, completionIds, ...job }: PassJob): TraceJob {
  return { ...job, ids: joinIds(promptIds, completionIds), promptLength: promptIds.length };
}
