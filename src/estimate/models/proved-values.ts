// Values traces under another policy: the prover answers at the exits that the policy has cut (METHOD §3).
import { TraceRejected } from '../../errors.js';
import type { PolicyRuns } from '../../policy/run/session.js';
import { type BadRow, eachTrace } from '../../rows.js';
import type { Pieces, Segmentation } from '../../segment/segment.js';
import { type PassJob, windowsOf } from '../cut-windows.js';
import type { Nature } from '../nature.js';
import type { TraceResult } from '../trace-result.js';
import { traceValues } from '../value.js';
import { type Scored, scoreWindows, type Valued } from '../windows.js';

/** How the prover is run. */
export interface ProvedBy {
  /** how the prover values a state */
  readonly nature: Nature;
  readonly session: PolicyRuns;
  /** the window of an input row: traces of different ones never share a run */
  readonly window: (row: number) => number;
}

/** A trace in the prover's pass, with what the policy said of it. */
interface ProverJob<T> extends PassJob {
  readonly job: T;
  readonly cut: TraceResult;
}

/** Values of every trace at the exits where the policy has cut it; entropies and log-probabilities stay the policy's. */
export async function* provedValues<T extends PassJob>(
  scored: AsyncIterable<Scored<T> | BadRow>,
  { session, window, nature }: ProvedBy,
): AsyncGenerator<Valued<T> | BadRow> {
  const jobs = eachTrace(scored, ({ job, trace, result }): ProverJob<T> => {
    if (result instanceof TraceRejected) throw result;
    const { promptIds, completionIds, again } = job;
    const continuations = again?.continuations ?? [];
    const pieces = cutAs(job.pieces, result.segmentation);
    return { trace, promptIds, completionIds, pieces, continuations, job, cut: result };
  });
  const proved = scoreWindows(windowsOf(jobs, window), session, { who: 'the prover' });
  yield* eachTrace(proved, ({ job: { job, cut, continuations }, trace, result }) => {
    if (result instanceof TraceRejected) throw result;
    const utilities = Float32Array.from(continuations, ({ utility }) => utility);
    return { job, trace, result: cut, values: traceValues(result.branches, utilities, nature) };
  });
}

/** Pieces that are the segments already: nothing is left to be merged. */
export function cutAs({ tokens, thought, opts }: Pieces, { thoughtEnds: ends }: Segmentation): Pieces {
  const { fixedLength } = opts;
  return { tokens, thought, ends, segments: ends.length, opts: { segmenter: 'given', fixedLength } };
}
