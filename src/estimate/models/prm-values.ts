// Values traces, as the policy has cut them, by a process reward model: the probability that step k is right (METHOD §3).
import { dataError, OutOfMemoryError, TraceRejected } from '../../errors.js';
import { deviceName } from '../../policy/device.js';
import type { PrmReads, ReadSteps } from '../../policy/run/prm-session.js';
import { type BadRow, eachTrace, isBad, rejectTrace } from '../../rows.js';
import type { TokenText } from '../../segment/span.js';
import type { Trace } from '../../trace.js';
import { type Load, planBatches } from '../batch.js';
import { type PassJob, windowsOf } from '../cut-windows.js';
import type { TraceResult } from '../trace-result.js';
import { noReferences } from '../value.js';
import type { Scored, Valued } from '../windows.js';
import type { Prm } from './prm.js';
import { stepSequence, stepsOf } from './steps.js';

/** How the model is run. */
export interface JudgedBy extends Pick<Prm, 'folder' | 'tokenizer'> {
  readonly session: PrmReads;
  /** the window of an input row: traces of different ones never share a run */
  readonly window: (row: number) => number;
}

/** What of a trace the model reads. */
interface Job extends PassJob {
  readonly tokens: TokenText;
  readonly chars: Int32Array | null;
}

/** A trace in the model's pass. */
interface Judged<T> {
  readonly job: T;
  readonly trace: Trace;
  readonly result: TraceResult;
  readonly read: ReadSteps;
  /** (K) a segment without text is no step: nothing is judged there */
  readonly blank: readonly boolean[];
}

/** v_0: before the first step nothing is wrong. [ours] */
const START = 1;
/** How far rounding may take a softmax beyond 1. */
const ROUNDING = 1e-5;

/**
 * Values of every trace at the exits where the policy has cut it; the order is the input's.
 * @throws RredcotError (exit 65) where the model gives what is no probability
 */
export async function* prmValues<T extends Job>(
  scored: AsyncIterable<Scored<T> | BadRow>,
  { session, window, folder, tokenizer }: JudgedBy,
): AsyncGenerator<Valued<T> | BadRow> {
  const jobs = eachTrace(scored, async ({ job, trace, result }): Promise<Judged<T>> => {
    if (result instanceof TraceRejected) throw result;
    const { tokens, chars, again } = job;
    if (again?.promptIds === undefined) throw new Error('a trace without a prompt for the reward model');
    const steps = stepsOf(tokens, result.segmentation, chars === null);
    const read = await stepSequence(again.promptIds, steps, folder, tokenizer.encode);
    return { job, trace, result, read, blank: steps.steps.map((step) => step.trim() === '') };
  });
  for await (const { items } of windowsOf(jobs, window)) {
    const judged = items.filter((item): item is Judged<T> => !isBad(item));
    const found = new Map<object, Float32Array | TraceRejected>();
    for (const batch of planBatches(judged.map(loadOf))) {
      const members = batch.map((i) => judged[i] as Judged<T>);
      for (const [n, shares] of (await readAll(session, members)).entries())
        found.set(members[n] as Judged<T>, shares);
    }
    for (const item of items) {
      if (isBad(item)) {
        yield item;
        continue;
      }
      const { job, trace, result, blank } = item;
      const shares = found.get(item) as Float32Array | TraceRejected;
      if (shares instanceof TraceRejected) {
        yield rejectTrace(trace, shares);
        continue;
      }
      const values = Float32Array.of(START, ...shares.map((share) => possible(share, trace, session)));
      for (const [k, isBlank] of blank.entries()) if (isBlank) values[k + 1] = values[k] as number;
      yield { job, trace, result, values: { values, ...noReferences(values.length) } };
    }
  }
}

function loadOf({ read }: { readonly read: ReadSteps }): Load {
  return { tokens: read.ids.length, branchRows: 0, longestBranch: 0 };
}

/** P(right) of every trace's steps; a reject for one that memory does not hold alone. */
async function readAll(
  session: PrmReads,
  jobs: readonly { readonly read: ReadSteps }[],
): Promise<(Float32Array | TraceRejected)[]> {
  const withSteps = jobs.filter(({ read }) => read.rows.length > 0);
  try {
    const found = withSteps.length === 0 ? [] : await session.read(withSteps.map(({ read }) => read));
    return jobs.map((job) => found[withSteps.indexOf(job)] ?? new Float32Array(0));
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    const [only] = jobs;
    if (jobs.length === 1)
      return [
        new TraceRejected(
          'out_of_memory',
          `the machine has not enough memory for the reward model on its ${only?.read.ids.length} tokens: run it where there is more`,
        ),
      ];
    const half = Math.ceil(jobs.length / 2);
    return [...(await readAll(session, jobs.slice(0, half))), ...(await readAll(session, jobs.slice(half)))];
  }
}

/** A broken model or device: nothing that it says can be trusted, so the run ends. */
function possible(share: number, { id, source }: Trace, { device }: PrmReads): number {
  if (share >= 0 && share <= 1 + ROUNDING) return Math.min(1, share);
  throw dataError(
    `${source.file}:${source.row} (id ${JSON.stringify(id)}): the reward model on ${deviceName(device)} gave P(right) ${share}, expected 0 to 1`,
    'rredcot policy check <folder>; the checkpoint may be damaged, or not of the kind that its config.json says',
  );
}
