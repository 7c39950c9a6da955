// What the traces of a scored file have together: means of rewards, by a first pass over it.
import { type GroupMean, groupMeanOf } from '../credit/baseline.js';
import { asksForMean, type CreditOptions } from '../credit/credit.js';
import { GROUP_STD } from '../credit/requested.js';
import { dataError, TraceRejected, throwIfInterrupted } from '../errors.js';
import { float32Text } from '../io/arrow/json.js';
import { inferColumns } from '../io/arrow/schema.js';
import { plural } from '../plural.js';
import { type InputRow, isBad } from '../rows.js';
import type { OutputRow } from '../scored.js';
import type { ScoredFiles } from './open-scored.js';

interface GroupTotals {
  /** of known rewards */
  sum: number;
  squares: number;
  count: number;
  /** the mean reward of the whole group, and their standard deviation, where its rows have them stored */
  mean?: number;
  std?: number;
}

/**
 * Reads the file once where others than the trace itself have a say in its credit, where types are to be found, and where rewards
 * are asked for on another range.
 * @throws RredcotError (exit 65) where that range would make other rewards of verdicts, or a group's deviation is not known
 */
export async function sumGroups(
  source: ScoredFiles,
  credit: CreditOptions,
  isTyped: boolean,
  signal: AbortSignal,
) {
  const [path, from] = [source.inputs[0]?.path, source.credit];
  const groups = new Map<string, GroupTotals>();
  const inference = inferColumns();
  const infers = isTyped && source.typed === null;
  const isMapped = !hasSameRange(from, credit);
  const { mean: hasMean, std: hasStd } = storedMeans(source, credit);
  let isGraded = false;
  if (asksForMean(credit) || isMapped || infers)
    for await (const row of source.read({})) {
      throwIfInterrupted(signal);
      if (isBad(row)) continue;
      const { group, reward: given, status, baseline, [GROUP_STD]: std } = row.columns;
      const codes = String(status).split(';');
      const own = typeof given === 'number' ? given : null;
      isGraded ||= own !== null && own > 0 && own < 1 && isBrought(codes);
      const reward = rescaled(own, codes, from, credit);
      if (reward instanceof TraceRejected) continue;
      if (infers) inference.add(inputCells(row, source));
      if (typeof group !== 'string' || reward === null) continue;
      const found = groups.get(group) ?? { sum: 0, squares: 0, count: 0 };
      groups.set(group, found);
      found.sum += reward;
      found.squares += reward ** 2;
      found.count++;
      if (hasMean && !isOfPeers(credit) && typeof baseline === 'number') found.mean ??= baseline;
      if (hasStd && typeof std === 'number') found.std ??= std;
    }
  if (credit.method === 'hierarchical' && !hasStd)
    // the deviation is that of the file's traces: where some were left out it is not that of the stored mean
    for (const [name, { mean, sum, count }] of groups)
      if (mean !== undefined && Math.abs(sum / count - mean) > 1e-5)
        throw dataError(
          `${path}: the ${plural(count, 'trace')} of group ${JSON.stringify(name)} have a mean reward of ${sum / count}, the file says ${mean}: some were left out, and the group's standard deviation is not known`,
          'rredcot redistribute --method hierarchical the file before it was filtered, then filter',
        );
  if (isMapped && !isGraded)
    throw dataError(
      `${path}: its rewards are 0 and 1, right and wrong, which --reward-range ${credit.rewardRange.join(',')} does not map`,
      `leave it out (${from.rewardRange.join(',')}), or rredcot score --reward-range`,
    );
  return {
    /** types of the input's columns, where the file has none */
    columns: inference.finish(),
    /** means of a row's group; a stored one stands, since the file need not have all of the group */
    meansOf(row: OutputRow): GroupMean {
      const group = groups.get(row.trace.group ?? '');
      const found = groupMeanOf(group, row.reward);
      const isStored = isOfPeers(credit) && hasSameMean(from, credit);
      return {
        groupMean: group?.mean ?? found.groupMean,
        peersMean: isStored ? (row.baseline ?? undefined) : found.peersMean,
        groupStd: group?.std ?? found.groupStd,
      };
    },
  };
}

/** Whether baselines are means of a trace's peers alone. */
const isOfPeers = ({ baseline }: CreditOptions): boolean => baseline === 'rloo';

/** The cells of the input's own columns. */
function inputCells({ columns }: InputRow, { made }: ScoredFiles) {
  return Object.fromEntries(Object.entries(columns).filter(([name]) => !made.has(name)));
}

/** Whether a stored baseline that is a mean of rewards is the one that is asked for. */
function hasSameMean(from: CreditOptions, to: CreditOptions): boolean {
  return asksForMean(from) && isOfPeers(from) === isOfPeers(to) && hasSameRange(from, to);
}

function hasSameRange({ rewardRange: a }: CreditOptions, { rewardRange: b }: CreditOptions): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

/** What of their whole group's rewards rows have stored, on the range that is asked for. */
function storedMeans({ credit: from, made }: ScoredFiles, credit: CreditOptions) {
  const mean = hasSameMean(from, credit);
  return { mean, std: mean && made.has(GROUP_STD) };
}

/** What the credit needs of a group's rewards and rows have not stored, so that all traces of the group have to be there. */
export function ofWholeGroups(source: ScoredFiles, credit: CreditOptions) {
  const { mean, std } = storedMeans(source, credit);
  if (asksForMean(credit) && !mean) return 'mean';
  return credit.method === 'hierarchical' && !std ? 'standard deviation' : undefined;
}

/** Whether a row brought its reward. */
function isBrought(status: readonly string[]): boolean {
  return !status.includes('reward:compared') && !status.includes('truncated');
}

/** ζ on another range: of rewards that the row brought, not of those that were found by comparing answers. @returns why it is rejected, where it lies outside */
export function rescaled(
  reward: number | null,
  status: readonly string[],
  from: CreditOptions,
  to: CreditOptions,
): number | null | TraceRejected {
  if (reward === null || hasSameRange(from, to) || !isBrought(status)) return reward;
  const [low, high] = from.rewardRange;
  // the decimals that were meant, where float32 has their neighbour
  const raw = low + Number(float32Text(Math.fround(reward))) * (high - low);
  const [least, most] = to.rewardRange;
  if (raw >= least && raw <= most) return Math.fround((raw - least) / (most - least));
  return new TraceRejected(
    'reward',
    `the reward is ${raw}, expected ${least} to ${most}: --reward-range low,high maps other scales`,
  );
}
