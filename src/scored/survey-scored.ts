// What a stored file allows: which other credits can be made of it, and a first pass for what its traces have together.
import { dataError, TraceRejected, throwIfInterrupted, usageError } from '../errors.js';
import type { Calibration } from '../estimate/calibration.js';
import { asksForMean, type CreditOptions, isOfMates } from '../estimate/credit.js';
import type { Nature } from '../estimate/nature.js';
import { GROUP_STD, OF_OTHERS, readsEntropies, readsLogprobs } from '../estimate/requested.js';
import { inferColumns } from '../io/arrow/schema.js';
import { plural } from '../plural.js';
import { type InputRow, isBad } from '../rows.js';
import {
  type GroupSums,
  type GroupTotals,
  hasSameMean,
  hasSameValues,
  isBrought,
  rewardOf,
  sameRange,
} from './again.js';
import { NEEDED, type ScoredFiles, setAside, storedTrace } from './open-scored.js';

/**
 * What stored values do not allow is said before anything is read.
 * @throws RredcotError (exit 2) naming the columns that are missing, or why the values of an estimator do not follow from them
 */
export function refuseImpossible(
  path: string,
  source: ScoredFiles,
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
    ['group', asksForMean(credit) || credit.normalisers?.includes('dapo') === true],
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
function storedOf(source: ScoredFiles, credit: CreditOptions): { hasMean: boolean; hasStd: boolean } {
  const hasMean = hasSameMean(source.credit, credit);
  return { hasMean, hasStd: hasMean && source.made.has(GROUP_STD) };
}

/** What the credit needs of a group's rewards and rows have not stored, so that all traces of the group have to be there. */
export function ofWholeGroups(
  source: ScoredFiles,
  credit: CreditOptions,
): 'mean' | 'standard deviation' | undefined {
  const { hasMean, hasStd } = storedOf(source, credit);
  if (asksForMean(credit) && !hasMean) return 'mean';
  return credit.method === 'hierarchical' && !hasStd ? 'standard deviation' : undefined;
}

/**
 * Reads the file once where others than the trace itself have a say in its credit, where types are to be found, and where rewards
 * are asked for on another range.
 * @throws RredcotError (exit 65) where that range would make other rewards of verdicts
 */
export async function surveyScored(
  source: ScoredFiles,
  credit: CreditOptions,
  isTyped: boolean,
  signal: AbortSignal,
): Promise<GroupTotals> {
  const groups = new Map<string, GroupSums>();
  const batches: number[] = [];
  const inference = inferColumns();
  const { batchSize } = credit;
  const isText = source.typed === null;
  const needsTotals = asksForMean(credit) || credit.normalisers?.some((name) => OF_OTHERS.includes(name));
  const isMapped = !sameRange(source.credit, credit);
  if (!needsTotals && !isMapped && !(isText && isTyped)) return { groups, batches, columns: [] };
  const { hasMean, hasStd } = storedOf(source, credit);
  let [n, isGraded] = [0, false];
  for await (const row of source.read({})) {
    throwIfInterrupted(signal);
    if (isBad(row)) continue;
    isGraded ||= hasGrade(row);
    const light = lightOf(row, source.credit, credit);
    if (isBad(light)) continue;
    if (isText && isTyped)
      inference.add(
        Object.fromEntries(Object.entries(row.columns).filter(([name]) => !source.made.has(name))),
      );
    const { group, reward, tokens } = light;
    // a damaged row is written into no batch; its reward is its group's all the same
    if (batchSize !== undefined && !isBad(storedTrace(row, source))) {
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
    if (hasMean && !isOfMates(credit) && typeof baseline === 'number') found.mean ??= baseline;
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
function refuseParts(groups: ReadonlyMap<string, GroupSums>, { inputs }: ScoredFiles): void {
  for (const [name, { mean, sum, count }] of groups)
    if (mean !== undefined && Math.abs(sum / count - mean) > 1e-5)
      throw dataError(
        `${inputs[0]?.path}: the ${plural(count, 'trace')} of group ${JSON.stringify(name)} have a mean reward of ${sum / count}, the file says ${mean}: some were left out, and the group's standard deviation is not known`,
        'rredcot redistribute --method hierarchical the file before it was filtered, then filter',
      );
}

/** What a row says for the totals; why it is turned down where it will be. */
export function lightOf(row: InputRow, from: CreditOptions, to: CreditOptions) {
  const { group, segments, reward, status } = row.columns;
  const own = Array.isArray(segments) ? segments.filter(({ kind }) => kind !== 'shown') : [];
  const tokens = own.reduce((sum, { start, end }) => sum + (Number(end) - Number(start)), 0);
  try {
    return {
      group: typeof group === 'string' ? group : undefined,
      reward: rewardOf(typeof reward === 'number' ? reward : null, String(status).split(';'), from, to),
      tokens: Number.isFinite(tokens) ? tokens : 0,
    };
  } catch (error) {
    if (error instanceof TraceRejected) return setAside(row, error);
    throw error;
  }
}

/** Whether it brought one between right and wrong. */
function hasGrade({ columns: { reward, status } }: InputRow): boolean {
  return typeof reward === 'number' && reward > 0 && reward < 1 && isBrought(String(status).split(';'));
}
