// Gives a stored trace another credit, with what the whole file has to say for that: groups, batches.
import { isDeepStrictEqual } from 'node:util';
import { OF_OTHERS } from '../../credit/normalisers.js';
import { dataError, TraceRejected, throwIfInterrupted, usageError } from '../../errors.js';
import { NO_BANK } from '../../estimate/bank.js';
import { groupMeanOf } from '../../estimate/baseline.js';
import type { Calibration } from '../../estimate/calibrated/calibration.js';
import { furtherNumbers, geoValuesOf, UNCALIBRATED } from '../../estimate/calibrated.js';
import { type CreditOptions, creditOf } from '../../estimate/credit.js';
import { MATELESS } from '../../estimate/mateless.js';
import type { Nature } from '../../estimate/nature.js';
import { GROUP_STD, readsEntropies, readsLogprobs } from '../../estimate/requested.js';
import { SIGMA_RULES } from '../../estimate/sigma.js';
import { noReferences } from '../../estimate/value.js';
import { pr } from '../../estimators/pr.js';
import { float32Text } from '../../io/arrow/json.js';
import { inferColumns, type PassThroughColumn } from '../../io/arrow/schema.js';
import { plural } from '../../plural.js';
import { type InputRow, isBad } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import type { Scored } from './open-scored.js';
import { mayBeGroupMean } from './recompute.js';
import { NEEDED, type StoredTrace } from './scored-rows.js';

/** What a first pass over the file found. */
export interface Totals {
  readonly groups: ReadonlyMap<string, Group>;
  /** tokens of each batch of `--batch-size` traces */
  readonly batches: readonly number[];
  /** types of the input's columns, where the file has none */
  readonly columns: readonly PassThroughColumn[];
}

interface Group {
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

/** What of a row the totals need. */
interface Light {
  readonly group: string | undefined;
  readonly reward: number | null;
  readonly tokens: number;
}

/**
 * What stored values do not allow is said before anything is read.
 * @throws RredcotError (exit 2) naming the columns that are missing, or why the values of an estimator do not follow from them
 */
export function refuseImpossible(
  path: string,
  source: Scored,
  credit: CreditOptions,
  calibration?: Calibration,
): void {
  const { estimator: from } = source.credit;
  const { estimator: to } = credit;
  const isOther = !hasSameValues(source.credit, credit);
  const isGroupBank = source.config.bank === 'group';
  if (isOther) refuseEstimator(from, to, isGroupBank, calibration);
  if (to.hasOutcome && !sameRange(source.credit, credit))
    throw usageError(
      `--reward-range: the values of ${to.name} have rewards in them, on the range that ${path} was scored with`,
      `leave it out (${source.credit.rewardRange.join(',')}), or rredcot score --estimator ${to.name} --reward-range`,
    );
  const isOfTokens = to.fromLogprobs !== undefined;
  const needed: readonly (readonly [column: string, isNeeded: boolean])[] = [
    ...NEEDED.map((name) => [name, true] as const),
    ['group', mayBeGroupMean(credit) || credit.normalisers?.includes('dapo') === true],
    ['entropies', readsEntropies(credit)],
    ['logprobs', readsLogprobs(credit) || (isOther && isOfTokens)],
    ['reference_logprobs', (isOther && !isOfTokens) || calibration !== undefined],
    ...(['id', 'group', 'logprobs'] as const).map((name) => [name, calibration !== undefined] as const),
    ['reference_tokens', isOther && !isOfTokens && calibration === undefined],
    // its first entry is the baseline
    ['value_prior', to.hasOutcome === true],
  ];
  // no policy has read its traces
  const isEmpty = (name: string) =>
    source.config.ofPolicy !== undefined && /^(logprobs|entropies)$/.test(name);
  const has = (name: string): boolean =>
    source.made.has(name) && source.columns.includes(name) && !isEmpty(name);
  const missing = needed.flatMap(([name, isNeeded]) => (isNeeded && !has(name) ? [name] : []));
  if (missing.length > 0)
    throw usageError(
      `${path}: has no ${missing.join(', ')}, from which the credit would follow`,
      missing.some(isEmpty)
        ? 'rredcot score with the same flag, and --policy <folder>: the policy then reads the traces'
        : 'score with these among --columns, or with all of them',
    );
  const absent = calibration?.further.find(
    ({ column }) => !source.columns.includes(column) || source.made.has(column),
  );
  if (absent !== undefined && !calibration?.standsBack)
    throw usageError(
      `${path}: has no column ${absent.column}, which the calibration reads (${absent.name})`,
      'a file of score that has it, such as by --join and --join-columns, or a calibration without --features',
    );
}

/** Whether values are made in one way. */
function hasSameValues(a: CreditOptions, b: CreditOptions): boolean {
  return a.estimator.name === b.estimator.name && isDeepStrictEqual(a.estimator.config, b.estimator.config);
}

function refuseEstimator(from: Nature, to: Nature, isGroupBank: boolean, calibration?: Calibration): void {
  const [flag, own, asked] =
    from.name === to.name
      ? ['prover-estimator', from.config?.proverEstimator, to.config?.proverEstimator]
      : ['estimator', from.name, to.name];
  const refuse = (why: string) =>
    usageError(`--${flag} ${asked}: ${why}`, `leave it out (${own}), or rredcot score --${flag} ${asked}`);
  if (to.fromLogprobs !== undefined) return;
  if (from.isOfProver !== to.isOfProver)
    throw refuse(
      from.isOfProver
        ? `the references of ${own} were scored by the prover, not by the policy`
        : 'the references of the file were scored by the policy, not by a prover',
    );
  if (to.fromStored === undefined && calibration === undefined)
    throw refuse(
      to.fromTokens
        ? 'the probabilities of single tokens, whose mean it is, are not stored'
        : 'its values do not follow from what is stored',
    );
  if (from.scores !== to.scores)
    throw refuse(`${own} has scored ${from.scores}, and ${asked} needs ${to.scores} scored`);
  if (isGroupBank && from.isContrast !== to.isContrast)
    throw refuse("the bank of a group is another one: snis alone has the mates' wrong answers in it");
}

/** What rows have stored of their whole group's rewards, on the range that is asked for. */
function storedOf(source: Scored, credit: CreditOptions): { hasMean: boolean; hasStd: boolean } {
  const hasMean = mayBeGroupMean(source.credit) && sameRange(source.credit, credit);
  return { hasMean, hasStd: hasMean && source.made.has(GROUP_STD) };
}

/** What the credit needs of a group's rewards and rows have not stored, so that all traces of the group have to be there. */
export function ofWholeGroups(
  source: Scored,
  credit: CreditOptions,
): 'mean' | 'standard deviation' | undefined {
  const { hasMean, hasStd } = storedOf(source, credit);
  if (mayBeGroupMean(credit) && !hasMean) return 'mean';
  return credit.method === 'hierarchical' && !hasStd ? 'standard deviation' : undefined;
}

/**
 * Reads the file once where others than the trace itself have a say in its credit, where types are to be found, and where rewards
 * are asked for on another range.
 * @throws RredcotError (exit 65) where that range would make other rewards of verdicts
 */
export async function surveyScored(
  source: Scored,
  credit: CreditOptions,
  isTyped: boolean,
  signal: AbortSignal,
): Promise<Totals> {
  const groups = new Map<string, Group>();
  const batches: number[] = [];
  const inference = inferColumns();
  const { batchSize } = credit;
  const isText = source.typed === null;
  const needsTotals = mayBeGroupMean(credit) || credit.normalisers?.some((name) => OF_OTHERS.includes(name));
  const isMapped = !sameRange(source.credit, credit);
  if (!needsTotals && !isMapped && !(isText && isTyped)) return { groups, batches, columns: [] };
  const { hasMean, hasStd } = storedOf(source, credit);
  let [n, isGraded] = [0, false];
  for await (const row of source.read({})) {
    throwIfInterrupted(signal);
    if (isBad(row)) continue;
    isGraded ||= hasGrade(row);
    const light = lightOf(row, source.credit, credit);
    if (light instanceof TraceRejected) continue;
    if (isText && isTyped)
      inference.add(
        Object.fromEntries(Object.entries(row.columns).filter(([name]) => !source.made.has(name))),
      );
    const { group, reward, tokens } = light;
    if (batchSize !== undefined) {
      const batch = Math.floor(n++ / batchSize);
      batches[batch] = (batches[batch] ?? 0) + tokens;
    }
    if (group === undefined) continue;
    const found = groups.get(group) ?? { sum: 0, squares: 0, count: 0, tokens: 0 };
    groups.set(group, found);
    found.tokens += tokens;
    if (reward === null) continue;
    found.sum += reward;
    found.squares += reward ** 2;
    found.count++;
    const { baseline, [GROUP_STD]: std } = row.columns;
    if (hasMean && typeof baseline === 'number') found.mean ??= baseline;
    if (hasStd && typeof std === 'number') found.std ??= std;
  }
  if (credit.method === 'hierarchical' && !hasStd) refuseParts(groups, source);
  if (isMapped && !isGraded)
    throw dataError(
      `${source.inputs[0]?.path}: its rewards are 0 and 1, right and wrong, which --reward-range ${credit.rewardRange.join(',')} does not map`,
      `leave it out (${source.credit.rewardRange.join(',')}), or rredcot score --reward-range`,
    );
  return { groups, batches, columns: inference.finish() };
}

/**
 * The deviation of a group's rewards is that of the file's traces: where some were left out it is not that of the stored mean.
 * @throws RredcotError (exit 65)
 */
function refuseParts(groups: ReadonlyMap<string, Group>, { inputs }: Scored): void {
  for (const [name, { mean, sum, count }] of groups)
    if (mean !== undefined && Math.abs(sum / count - mean) > 1e-5)
      throw dataError(
        `${inputs[0]?.path}: the ${plural(count, 'trace')} of group ${JSON.stringify(name)} have a mean reward of ${sum / count}, the file says ${mean}: some were left out, and the group's standard deviation is not known`,
        'rredcot redistribute --method hierarchical the file before it was filtered, then filter',
      );
}

/** What a row says for the totals; why it is turned down where it will be. */
export function lightOf(
  { columns }: InputRow,
  from: CreditOptions,
  to: CreditOptions,
): Light | TraceRejected {
  const { group, segments, reward, status } = columns;
  const end = Array.isArray(segments) ? segments.at(-1)?.end : undefined;
  try {
    return {
      group: typeof group === 'string' ? group : undefined,
      reward: rewardOf(typeof reward === 'number' ? reward : null, String(status).split(';'), from, to),
      tokens: typeof end === 'number' ? end : 0,
    };
  } catch (error) {
    if (error instanceof TraceRejected) return error;
    throw error;
  }
}

/**
 * ζ on another range: of rewards that the row brought, not of those that were found by comparing answers.
 * @throws TraceRejected (`reward`) for one outside of it
 */
function rewardOf(
  reward: number | null,
  status: readonly string[],
  from: CreditOptions,
  to: CreditOptions,
): number | null {
  if (reward === null || sameRange(from, to)) return reward;
  if (!isBrought(status)) return reward;
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
function isBrought(status: readonly string[]): boolean {
  return !status.includes('reward:compared') && !status.includes('truncated');
}

/** Whether it brought one between right and wrong. */
function hasGrade({ columns: { reward, status } }: InputRow): boolean {
  return typeof reward === 'number' && reward > 0 && reward < 1 && isBrought(String(status).split(';'));
}

function sameRange({ rewardRange: a }: CreditOptions, { rewardRange: b }: CreditOptions): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

/**
 * The trace with another credit. What was out of the ordinary with the trace stays in its status, what was with its credit goes.
 * @param n its number among those that are written
 * @param isOther the estimator is another than the file's
 * @param calibration gives the values, where they are asked for by another one than the file's
 * @throws TraceRejected (`reward`, `feature`) for a reward outside of the range, and for what a calibration finds no number for
 */
export function again(
  { row, creditable }: StoredTrace,
  n: number,
  source: Scored,
  credit: CreditOptions,
  { groups, batches }: Totals,
  isOther: boolean,
  calibration?: Calibration,
): OutputRow {
  const reward = rewardOf(row.reward, row.status, source.credit, credit);
  const isKept = hasSameValues(source.credit, credit) && calibration === undefined;
  const values = isKept ? creditable.values : valuesOf(row, credit, calibration);
  const group = row.trace.group === undefined ? undefined : groups.get(row.trace.group);
  const found = groupMeanOf(group);
  const mean = { groupMean: group?.mean ?? found.groupMean, groupStd: group?.std ?? found.groupStd };
  const batch = credit.batchSize === undefined ? undefined : batches[Math.floor(n / credit.batchSize)];
  const counts = { group: group?.tokens, batch };
  const start = isKept ? creditable.start : undefined;
  const made = creditOf({ ...creditable, values, start, reward, ...mean }, credit, counts);
  const { sigma, deltas, status, ...summary } = made;
  return {
    ...row,
    ...summary,
    ...(isOther && credit.estimator.fromLogprobs ? unscored(values.length) : {}),
    requested: { ...summary.requested, ...row.requested },
    sigma,
    reward,
    valueStart: values[0] as number,
    segments: row.segments.map((segment, k) => ({
      ...segment,
      value: segment.kind === 'thought' ? (values[k + 1] as number) : null,
      delta: deltas[k] as number,
      sigma: sigma.subarray(segment.start ?? 0, segment.end ?? 0).reduce((sum, s) => sum + s, 0),
    })),
    status: [
      ...new Set([
        ...row.status.filter(
          (code) =>
            !isOfCredit(code) &&
            !(isOther && credit.estimator.fromLogprobs && isOfBank(code)) &&
            !(code === UNCALIBRATED && (isOther || calibration !== undefined)) &&
            !(isOther && MATELESS.includes(code)),
        ),
        ...(calibration?.standsBack ? [UNCALIBRATED] : []),
        ...status,
      ]),
    ],
  };
}

/** (K+1) values of another estimator, from what the row stores of its references or tokens. */
function valuesOf(row: OutputRow, credit: CreditOptions, calibration?: Calibration): Float32Array {
  const { referenceLogprobs, referenceTokens, referenceUtilities, segments, logprobs, trace } = row;
  const [tokens, utilities] = [
    referenceTokens ?? new Int32Array(0),
    referenceUtilities ?? new Float32Array(0),
  ];
  const thoughts = segments.filter(({ kind }) => kind === 'thought');
  const ends = Int32Array.from(thoughts, ({ end }) => end ?? 0);
  const { fromLogprobs, fromStored } = calibration === undefined ? credit.estimator : pr;
  if (fromLogprobs) return fromLogprobs(logprobs ?? new Float32Array(0), ends);
  const values = Float32Array.from(referenceLogprobs ?? [], (lp) =>
    Number(fromStored?.({ logprobs: lp, tokens, utilities })),
  );
  // a trace without a reference has no v̂ to be calibrated
  if (calibration === undefined || calibration.standsBack || utilities.length === 0) return values;
  const geoValues = geoValuesOf(referenceLogprobs ?? [], tokens, utilities);
  const columns = furtherNumbers(calibration, (name) => trace.source.columns[name], ends);
  const states = { values, geoValues, ends, logprobs: logprobs ?? new Float32Array(0), columns };
  return calibration.values(trace.group ?? trace.id, states);
}

/** The references' columns of an estimator that scores none. @param exits K+1 */
function unscored(exits: number) {
  return { ...noReferences(exits), referenceUtilities: new Float32Array(0) };
}

/** Whether a code tells of a trace's references. */
function isOfBank(code: string): boolean {
  return code === NO_BANK || code.startsWith('bank:');
}

/** Whether a code says why a credit is uniform. That a trace has no reference is the trace's own. */
function isOfCredit(code: string): boolean {
  return code !== NO_BANK && SIGMA_RULES.some((rule) => code.startsWith(`${rule}:`));
}
