// Values scored traces by how a hint changes what the policy says of their tokens: one more pass (METHOD §3, `posterior`).
import { TraceRejected } from '../../errors.js';
import type { PolicyRuns } from '../../policy/run/session.js';
import { type BadRow, eachTrace } from '../../rows.js';
import { type PassJob, windowsOf } from '../cut-windows.js';
import { posteriorValues } from '../posterior.js';
import type { TraceResult } from '../trace-result.js';
import { noReferences } from '../value.js';
import { type Scored, scoreWindows, type Valued } from '../windows.js';
import { HINT_LOGPROBS } from './columns.js';
import { cutAs } from './proved-values.js';

/** How the hint is read. */
export interface HintedBy {
  readonly session: PolicyRuns;
  /** the window of an input row: traces of different ones never share a run */
  readonly window: (row: number) => number;
}

/** A trace in the second pass, with what the first one said of it. */
interface HintedJob<T> extends PassJob {
  readonly job: T;
  readonly cut: TraceResult;
}

/** Reads every trace again behind its prompt with the hint; what was set aside passes by in its place. */
export async function* hintedValues<T extends PassJob>(
  scored: AsyncIterable<Scored<T> | BadRow>,
  { session, window }: HintedBy,
): AsyncGenerator<Valued<T> | BadRow> {
  const jobs = eachTrace(scored, ({ job, trace, result }): HintedJob<T> => {
    if (result instanceof TraceRejected) throw result;
    const { completionIds, again } = job;
    const promptIds = again?.promptIds ?? job.promptIds;
    const pieces = cutAs(job.pieces, result.segmentation);
    return { trace, promptIds, completionIds, pieces, continuations: [], job, cut: result };
  });
  const read = scoreWindows(windowsOf(jobs, window), session, { who: 'the reader of the hint' });
  yield* eachTrace(read, ({ job: { job, cut }, trace, result }) => {
    if (result instanceof TraceRejected) throw result;
    const { exits } = cut.segmentation;
    const values = {
      values: posteriorValues(cut.logprobs, result.logprobs, exits),
      columns: { [HINT_LOGPROBS]: result.logprobs },
      ...noReferences(exits.length),
    };
    return { job, trace, result: cut, values };
  });
}
