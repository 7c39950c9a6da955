// The credit stage, the same for `score` and `redistribute`: from a row with values, and the mean reward of its group, to its baseline, σ, differences, status.
import { type BadRow, isBad, rejectTrace } from '../rows.js';
import { type OutputRow, ownTokens, withOwn, withoutShown } from '../scored.js';
import { scattered, type Trace } from '../trace.js';
import { type Nature, NO_REFERENCES, referenceFault } from './nature.js';
import { type RequestOptions, requestedOf } from './requested.js';
import { SIGMA_RULES, sum } from './rules.js';
import { redistribute, type SigmaInput, sigmaFigures } from './sigma.js';

/**
 * b: the group's mean reward, that of the trace's peers alone (RLOO, arXiv 2402.14740), v̂(s_0), a number, or by itself: V(s_0)
 * where values are on the reward's scale, else the group's mean where there is a group and v̂(s_0) elsewhere.
 */
export const BASELINES = ['auto', 'group', 'rloo', 'value'] as const;
export type Baseline = (typeof BASELINES)[number] | number;

/** Status of a trace that earned more than its state was worth and less than its group's mean, or the other way round. */
const TURNED = 'baseline:turned';
/** How far from both its reward lies at least. */
const CLOSE = 0.05;

/** How values become credit. */
export interface CreditOptions extends RequestOptions {
  /** what values are, as far as credit depends on it */
  readonly estimator: Nature;
  readonly baseline: Baseline;
  /** input rewards low..high are mapped onto 0..1 */
  readonly rewardRange: readonly [low: number, high: number];
}

/** The options as a configuration has them; what was not asked for is left out. */
export function creditConfig({ estimator, rule, others = [], ...rest }: CreditOptions) {
  return {
    estimator: estimator.name,
    ...estimator.config,
    rule: others.length === 0 ? rule : [rule, ...others],
    ...rest,
    ...(rest.method === 'hierarchical' && { returnEquivalent: false }),
  };
}

/** (K+1) values of a stored row. */
export function storedValues({ valueStart, segments }: OutputRow, { isLog }: Nature): Float32Array {
  const thoughts = segments.filter(({ kind }) => kind === 'thought').map(({ value }) => value);
  // JSON has no −∞
  return Float32Array.from([valueStart, ...thoughts], (v) => v ?? (isLog ? Number.NEGATIVE_INFINITY : 0));
}

/** What σ of a row follows from, of the policy's own tokens alone, as stored (float32). What the row lacks counts as nothing. */
function sigmaInput(row: OutputRow, mean: GroupMean, opts: CreditOptions): SigmaInput {
  const { estimator } = opts;
  const { segments, requested, entropies, logprobs, ...stored } = withoutShown(row);
  const ends = Int32Array.from(segments, ({ end }) => end ?? 0);
  const T = ends.at(-1) ?? 0;
  const values = storedValues(row, estimator);
  const reward = stored.reward === null ? null : Math.fround(stored.reward);
  const prior = estimator.priorColumn === undefined ? undefined : requested?.[estimator.priorColumn];
  const start = (prior instanceof Float32Array ? prior : values)[0] as number;
  const fault = referenceFault(stored.referenceUtilities ?? new Float32Array(0), estimator);
  const { isMean, ...found } =
    fault === undefined ? baselineOf(mean, start, reward, opts) : { baseline: undefined };
  return {
    ...{ ends, values, estimator, reward, fault, ...found },
    answered: segments.at(-1)?.kind === 'answer',
    shownBehind: row.segments.flatMap(({ kind }, n) =>
      kind === 'shown' ? [] : [row.segments[n + 1]?.kind === 'shown'],
    ),
    noise: Float32Array.from(segments, ({ noise }) => noise ?? 0),
    entropies: entropies ?? new Float32Array(T),
    logprobs: logprobs ?? new Float32Array(T),
    groupStd: isMean && mean.groupStd !== undefined ? Math.fround(mean.groupStd) : undefined,
  };
}

/**
 * The credit stage (METHOD §4): gives a row whose values are known its baseline, σ, and what was asked for beside it. A credit that
 * it has makes room; what was out of the ordinary with the trace stays in its status.
 */
export function credited(row: OutputRow, mean: GroupMean, opts: CreditOptions): OutputRow {
  const own = ownTokens(row);
  const input = sigmaInput(row, mean, opts);
  const { values, reward, logprobs, baseline = null } = input;
  const { sigma: ofOwn, deltas, fallback } = redistribute(input, opts);
  const { columns, status } = requestedOf(input, opts);
  const sigma = scattered(ofOwn, own);
  // lists have an entry for each token
  const placed = Object.entries(columns).map(([name, list]) => {
    return [name, list instanceof Float32Array ? scattered(list, own) : list];
  });
  // that a trace has no reference is the trace's own
  const isOfCredit = (code: string) =>
    (code !== NO_REFERENCES && SIGMA_RULES.some((rule) => code.startsWith(`${rule}:`))) ||
    // where nobody has looked at the group what was found stands
    (code === TURNED && (mean.groupMean !== undefined || opts.baseline !== 'auto'));
  const kept = row.status.filter((code) => !isOfCredit(code));
  const turned = isTurned(mean, reward ?? Number.NaN, baseline ?? Number.NaN, opts) ? [TURNED] : [];
  return {
    ...row,
    ...{ baseline, sigma, reward, valueStart: values[0] as number },
    ...sigmaFigures(ofOwn, logprobs),
    requested: { ...row.requested, ...Object.fromEntries(placed) },
    segments: withOwn(row.segments, (segment, k) => ({
      ...segment,
      value: segment.kind === 'thought' ? (values[k + 1] as number) : null,
      delta: deltas[k] as number,
      sigma: sum(sigma.subarray(segment.start ?? 0, segment.end ?? 0)),
    })),
    status: [...new Set([...kept, ...(fallback === undefined ? [] : [fallback]), ...turned, ...status])],
  };
}

/** Whether a trainer whose baseline is the group's mean would move the trace the other way: only graded rewards lie between the two. */
function isTurned({ groupMean = Number.NaN }: GroupMean, reward: number, b: number, opts: CreditOptions) {
  const [ofGroup, own] = [reward - groupMean, reward - b];
  const isOwn = opts.baseline === 'auto' && opts.estimator.onRewardScale === true;
  return isOwn && ofGroup * own < 0 && Math.min(Math.abs(ofGroup), Math.abs(own)) > CLOSE;
}

/** Whether baselines are means of rewards of a trace's group. */
export function asksForMean({ baseline, estimator }: Pick<CreditOptions, 'baseline' | 'estimator'>): boolean {
  return baseline === 'group' || baseline === 'rloo' || (baseline === 'auto' && !estimator.onRewardScale);
}

/** b of METHOD §4, as stored (float32); undefined, with the reason where it is a special one, where the trace has none. */
function baselineOf(
  { groupMean, peersMean }: GroupMean,
  valueStart: number,
  reward: number | null,
  opts: CreditOptions,
): { baseline: number | undefined; noBaseline?: string; isMean?: boolean } {
  const { baseline, estimator } = opts;
  if (typeof baseline === 'number') return { baseline: Math.fround(baseline) };
  const isLeftOut = baseline === 'rloo';
  const mean = isLeftOut ? peersMean : groupMean;
  if (asksForMean(opts) && mean !== undefined) return { baseline: Math.fround(mean), isMean: !isLeftOut };
  if (baseline === 'group' || isLeftOut || estimator.noLevel !== undefined) return { baseline: undefined };
  // an expected reward is a baseline for any reward
  if (estimator.onRewardScale) return { baseline: valueStart };
  // v̂(s_0) is a probability of being right: no baseline for a graded reward
  if (reward !== null && reward !== 0 && reward !== 1)
    return { baseline: undefined, noBaseline: 'uniform:graded-reward' };
  return { baseline: valueStart };
}

// ------ mean rewards of groups, from a first pass over the input or from groups that arrive in one piece

/** A trace whose reward is known, or is known not to be. */
export interface Rewarded {
  readonly trace: Trace;
  readonly reward: { readonly reward: number | null };
}

/** Mean of the group's known rewards; undefined without a group, without any known reward, or where nobody asks. */
export interface GroupMean {
  readonly groupMean: number | undefined;
  /** the same without the trace's own reward (leave one out); undefined also where no other is known */
  readonly peersMean?: number | undefined;
  /** of so many */
  readonly peersCount?: number;
  /** their standard deviation, as trainers take it: of a sample, n − 1 below; 0 for one reward */
  readonly groupStd?: number | undefined;
}

/** Sum, sum of squares and number of the known rewards of one group. */
export interface GroupRewards {
  readonly sum: number;
  readonly squares: number;
  readonly count: number;
  /** first and last row of its traces, numbered over all inputs, whatever is known of their rewards; absent where nobody needs them */
  readonly span?: readonly [first: number, last: number];
}

/** Mean and standard deviation of a group's rewards, and the mean of the others'. @param own reward of the trace, one of them */
export function groupMeanOf(
  found: Pick<GroupRewards, 'sum' | 'squares' | 'count'> | undefined,
  own: number | null,
): GroupMean {
  if (found === undefined || found.count === 0) return { groupMean: undefined };
  const { sum, squares, count } = found;
  const variance = count < 2 ? 0 : Math.max(0, squares - sum ** 2 / count) / (count - 1);
  const peers = own === null ? count : count - 1;
  const peersMean = peers === 0 ? undefined : (sum - (own ?? 0)) / peers;
  return { groupMean: sum / count, peersMean, peersCount: peers, groupStd: Math.sqrt(variance) };
}

/**
 * Means for a stream that can be read only once: holds each group back until the next one begins. A trace whose group had
 * already ended is rejected.
 */
export async function* withContiguousMeans<T extends Rewarded>(
  items: AsyncIterable<T | BadRow>,
): AsyncGenerator<(T & GroupMean) | BadRow> {
  const ended = new Set<string>();
  let held: (T | BadRow)[] = [];
  let current: string | undefined; // the group of the held traces
  for await (const item of items) {
    const group = isBad(item) ? current : item.trace.group;
    if (group !== current || group === undefined) {
      yield* withMean(held);
      held = [];
      if (current !== undefined) ended.add(current);
      current = group;
    }
    const isSplit = !isBad(item) && group !== undefined && ended.has(group);
    const reason =
      'its group had ended before; a stream must bring each group in one piece: give a file, or --baseline value with --references row';
    held.push(isSplit ? rejectTrace(item.trace, { code: 'group_split', reason }) : item);
  }
  yield* withMean(held);
}

function* withMean<T extends Rewarded>(items: readonly (T | BadRow)[]): Generator<(T & GroupMean) | BadRow> {
  const group = items.filter((item): item is T => !isBad(item));
  const rewards = group.map(({ reward }) => reward.reward).filter((reward) => reward !== null);
  const squares = sum(rewards.map((reward) => reward ** 2));
  const isGroup = group[0]?.trace.group !== undefined;
  const found = isGroup ? { sum: sum(rewards), squares, count: rewards.length } : undefined;
  for (const item of items) yield isBad(item) ? item : { ...item, ...groupMeanOf(found, item.reward.reward) };
}
