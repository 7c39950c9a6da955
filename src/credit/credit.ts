// The credit stage, the same for `score` and `redistribute`: from a row with values to its baseline, σ, differences, status.
import { type OutputRow, ownTokens, withOwn, withoutShown } from '../scored.js';
import { type OwnTokens, scattered } from '../turns.js';
import type { GroupMean } from './baseline.js';
import { hasLevel, type Nature, NO_REFERENCES, referenceFault } from './nature.js';
import { PROGRESS, type RequestOptions, requestedOf, type TokenCounts } from './requested.js';
import { SIGMA_RULES, sum } from './rules.js';
import { redistribute, type SigmaInput, sigmaEss, sigmaGain, sigmaMaxWeight } from './sigma.js';

/**
 * b: the group's mean reward, that of the trace's peers alone (RLOO, arXiv 2402.14740), v̂(s_0), a number, or by itself: V(s_0)
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
  const { steps, mix, cap, tau, gamma, smooth, method, alpha, beta } = shaping;
  const { normalisers, batchSize, maxCompletionLength } = shaping;
  return {
    estimator: estimator.name,
    ...estimator.config,
    rule: others.length === 0 ? rule : [rule, ...others],
    ...{ baseline, residual, within, rewardRange },
    ...{ steps, mix, cap, tau, gamma, smooth, method, alpha, beta },
    ...(method === 'hierarchical' && { returnEquivalent: false }),
    ...{ normalisers, batchSize, maxCompletionLength },
  };
}

/** What of a trace its credit follows from, all of it as stored, and of the policy's own tokens alone: T counts these. */
export interface Creditable
  extends GroupMean,
    Pick<SigmaInput, 'ends' | 'answered' | 'values' | 'entropies' | 'logprobs' | 'reward'> {
  /** (N) ζ_n of the reference set */
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
  { groupMean, peersMean, groupStd, utilities, start, own, ...trace }: Creditable,
  opts: CreditOptions,
  counts?: TokenCounts,
): Credit {
  const fault = referenceFault(utilities, opts.estimator);
  const { baseline, noBaseline, isMean } =
    fault === undefined
      ? baselineOf({ groupMean, peersMean }, start ?? (trace.values[0] as number), trace.reward, opts)
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

/**
 * The credit stage: gives a row whose values are known its baseline, σ, and what was asked for beside it. A credit that it has makes
 * room; what was out of the ordinary with the trace stays in its status.
 * @param counts as of {@link requestedOf}
 */
export function credited(
  row: OutputRow,
  { groupMean, peersMean, groupStd }: GroupMean,
  opts: CreditOptions,
  counts?: TokenCounts,
): OutputRow {
  const creditable = { ...creditableOf(row, opts.estimator), groupMean, peersMean, groupStd };
  const { values, reward } = creditable;
  const { sigma, deltas, status, ...summary } = creditOf(creditable, opts, counts);
  return {
    ...row,
    ...summary,
    requested: { ...row.requested, ...summary.requested },
    ...{ sigma, reward, valueStart: values[0] as number },
    segments: withOwn(row.segments, (segment, k) => ({
      ...segment,
      value: segment.kind === 'thought' ? (values[k + 1] as number) : null,
      delta: deltas[k] as number,
      sigma: sum(sigma.subarray(segment.start ?? 0, segment.end ?? 0)),
    })),
    status: [...new Set([...row.status.filter((code) => !isOfCredit(code)), ...status])],
  };
}

/** Whether a code says why a credit is uniform. That a trace has no reference is the trace's own. */
function isOfCredit(code: string): boolean {
  return code !== NO_REFERENCES && SIGMA_RULES.some((rule) => code.startsWith(`${rule}:`));
}

/** Whether baselines are means of rewards of a trace's group. */
export function asksForMean({ baseline, estimator }: Pick<CreditOptions, 'baseline' | 'estimator'>): boolean {
  return baseline === 'group' || baseline === 'rloo' || (baseline === 'auto' && !estimator.onRewardScale);
}

/** Whether these are means of its peers alone, so that traces of a group share one where they have the same reward. */
export function isOfPeers({ baseline }: Pick<CreditOptions, 'baseline'>): boolean {
  return baseline === 'rloo';
}

/** b of METHOD §4, as stored (float32); undefined, with the reason where it is a special one, where the trace has none. */
export function baselineOf(
  { groupMean, peersMean }: GroupMean,
  valueStart: number,
  reward: number | null,
  opts: CreditOptions,
): { baseline: number | undefined; noBaseline?: string; isMean?: boolean } {
  const { baseline } = opts;
  if (typeof baseline === 'number') return { baseline: Math.fround(baseline) };
  const isExpected = opts.estimator.onRewardScale === true;
  const isLeftOut = isOfPeers(opts);
  const mean = isLeftOut ? peersMean : groupMean;
  if (asksForMean(opts) && mean !== undefined) return { baseline: Math.fround(mean), isMean: !isLeftOut };
  if (baseline === 'group' || isLeftOut || !hasLevel(opts.estimator)) return { baseline: undefined };
  // an expected reward is a baseline for any reward
  if (isExpected) return { baseline: valueStart };
  // v̂(s_0) is a probability of being right: no baseline for a graded reward
  if (reward !== null && reward !== 0 && reward !== 1)
    return { baseline: undefined, noBaseline: 'uniform:graded-reward' };
  return { baseline: valueStart };
}
