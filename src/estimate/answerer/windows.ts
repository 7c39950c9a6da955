// Answers questions about a stream of traces by ONNX sessions: windows of neighbours, which alone may share runs of the policy, one after the other, in input order.
import { TraceRejected } from '../../errors.js';
import { planWindow, type Strategy, type TraceJob } from '../../model/onnx/plan.js';
import type { ModelSession, PolicyRuns } from '../../model/onnx/session.js';
import { joinIds } from '../../model/text/encode.js';
import type { AnsweredJob, Answerer, Answers, AskedJob, Windows } from '../../question.js';
import { type BadRow, eachTrace, isBad } from '../../rows.js';
import { cutAs, isCutLate } from '../../segment/segment.js';
import type { Trace } from '../../trace.js';
import { answerCut, type KeepsPrefix, runBatch } from './batch.js';
import { divergences } from './divergence.js';

/** Traces a window, about: an input row may explode into many, which stay together; and where the last layer's rows of all are held. */
const WINDOW_TRACES = 256;
export const WINDOW_ROWS = 16;

/**
 * Consecutive items of one window each; one that has very many traces comes in several parts, each of whole rows.
 * @param windowOf the window of an input row, by its number over all inputs @param most traces of one
 */
export async function* windowsOf<T extends { readonly trace: Trace }>(
  items: AsyncIterable<T | BadRow>,
  windowOf: (ordinal: number) => number,
  most = WINDOW_TRACES,
): AsyncGenerator<readonly (T | BadRow)[]> {
  let held: (T | BadRow)[] = [];
  let [current, row] = [-1, -1];
  for await (const item of items) {
    const { ordinal } = isBad(item) ? item : item.trace.source;
    const own = windowOf(ordinal);
    const isFull = held.length >= most && ordinal !== row;
    if (held.length > 0 && (own !== current || isFull)) {
      yield held;
      held = [];
    }
    [current, row] = [own, ordinal];
    held.push(item);
  }
  if (held.length > 0) yield held;
}

/** One stage on every trace of every window, as {@link eachTrace}. @param stage made for a window's traces */
export async function* eachInWindow<A extends { readonly trace: Trace }, B>(
  windows: Windows<A>,
  stage: (items: readonly A[]) => (item: A) => Promise<B>,
): AsyncGenerator<readonly (B | BadRow)[]> {
  for await (const items of windows) {
    const done: (B | BadRow)[] = [];
    const fn = stage(items.filter((item): item is A => !isBad(item)));
    for await (const item of eachTrace(items, fn)) done.push(item);
    yield done;
  }
}

/**
 * The sessions of a run as one who answers.
 * @param second who reads a trace once more, where some are asked for that; absent: nobody is
 * @param window of an input row: traces of different ones never share a run @param most traces of one
 */
export function answererOf(
  session: PolicyRuns & KeepsPrefix,
  second: PolicyRuns | undefined,
  window: (ordinal: number) => number,
  most?: number,
): Answerer {
  return (windows) => {
    const answered = scoreWindows(windows, session);
    const cut = inOrder(answered, session.width ?? 1, async (item) => {
      const asked = eachTrace([item], async ({ job, trace, result }) => {
        const questions = job.asked?.whenCut?.(result.segmentation.exits);
        const whenCut = questions && (await answerCut(session, job, result.segmentation.exits, questions));
        const all = { ...result, ...(whenCut && { whenCut }) };
        const samples = await session.sample?.(job, job.asked?.samples?.(all) ?? []);
        return { job, trace, result: { ...all, ...(samples && { samples }) } };
      });
      return (await asked.next()).value as typeof item;
    });
    return second === undefined
      ? cut
      : readAgain(cut, [session, second], (jobs) => windowsOf(jobs, window, most));
  };
}

/** Reads every trace once more as its question has it, cut where the policy has cut it: entropies and log-probabilities stay the policy's. */
async function* readAgain<T extends AskedJob>(
  answered: AsyncIterable<AnsweredJob<T> | BadRow>,
  [policy, session]: readonly [PolicyRuns, second: PolicyRuns],
  windowed: <A extends AskedJob>(jobs: AsyncIterable<A | BadRow>) => Windows<A>,
): AsyncGenerator<AnsweredJob<T> | BadRow> {
  const jobs = eachTrace(answered, ({ job, trace, result }) => {
    const { promptIds = job.promptIds, atExits = [], otherPromptIds: other } = job.asked?.second ?? {};
    const own = { completionIds: job.completionIds, pieces: cutAs(job.pieces, result.segmentation) };
    const peers = other && [{ ...own, trace: { ...trace }, promptIds: other }];
    const asked = { atExits, last: job.asked?.last === true, ...(peers && { peers }) };
    return { ...own, trace, promptIds, asked, first: { job, trace, result } };
  });
  const read = scoreWindows(windowed(jobs), session);
  yield* eachTrace(read, async ({ job, result: { last: ofSecond, likeliest: told, ...second } }) => {
    const { last, likeliest, ...result } = job.first.result;
    if (!job.asked.last) return { ...job.first, result: { ...result, second } };
    const own = { session: policy as ModelSession, last, likeliest, logprobs: result.logprobs };
    const other = {
      session: session as ModelSession,
      last: ofSecond,
      likeliest: told,
      logprobs: second.logprobs,
    };
    const compared = await divergences(own, other, job);
    return { ...job.first, result: { ...result, second: { ...second, ...compared } } };
  });
}

/** While one batch is in the graph, the next is prepared and the last one written. */
const BATCHES_AT_WORK = 3;

/**
 * Scores every trace; the order is the input's, whatever ran together. What was rejected passes by in its place, and so does what
 * the policy could not read.
 * @throws RredcotError (exit 65) where the policy gives numbers that cannot be
 * @param windows traces of different ones never share a run
 */
async function* scoreWindows<T extends AskedJob>(
  windows: Windows<T>,
  session: PolicyRuns,
): AsyncGenerator<AnsweredJob<T> | BadRow> {
  async function* batches() {
    for await (const window of windows) {
      const own = window.filter((item): item is T => !isBad(item));
      // peers that lie in other windows, each once: they run along, and are not passed on
      const peers = new Map(own.flatMap(({ asked }) => asked?.peers ?? []).map((peer) => [peer.trace, peer]));
      for (const { trace } of own) peers.delete(trace);
      const jobs = [...own, ...peers.values()].map((job: AskedJob): TraceJob => {
        const { trace, promptIds, completionIds, pieces, asked = { atExits: [] } } = job;
        const promptLength = promptIds.length;
        return { trace, ids: joinIds(promptIds, completionIds), promptLength, pieces, asked };
      });
      const planned = session.width === undefined ? planWindow(jobs, session) : jobs.map(aloneAs);
      // a window without a job still has to pass in its turn
      if (planned.length === 0) planned.push({ strategy: 'one-run', jobs: [] });
      for (const [n, batch] of planned.entries())
        yield { ...batch, window, isLast: n === planned.length - 1 };
    }
  }
  const done = inOrder(batches(), session.width ?? BATCHES_AT_WORK, async (batch) => {
    const { jobs, strategy } = batch;
    const run = jobs.length === 0 ? [] : runBatch(session, jobs, strategy).catch(rejectedAlone);
    return { ...batch, scored: await run };
  });
  const results = new Map<Trace, Answers | TraceRejected>(); // of one window
  const logprobsOf = ({ trace }: AskedJob): Float32Array | undefined => {
    const result = results.get(trace);
    return result instanceof TraceRejected ? undefined : result?.logprobs;
  };
  for await (const { window, jobs, scored, isLast } of done) {
    for (const [n, { trace }] of jobs.entries())
      results.set(trace as Trace, scored[n] as Answers | TraceRejected);
    if (!isLast) continue;
    yield* eachTrace(window, (item) => {
      const result = results.get(item.trace) as Answers | TraceRejected;
      if (result instanceof TraceRejected) throw result;
      const peers = item.asked?.peers?.map(logprobsOf);
      const { noise } = session;
      const told = { ...result, ...(peers && { peers }), ...(noise !== undefined && { noise }) };
      return { job: item, trace: item.trace, result: told };
    });
    results.clear();
  }
}

/** As an engine is asked: where nothing has to be merged the exits are known from the start. */
function aloneAs(job: TraceJob): { readonly strategy: Strategy; readonly jobs: readonly TraceJob[] } {
  const { ends, segments } = job.pieces;
  const isCut = ends.length === segments && !isCutLate(job.pieces);
  return { strategy: isCut ? 'one-run' : 'two-run', jobs: [job] };
}

/** What an engine does not answer of a trace is the end of that trace alone. */
function rejectedAlone(error: unknown): readonly TraceRejected[] {
  if (error instanceof TraceRejected) return [error];
  throw error;
}

/** Yields `fn(item)` for every item, `width` of them at work at a time. */
async function* inOrder<A, B>(
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
