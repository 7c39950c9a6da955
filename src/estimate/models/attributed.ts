// Adds to scored traces the values that sum up attributions for which the policy reads a trace again.
import { OutOfMemoryError, TraceRejected } from '../../errors.js';
import type { PolicySession } from '../../policy/run/session.js';
import { type BadRow, eachTrace } from '../../rows.js';
import type { PassJob } from '../cut-windows.js';
import { ImpossibleNumberError } from '../possible.js';
import { summedAttributions } from '../summed.js';
import { scoredReferences } from '../value.js';
import { impossible, type Scored, type Valued } from '../windows.js';
import { type Ablated, type KeepsTrunks, type Loo, leaveOneOut } from './deletions.js';
import { overSegments, posteriors, sequenceOf } from './sequence.js';

/** What reads a trace again. */
export type Attributes = KeepsTrunks &
  Pick<PolicySession, 'openAttribution' | 'attribute'> &
  Parameters<typeof impossible>[2];

/** Which attribution, and how. */
export type AttributionOptions =
  | { readonly estimator: 'loo'; readonly loo: Loo }
  | { readonly estimator: 'attention' | 'gradient' };

/** Opens what an attribution runs. @throws RredcotError (exit 2) where the folder has it not */
export async function openAttribution(session: Attributes, { estimator }: AttributionOptions): Promise<void> {
  if (estimator !== 'loo') await session.openAttribution(estimator);
}

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
    const read = { promptIds, completionIds, exits: segmentation.exits, continuations };
    const last = branches[branches.length - 1] ?? [];
    const attributions = await attributionsOf(session, read, last, opts).catch((error: unknown) => {
      throw error instanceof ImpossibleNumberError ? impossible(trace, error, session) : error;
    });
    const values = { ...scoredReferences(branches), values: summedAttributions(attributions) };
    return { job, trace, result, values };
  });
}

/**
 * What each segment counts for.
 * @param logprobs (N) of each reference's scored tokens after the whole thought
 * @returns (K); 0 for all where no reference earns anything
 * @throws TraceRejected (`out_of_memory`), ImpossibleNumberError
 */
export async function attributionsOf(
  session: Attributes,
  trace: Ablated,
  logprobs: readonly Float32Array[],
  opts: AttributionOptions,
): Promise<Float64Array> {
  if (opts.estimator === 'loo') return leaveOneOut(session, trace, logprobs, opts.loo);
  const isAttention = opts.estimator === 'attention';
  const weights = posteriors(logprobs, trace.continuations);
  if (weights.every((weight) => weight === 0)) return new Float64Array(trace.exits.length - 1);
  const sequence = sequenceOf(trace, weights, isAttention);
  const found = await session.attribute(sequence).catch((error: unknown) => {
    if (!(error instanceof OutOfMemoryError)) throw error;
    const S = sequence.ids.length;
    const reason = `the machine has not enough memory for the attention of its ${S} tokens with references, ${S} × ${S} numbers a head: --estimator pr needs less, or run it where there is more`;
    throw new TraceRejected('out_of_memory', reason);
  });
  const at = found.findIndex((x) => !(x >= 0 && x < Number.POSITIVE_INFINITY));
  if (at >= 0) {
    const what = isAttention ? 'attention' : 'a squared gradient';
    throw new ImpossibleNumberError(
      trace,
      `${what} of ${found[at]} at token ${at}, expected a number from 0`,
    );
  }
  const sums = overSegments(found, trace);
  return isAttention ? sums : sums.map(Math.sqrt);
}
