// From what the policy said of a trace to its row in the output: baseline, σ, segments, status.
import type { EncodedTrace } from '../policy/text/encode.js';
import type { OutputRow } from '../scored.js';
import { allEnds, type Pieces, segmentSums } from '../segment/segment.js';
import { segmentRows } from '../segment/segment-rows.js';
import { THINK_CLOSE } from '../segment/span.js';
import { bankFault } from './bank.js';
import type { GroupMean, RewardedTrace } from './baseline.js';
import { type Estimator, natureOf } from './estimators.js';
import type { ScoredBank } from './references.js';
import { redistribute, type SigmaInput, type SigmaOptions, sigmaEss, sigmaMaxWeight } from './sigma.js';
import type { TraceResult } from './trace-result.js';
import type { TraceValues } from './value.js';

/**
 * b: the group's mean reward, v̂(s_0), a number, or by itself: V(s_0) where values are on the reward's scale, else the group's
 * mean where there is a group and v̂(s_0) elsewhere.
 */
export type Baseline = 'auto' | 'group' | 'value' | number;

/** How values become credit. */
export interface CreditOptions extends SigmaOptions {
  readonly estimator: Estimator;
  readonly baseline: Baseline;
  /** input rewards low..high are mapped onto 0..1 */
  readonly rewardRange: readonly [low: number, high: number];
}

/** A trace with everything that its scoring needs. */
export interface ReadyTrace extends EncodedTrace, RewardedTrace, GroupMean, ScoredBank {
  readonly pieces: Pieces;
}

/** Values to σ: METHOD §4, from what is stored, in float32. */
export function creditTrace(
  item: ReadyTrace,
  { entropies, logprobs, segmentation }: TraceResult,
  { values, referenceLogprobs, referenceTokens }: TraceValues,
  opts: CreditOptions,
): OutputRow {
  const { reward } = item.reward;
  const referenceUtilities = Float32Array.from(item.bank, (reference) => reference.utility);
  const fault = bankFault(referenceUtilities, opts.estimator);
  const { baseline, status } =
    fault === undefined
      ? baselineOf(item.groupMean, values[0] as number, reward, opts)
      : { baseline: undefined, status: fault };
  const ends = allEnds(segmentation);
  const input: SigmaInput = {
    ends,
    answered: segmentation.answered,
    values,
    estimator: opts.estimator,
    entropies,
    reward,
    baseline,
  };
  const { sigma, deltas, fallback } = redistribute(input, opts);
  return {
    trace: item.trace,
    promptIds: item.promptIds,
    completionIds: item.completionIds,
    logprobs,
    entropies,
    sigma,
    segments: segmentRows({
      segmentation,
      chars: item.chars,
      entropies: segmentSums(entropies, ends),
      values,
      deltas,
      sigma,
    }),
    valueStart: values[0] as number,
    referenceLogprobs,
    reward,
    baseline: baseline ?? null,
    referenceUtilities,
    referenceTokens,
    sigmaEss: sigmaEss(sigma),
    sigmaMaxWeight: sigmaMaxWeight(sigma),
    closesThought: item.tokens.text.includes(THINK_CLOSE),
    status: [...new Set([...item.status, ...item.reward.status, ...(fallback ? [status ?? fallback] : [])])],
  };
}

/** b of METHOD §4, as stored (float32); undefined, with the reason, where the trace has none. */
function baselineOf(
  groupMean: number | undefined,
  valueStart: number,
  reward: number | null,
  { baseline, estimator }: CreditOptions,
): { baseline: number | undefined; status?: string } {
  if (typeof baseline === 'number') return { baseline: Math.fround(baseline) };
  const { isLog, onRewardScale } = natureOf(estimator);
  const asksForMean = baseline === 'group' || (baseline === 'auto' && !onRewardScale);
  if (asksForMean && groupMean !== undefined) return { baseline: Math.fround(groupMean) };
  if (baseline === 'group' || isLog) return { baseline: undefined };
  // an expected reward is a baseline for any reward
  if (onRewardScale) return { baseline: valueStart };
  // v̂(s_0) is a probability of being right: no baseline for a graded reward
  if (reward !== null && reward !== 0 && reward !== 1)
    return { baseline: undefined, status: 'uniform:graded-reward' };
  return { baseline: valueStart };
}
