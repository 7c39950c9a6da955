// Cuts a stream of traces into windows of neighbours, which alone may share runs of the policy, and puts them to it: results in input order.
import { dataError, type RredcotError, TraceRejected } from '../errors.js';
import { deviceName } from '../model/onnx/device.js';
import type { PolicyRuns } from '../model/onnx/session.js';
import { type BadRow, eachTrace, isBad } from '../rows.js';
import type { Trace } from '../trace.js';
import { joinIds, type Suffix } from './references.js';
import { ImpossibleNumberError, runBatch } from './run-batch.js';
import { planWindow, type Strategy, type TraceJob } from './strategy.js';
import type { TraceResult, TraceValues } from './value.js';

/** A trace on its way through the policy. */
export interface PassJob extends Omit<TraceJob, 'ids' | 'promptLength'> {
  readonly trace: Trace;
  readonly promptIds: Int32Array;
  readonly completionIds: Int32Array;
  /** traces of its window, guests among them, whose own log-probabilities its values need */
  readonly needs?: readonly Trace[];
  /** how another model reads it, in a pass of its own */
  readonly again?: AnotherReading | undefined;
}

/** What another model is given of a trace, beside the completion. */
interface AnotherReading {
  /** the prompt as that model reads it; absent: as the policy does */
  readonly promptIds?: Int32Array;
  /** (N) what it scores after every exit point */
  readonly continuations?: readonly Suffix[];
  /** there was nothing to be told of it */
  readonly hasHint?: false;
}

/** Neighbours. */
export interface Window<T> {
  /** what the window has to pass on, in input order */
  readonly items: readonly (T | BadRow)[];
  /** traces of other windows that run along, since some of these need their log-probabilities; they are not passed on */
  readonly guests: readonly PassJob[];
}

/** Traces a window, about: an input row may explode into many. */
const WINDOW_TRACES = 256;
/** The same where a group goes on beyond that. */
const MOST_TRACES = 4096;

/**
 * Consecutive items of one window each. One that has very many traces comes in several parts; a part ends with a group where
 * that is possible.
 * @param windowOf the window of an input row, by its number over all inputs
 */
export async function* windowsOf<T extends { readonly trace: Trace }>(
  items: AsyncIterable<T | BadRow>,
  windowOf: (ordinal: number) => number,
): AsyncGenerator<Window<T>> {
  let held: (T | BadRow)[] = [];
  let current = -1;
  let group: string | undefined;
  for await (const item of items) {
    const own = windowOf(isBad(item) ? item.ordinal : item.trace.source.ordinal);
    const isNext = isBad(item) || item.trace.group === undefined || item.trace.group !== group;
    if (held.length > 0 && (own !== current || held.length >= (isNext ? WINDOW_TRACES : MOST_TRACES))) {
      yield { items: held, guests: [] };
      held = [];
    }
    current = own;
    if (!isBad(item)) group = item.trace.group;
    held.push(item);
  }
  if (held.length > 0) yield { items: held, guests: [] };
}

/** What windows have to pass on, one after the other. */
export async function* itemsOf<T>(windows: AsyncIterable<Window<T>>): AsyncGenerator<T | BadRow> {
  for await (const { items } of windows) yield* items;
}

export interface ScoredJob<T extends PassJob> {
  readonly job: T;
  readonly trace: Trace;
  readonly result: TraceResult;
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
 * Scores every trace; the order is the input's, whatever ran together. What was set aside passes by in its place, and so does what
 * the policy could not read.
 * @throws RredcotError (exit 65) where the policy gives numbers that cannot be
 * @param windows traces of different ones never share a run
 * @param how strategy: another than the cheaper one; who: runs them, for the error
 */
export async function* scoreWindows<T extends PassJob>(
  windows: AsyncIterable<Window<T>>,
  session: PolicyRuns,
  { strategy = 'auto', who = 'the policy' }: { readonly strategy?: Strategy; readonly who?: string } = {},
): AsyncGenerator<ScoredJob<T> | BadRow> {
  async function* batches() {
    for await (const { items: window, guests } of windows) {
      const jobs = [...window, ...guests].filter((item): item is T | PassJob => !isBad(item));
      const traceJobs = jobs.map(toTraceJob);
      const planned = planWindow(traceJobs, strategy, session.device);
      // a window without a job still has to pass in its turn
      if (planned.length === 0) planned.push({ strategy: 'one-run', members: [], shares: [] });
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
    yield* eachTrace(window, (item) => {
      const result = results.get(item.trace) as TraceResult | TraceRejected;
      if (result instanceof TraceRejected) throw result;
      return { job: item, trace: item.trace, result, needed: item.needs?.map(logprobsOf) ?? [] };
    });
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
      ? 'the checkpoint may be damaged, or not of the kind that its config.json says: build it again'
      : `--device cpu does without it; rredcot doctor --device ${deviceName(device)} tests it`,
  );
}

function toTraceJob({ promptIds, completionIds, ...job }: PassJob): TraceJob {
  return { ...job, ids: joinIds(promptIds, completionIds), promptLength: promptIds.length };
}

/** Yields `fn(item)` for every item, `width` of them at work at a time. */
export async function* inOrder<A, B>(
  items: AsyncIterable<A>,
  width: number,
  fn: (item: A) => Promise<B>,
): AsyncGenerator<B> {
  const running: Promise<B>[] = [];
  for await (const item of items) {
    const result = fn(item);
    result.catch(() => {}); // reported when its turn comes, not as an unhandled rejection before
    running.push(result);
    if (running.length >= width) yield await (running.shift() as Promise<B>);
  }
  while (running.length > 0) yield await (running.shift() as Promise<B>);
}
