// Makes stored rows again: with another credit for `redistribute`, with their own for `verify`.
import { isDeepStrictEqual } from 'node:util';
import { SIGMA_RULES } from '../credit/rules.js';
import { TraceRejected } from '../errors.js';
import { groupMeanOf } from '../estimate/baseline.js';
import { furtherNumbers, geoValuesOf, UNCALIBRATED } from '../estimate/calibrated.js';
import type { Calibration } from '../estimate/calibration.js';
import {
  asksForMean,
  type Creditable,
  type CreditOptions,
  creditableOf,
  creditOf,
  isOfMates,
} from '../estimate/credit.js';
import { pr } from '../estimate/one-pass.js';
import { NO_BANK } from '../estimate/references.js';
import { noReferences } from '../estimate/value.js';
import { float32Text } from '../io/arrow/json.js';
import type { PassThroughColumn } from '../io/arrow/schema.js';
import { type OutputRow, thoughtEnds, withOwn, withoutShown } from '../scored.js';
import type { ScoredFiles } from './open-scored.js';

/** What a first pass over the file found. */
export interface GroupTotals {
  readonly groups: ReadonlyMap<string, GroupSums>;
  /** tokens of each batch of `--batch-size` traces */
  readonly batches: readonly number[];
  /** types of the input's columns, where the file has none */
  readonly columns: readonly PassThroughColumn[];
}

export interface GroupSums {
  /** of known rewards */
  sum: number;
  squares: number;
  count: number;
  tokens: number;
  /** the mean reward of the whole group, as its rows have it stored */
  mean?: number;
  /** their standard deviation, where rows have it stored */
  std?: number;
}

/** The row with the credit that follows from its numbers. What was out of the ordinary with the trace stays in its status. */
export function withCredit(
  row: OutputRow,
  creditable: Creditable,
  credit: CreditOptions,
  counts?: Parameters<typeof creditOf>[2],
): OutputRow {
  const { values, reward } = creditable;
  const { sigma, deltas, status, ...summary } = creditOf(creditable, credit, counts);
  return {
    ...row,
    ...summary,
    requested: { ...row.requested, ...summary.requested },
    sigma,
    reward,
    valueStart: values[0] as number,
    segments: withOwn(row.segments, (segment, k) => ({
      ...segment,
      value: segment.kind === 'thought' ? (values[k + 1] as number) : null,
      delta: deltas[k] as number,
      sigma: sigma.subarray(segment.start ?? 0, segment.end ?? 0).reduce((sum, s) => sum + s, 0),
    })),
    status: [...new Set([...row.status.filter((code) => !isOfCredit(code)), ...status])],
  };
}

/**
 * The trace with another credit.
 * @param n its number among those that are written
 * @param isOther the estimator is another than the file's
 * @param calibration gives the values, where they are asked for by another one than the file's
 * @throws TraceRejected (`reward`, `feature`) for a reward outside of the range, and for what a calibration finds no number for
 */
export function again(
  row: OutputRow,
  n: number,
  source: ScoredFiles,
  credit: CreditOptions,
  { groups, batches }: GroupTotals,
  isOther: boolean,
  calibration?: Calibration,
): OutputRow {
  const creditable = creditableOf(row, source.credit.estimator);
  const reward = rewardOf(creditable.reward, row.status, source.credit, credit);
  const isKept = hasSameValues(source.credit, credit) && calibration === undefined;
  const values = isKept ? creditable.values : valuesOf(row, credit, calibration);
  const group = row.trace.group === undefined ? undefined : groups.get(row.trace.group);
  const found = groupMeanOf(group, reward);
  const isStored = isOfMates(credit) && hasSameMean(source.credit, credit);
  const matesMean = isStored ? (row.baseline ?? undefined) : found.matesMean;
  const { mean: groupMean = found.groupMean, std: groupStd = found.groupStd } = group ?? {};
  const batch = credit.batchSize === undefined ? undefined : batches[Math.floor(n / credit.batchSize)];
  const start = isKept ? creditable.start : undefined;
  const isOfTokens = isOther && credit.estimator.fromLogprobs !== undefined;
  const isGone = (code: string): boolean =>
    // of its references
    (isOfTokens && (code === NO_BANK || code.startsWith('bank:'))) ||
    (code === UNCALIBRATED && calibration !== undefined) ||
    (isOther && OF_VALUES.test(code));
  const status = [
    ...row.status.filter((code) => !isGone(code)),
    ...(calibration?.standsBack ? [UNCALIBRATED] : []),
  ];
  // an estimator that scores no reference
  const unscored = isOfTokens && { ...noReferences(values.length), referenceUtilities: new Float32Array(0) };
  const made = { ...creditable, values, start, reward, groupMean, matesMean, groupStd };
  return withCredit({ ...row, status, ...unscored }, made, credit, { group: group?.tokens, batch });
}

/** Whether values are made in one way. */
export function hasSameValues(a: CreditOptions, b: CreditOptions): boolean {
  return a.estimator.name === b.estimator.name && isDeepStrictEqual(a.estimator.config, b.estimator.config);
}

/** Whether a stored baseline that is a mean of rewards is the one that is asked for. */
export function hasSameMean(from: CreditOptions, to: CreditOptions): boolean {
  return asksForMean(from) && isOfMates(from) === isOfMates(to) && sameRange(from, to);
}

/**
 * ζ on another range: of rewards that the row brought, not of those that were found by comparing answers.
 * @throws TraceRejected (`reward`) for one outside of it
 */
export function rewardOf(
  reward: number | null,
  status: readonly string[],
  from: CreditOptions,
  to: CreditOptions,
): number | null {
  if (reward === null || sameRange(from, to) || !isBrought(status)) return reward;
  const [low, high] = from.rewardRange;
  // the decimals that were meant, where float32 has their neighbour
  const raw = low + Number(float32Text(Math.fround(reward))) * (high - low);
  const [least, most] = to.rewardRange;
  if (raw < least || raw > most)
    throw new TraceRejected(
      'reward',
      `the reward is ${raw}, expected ${least} to ${most}: --reward-range low,high maps other scales`,
    );
  return Math.fround((raw - least) / (most - least));
}

/** Whether a row brought its reward. */
export function isBrought(status: readonly string[]): boolean {
  return !status.includes('reward:compared') && !status.includes('truncated');
}

export function sameRange({ rewardRange: a }: CreditOptions, { rewardRange: b }: CreditOptions): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

/** (K+1) values of another estimator, from what the row stores of its references or tokens. */
function valuesOf(scored: OutputRow, credit: CreditOptions, calibration?: Calibration): Float32Array {
  const row = withoutShown(scored);
  const { trace, referenceLogprobs: exits } = row;
  const tokens = row.referenceTokens ?? new Int32Array(0);
  const utilities = row.referenceUtilities ?? new Float32Array(0);
  const logprobs = row.logprobs ?? new Float32Array(0);
  const ends = thoughtEnds(row);
  const { fromLogprobs, fromStored } = calibration === undefined ? credit.estimator : pr;
  if (fromLogprobs) return fromLogprobs(logprobs, ends);
  const values = Float32Array.from(exits ?? [], (lp) =>
    Number(fromStored?.({ logprobs: lp, tokens, utilities })),
  );
  // a trace without a reference has no v̂ to be calibrated
  if (calibration === undefined || calibration.standsBack || utilities.length === 0) return values;
  const geoValues = geoValuesOf(exits ?? [], tokens, utilities);
  const columns = furtherNumbers(calibration, (name) => trace.source.columns[name], ends);
  return calibration.values(trace.group ?? trace.id, { values, geoValues, ends, logprobs, columns });
}

/** Codes by which an estimator tells of its values. */
const OF_VALUES = /^(ask|hint|mc|siblings|value):/;

/** Whether a code says why a credit is uniform. That a trace has no reference is the trace's own. */
function isOfCredit(code: string): boolean {
  return code !== NO_BANK && SIGMA_RULES.some((rule) => code.startsWith(`${rule}:`));
}
