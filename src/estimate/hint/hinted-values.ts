// Scored traces in, their values by how a hint changes what the policy says of their tokens out: one more pass (METHOD §3, `posterior`).
import { TraceRejected } from '../../errors.js';
import { FLOAT32_LIST, type OutputColumn } from '../../io/table/output-columns.js';
import type { PolicyRuns } from '../../policy/run/session.js';
import { type BadRow, eachTrace } from '../../rows.js';
import { posteriorValues } from '../attribution/posterior.js';
import { type PassJob, windowsOf } from '../passes/cut-windows.js';
import { type Scored, scoreWindows, type Valued } from '../passes/windows.js';
import { cutAs } from '../prover/proved-values.js';
import type { TraceResult } from '../trace-result.js';
import { noReferences } from '../value.js';

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
    const { promptIds, hinted = promptIds, completionIds } = job;
    const pieces = cutAs(job.pieces, result.segmentation);
    return { trace, promptIds: hinted, completionIds, pieces, continuations: [], job, cut: result };
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

const HINT_LOGPROBS = 'hint_logprobs';

/** The column that such a run writes beside ours: log p of the completion's tokens with the hint. */
export const HINT_COLUMNS: readonly OutputColumn[] = [
  { name: HINT_LOGPROBS, type: FLOAT32_LIST, value: ({ requested }) => requested?.[HINT_LOGPROBS] ?? null },
];

/** What a stored row holds in it. @param cell of the row; null where there is none */
export function storedHinted(cell: (name: string) => unknown): Readonly<Record<string, unknown>> {
  const list = cell(HINT_LOGPROBS);
  return { [HINT_LOGPROBS]: Array.isArray(list) ? Float32Array.from(list as number[]) : null };
}
