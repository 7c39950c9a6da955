// Values of traces that are ready: by the policy's pass and what the estimator opens beside it, or the rows' own, which need none.
import type { RewardedTrace } from '../estimate/baseline.js';
import type { ValueJob } from '../estimate/estimator.js';
import type { Reward } from '../estimate/reward.js';
import { type PassJob, scoreWindows, type Valued, windowsOf } from '../estimate/windows.js';
import { windowOf } from '../io/files/chunks.js';
import { noteProof } from '../model/onnx/canary.js';
import { ModelSession } from '../model/onnx/session.js';
import type { Log } from '../report/log.js';
import { type BadRow, eachTrace } from '../rows.js';
import type { Run } from '../run/open-run.js';
import type { Source } from '../run/source.js';
import { mergeSegments } from '../segment/segment.js';
import type { Trace } from '../trace.js';
import type { Method, preparing } from './ready.js';

/** What makes them. */
export interface ValuesOptions extends Pick<Method, 'need' | 'estimator' | 'opened'> {
  readonly run: Run;
  readonly source: Source;
  readonly prepare: Awaited<ReturnType<typeof preparing>>;
  readonly rewardOf: (trace: Trace) => Reward;
  readonly log: Log;
}

/** Closes at the end of a block what may have nothing to close. */
export function closing(it: Partial<AsyncDisposable>): AsyncDisposable {
  return { [Symbol.asyncDispose]: async () => it[Symbol.asyncDispose]?.() };
}

/**
 * Values every trace, in its order.
 * @throws RredcotError: exit 65 where a model gives numbers that cannot be, 69 where it does not prove itself
 */
export async function* valuesOf(
  ready: AsyncIterable<ValueJob | BadRow>,
  opts: ValuesOptions,
): AsyncGenerator<Valued<ValueJob> | BadRow> {
  const { need, estimator } = opts;
  if (need === 'pass') return yield* ofPass(ready, opts);
  if (estimator.values === undefined) throw new TypeError('values of rows need nothing started');
  yield* estimator.values(unread(ready));
}

async function* ofPass(
  ready: AsyncIterable<ValueJob | BadRow>,
  { estimator, opened, run, source, prepare, rewardOf, log }: ValuesOptions,
): AsyncGenerator<Valued<ValueJob> | BadRow> {
  const { policy, device } = opened;
  // the policy and the estimator's own models, which prove themselves
  await using session = await (estimator.openSession ?? ModelSession.open)(policy, device);
  noteProof(run, log, session, 'policy');
  const window = (row: number): number => windowOf(row, run.rowsPerChunk);
  const again = ({ trace }: Pick<RewardedTrace, 'trace'>) =>
    prepare({ trace, reward: rewardOf(trace), groupMean: undefined });
  const started = await estimator.start({
    ...{ session, window },
    whole: { again: source.again, run, prepare: again },
    note: (other, model) => noteProof(run, log, other, model),
  });
  await using _started = closing(started);
  // segments, and the references' log-probabilities at their exit points
  const windows = windowsOf(ready, window);
  yield* started.values(scoreWindows(started.together?.(windows) ?? windows, session));
}

/** Traces as if they had been scored, where no policy reads them: nothing is said of their tokens. */
function unread<T extends PassJob>(ready: AsyncIterable<T | BadRow>) {
  return eachTrace(ready, (job) => {
    const segmentation = mergeSegments(job.pieces, null);
    const none = new Float32Array(job.completionIds.length);
    const branches = Array.from(segmentation.exits, () => []);
    const result = { logprobs: none, entropies: none, isUnread: true as const, segmentation, branches };
    return { job, trace: job.trace, result, needed: [] };
  });
}
