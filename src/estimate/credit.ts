// From what the policy said of a trace to its row in the output: baseline, σ, segments, status.
import type { EncodedTrace } from '../model/text/encode.js';
import type { Answers } from '../question.js';
import { type OutputRow, ownTokens, UNREAD, withoutShown } from '../scored.js';
import { allEnds, type Pieces, segmentRows, segmentSums } from '../segment/segment.js';
import { THINK_CLOSE } from '../segment/span.js';
import { compact, type OwnTokens, ownBefore, scattered } from '../turns.js';
import type { GroupMean, RewardedTrace } from './baseline.js';
import { hasLevel, type Nature } from './nature.js';
import type { ScoredBank } from './references.js';
import { bankFault } from './references.js';
import { PROGRESS, type RequestOptions, requestedOf, type TokenCounts } from './requested.js';
import { redistribute, type SigmaInput, sigmaEss, sigmaGain, sigmaMaxWeight } from './sigma.js';
import type { TraceValues } from './value.js';

/**
 * b: the group's mean reward, that of the trace's mates alone (RLOO, arXiv 2402.14740), v̂(s_0), a number, or by itself: V(s_0)
 * where values are on the reward's scale, else the group's mean where there is a group and v̂(s_0) elsewhere.
 */
export const BASELINES = ['auto', 'group', 'rloo', 'value'] as const;
export type Baseline = (typeof BASELINES)[number] | number;

/** How values become credit. */
export interface CreditOptions extends RequestOptions {
  /** what values are, as far as credit depends on it */
  readonly estimator: Nature;
  readonly baseline: Baseline;
  /** input rewards low..high are mapped onto 0..1 */
  readonly rewardRange: readonly [low: number, high: number];
}

/** The options as a configuration has them: the same keys in the same order, what was not asked for left out. */
export function creditConfig({ estimator, rule, others = [], ...rest }: CreditOptions) {
  const { baseline, residual, within, rewardRange, ...shaping } = rest;
  const { steps, even, cap, tau, gamma, smooth, method, alpha, beta } = shaping;
  const { normalisers, batchSize, maxCompletionLength } = shaping;
  return {
    estimator: estimator.name,
    ...estimator.config,
    rule: others.length === 0 ? rule : [rule, ...others],
    ...{ baseline, residual, within, rewardRange },
    ...{ steps, even, cap, tau, gamma, smooth, method, alpha, beta },
    ...(method === 'hierarchical' && { returnEquivalent: false }),
    ...{ normalisers, batchSize, maxCompletionLength },
  };
}

/** A trace with everything that its scoring needs. */
export interface ReadyTrace extends EncodedTrace, RewardedTrace, GroupMean, ScoredBank {
  readonly pieces: Pieces;
}

/** What of a trace its credit follows from, all of it as stored, and of the policy's own tokens alone: T counts these. */
export interface Creditable
  extends GroupMean,
    Pick<SigmaInput, 'ends' | 'answered' | 'values' | 'entropies' | 'logprobs' | 'reward'> {
  /** (N) ζ_n of the bank */
  readonly utilities: Float32Array;
  /** V(s_0) for a baseline, where the first value has the trace's own outcome in it */
  readonly start?: number | undefined;
  /** where these tokens stand among those that the policy was shown; undefined where it was shown none */
  readonly own?: OwnTokens | undefined;
}

/** What a stored row was credited by, but for its group: float32 as stored. What it lacks counts as nothing. */
export function creditableOf(row: OutputRow, { isLog }: Nature): Omit<Creditable, keyof GroupMean> {
  const { segments, requested, reward, entropies, logprobs } = withoutShown(row);
  const ends = Int32Array.from(segments, ({ end }) => end ?? 0);
  const T = ends.at(-1) ?? 0;
  const thoughts = segments.filter(({ kind }) => kind === 'thought').map(({ value }) => value);
  // JSON has no −∞
  const none = isLog ? Number.NEGATIVE_INFINITY : 0;
  const prior = requested?.value_prior;
  return {
    ends,
    answered: segments.at(-1)?.kind === 'answer',
    values: Float32Array.from([row.valueStart, ...thoughts], (value) => value ?? none),
    // V(s_0) for a baseline, where values rest on the trace's own outcome
    start: prior instanceof Float32Array ? prior[0] : undefined,
    reward: reward === null ? null : Math.fround(reward),
    utilities: row.referenceUtilities ?? new Float32Array(0),
    entropies: entropies ?? new Float32Array(T),
    logprobs: logprobs ?? new Float32Array(T),
    own: ownTokens(row),
  };
}

/** A trace's credit, as it is stored. */
export interface Credit
  extends Pick<OutputRow, 'baseline' | 'sigmaEss' | 'sigmaMaxWeight' | 'sigmaGain' | 'requested'> {
  readonly sigma: Float32Array;
  readonly deltas: Float32Array;
  /** codes */
  readonly status: readonly string[];
}

/** Values to σ: METHOD §4, from what is stored, in float32. @param counts as of {@link requestedOf} */
export function creditOf(
  { groupMean, matesMean, groupStd, utilities, start, own, ...trace }: Creditable,
  opts: CreditOptions,
  counts?: TokenCounts,
): Credit {
  const fault = bankFault(utilities, opts.estimator);
  const { baseline, noBaseline, isMean } =
    fault === undefined
      ? baselineOf({ groupMean, matesMean }, start ?? (trace.values[0] as number), trace.reward, opts)
      : { baseline: undefined };
  const std = isMean && groupStd !== undefined ? Math.fround(groupStd) : undefined;
  const made = { estimator: opts.estimator, baseline, noBaseline, fault };
  const input: SigmaInput = { ...trace, ...made, ...(std === undefined ? {} : { groupStd: std }) };
  const { sigma, deltas, fallback } = redistribute(input, opts);
  const { columns, status } = requestedOf(input, opts, counts);
  // beside the segments', lists have an entry for each token
  const placed = Object.entries(columns).map(([name, list]) => {
    return [name, list instanceof Float32Array && name !== PROGRESS ? scattered(list, own) : list];
  });
  return {
    sigma: scattered(sigma, own),
    deltas,
    baseline: baseline ?? null,
    sigmaEss: sigmaEss(sigma),
    sigmaMaxWeight: sigmaMaxWeight(sigma),
    sigmaGain: sigmaGain(sigma, trace.logprobs),
    requested: own === undefined ? columns : Object.fromEntries(placed),
    status: fallback === undefined ? status : [fallback, ...status],
  };
}

/** The row of a trace that was scored. */
export function creditTrace(
  item: ReadyTrace,
  { entropies, logprobs, segmentation, isUnread }: Answers,
  { values, start, columns, referenceLogprobs, referenceTokens, status: ofValues = [] }: TraceValues,
  opts: CreditOptions,
): OutputRow {
  const { groupMean, matesMean, groupStd } = item;
  const { reward } = item.reward;
  const referenceUtilities = Float32Array.from(item.bank, (reference) => reference.utility);
  const ends = allEnds(segmentation);
  const { own } = item.tokens;
  const before = own && ownBefore(own);
  const stored = {
    ends: before === undefined ? ends : ends.map((end) => before[end] as number),
    ...{ answered: segmentation.answered, values, start, reward, own },
    ...{ entropies: compact(entropies, own), logprobs: compact(logprobs, own) },
    ...{ groupMean, matesMean, groupStd, utilities: referenceUtilities },
  };
  const { sigma, deltas, status, ...summary } = creditOf(stored, opts);
  return {
    trace: item.trace,
    promptIds: item.promptIds.length === 0 ? null : item.promptIds,
    completionIds: item.completionIds,
    ...(isUnread ? { logprobs: null, entropies: null } : { logprobs, entropies }),
    sigma,
    segments: segmentRows({
      ...{ segmentation, own },
      chars: item.chars,
      ...(isUnread ? {} : { entropies: segmentSums(entropies, ends) }),
      values,
      deltas,
      sigma,
    }),
    valueStart: values[0] as number,
    referenceLogprobs,
    reward,
    referenceUtilities,
    referenceTokens,
    ...summary,
    requested: { ...summary.requested, ...columns },
    closesThought: item.tokens.text.includes(THINK_CLOSE),
    status: [
      ...new Set([
        ...item.status,
        ...item.reward.status,
        ...status,
        ...ofValues,
        ...(isUnread ? [UNREAD] : []),
      ]),
    ],
  };
}

/** Whether baselines are means of rewards of a trace's group. */
export function asksForMean({ baseline, estimator }: Pick<CreditOptions, 'baseline' | 'estimator'>): boolean {
  return baseline === 'group' || baseline === 'rloo' || (baseline === 'auto' && !estimator.onRewardScale);
}

/** Whether these are means of its mates alone, so that traces of a group share one where they have the same reward. */
export function isOfMates({ baseline }: Pick<CreditOptions, 'baseline'>): boolean {
  return baseline === 'rloo';
}

/** b of METHOD §4, as stored (float32); undefined, with the reason where it is a special one, where the trace has none. */
export function baselineOf(
  { groupMean, matesMean }: GroupMean,
  valueStart: number,
  reward: number | null,
  opts: CreditOptions,
): { baseline: number | undefined; noBaseline?: string; isMean?: boolean } {
  const { baseline } = opts;
  if (typeof baseline === 'number') return { baseline: Math.fround(baseline) };
  const isExpected = opts.estimator.onRewardScale === true;
  const isLeftOut = isOfMates(opts);
  const mean = isLeftOut ? matesMean : groupMean;
  if (asksForMean(opts) && mean !== undefined) return { baseline: Math.fround(mean), isMean: !isLeftOut };
  if (baseline === 'group' || isLeftOut || !hasLevel(opts.estimator)) return { baseline: undefined };
  // an expected reward is a baseline for any reward
  if (isExpected) return { baseline: valueStart };
  // v̂(s_0) is a probability of being right: no baseline for a graded reward
  if (reward !== null && reward !== 0 && reward !== 1)
    return { baseline: undefined, noBaseline: 'uniform:graded-reward' };
  return { baseline: valueStart };
}
