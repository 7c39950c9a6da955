// Attributions that the policy reads a trace again for: scored traces in, the same with values that sum them up out.
import { TraceRejected } from '../../errors.js';
import { type BadRow, eachTrace } from '../../rows.js';
import { summedAttributions } from '../attribution/summed.js';
import type { PassJob } from '../passes/cut-windows.js';
import { ImpossibleNumberError } from '../passes/possible.js';
import { impossible, type Scored, type Valued } from '../passes/windows.js';
import { traceValues } from '../value.js';
import { type KeepsTrunks, type Loo, leaveOneOut } from './deletions.js';

/** What reads a trace again. */
export type Attributes = KeepsTrunks & Parameters<typeof impossible>[2];

/** Which attribution, and how. */
export interface AttributionOptions {
  readonly estimator: 'loo';
  readonly loo: Loo;
}

/** The options as a configuration has them. */
export function attributionConfig({ loo }: AttributionOptions) {
  return { loo };
}
/** Its keys: they go with the estimator. */
export const ATTRIBUTION_KEYS: readonly string[] = ['loo'];

/** Attributes every trace; what was set aside passes by in its place. @throws RredcotError (exit 65) for numbers that cannot be */
export function attributedValues<T extends PassJob>(
  scored: AsyncIterable<Scored<T> | BadRow>,
  session: Attributes,
  opts: AttributionOptions,
): AsyncGenerator<Valued<T> | BadRow> {
  return eachTrace(scored, async ({ job, trace, result }) => {
    if (result instanceof TraceRejected) throw result;
    const { branches, segmentation } = result;
    const { promptIds, completionIds, continuations } = job;
    const { exits } = segmentation;
    const utilities = Float32Array.from(continuations, ({ utility }) => utility);
    const last = branches[branches.length - 1] ?? [];
    const read = { promptIds, completionIds, exits, continuations };
    const attributions = await leaveOneOut(session, read, last, opts.loo).catch((error: unknown) => {
      throw error instanceof ImpossibleNumberError ? impossible(trace, error, session) : error;
    });
    // the references' log-probabilities are stored as those of pr
    const values = { ...traceValues(branches, utilities, 'pr'), values: summedAttributions(attributions) };
    return { job, trace, result, values };
  });
}
