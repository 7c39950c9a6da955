// What the traces of a scored file have together: means of rewards, by a first pass over it.
import { asksForMean, type CreditOptions, type GroupMean, groupMeanOf } from '../credit/credit.js';
import { GROUP_STD } from '../credit/requested.js';
import { dataError, throwIfInterrupted } from '../errors.js';
import { inferColumns } from '../io/arrow/schema.js';
import { plural } from '../plural.js';
import { isBad } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { inputColumns, type ScoredFiles } from './open-scored.js';

interface GroupTotals {
  /** of known rewards */
  sum: number;
  squares: number;
  count: number;
  /** the mean reward of the whole group, and their standard deviation, where its rows have them stored */
  mean?: number;
  std?: number;
}

/** Reads the file once where others than the trace itself have a say in its credit, or where types are to be found. */
export async function sumGroups(
  source: ScoredFiles,
  credit: CreditOptions,
  { isTyped, readsPeers }: Readonly<Record<'isTyped' | 'readsPeers', boolean>>,
  signal: AbortSignal,
) {
  const groups = new Map<string, GroupTotals>();
  const inference = inferColumns();
  const infers = isTyped && source.typed === null;
  const { mean: hasMean, std: hasStd } = storedMeans(source, credit);
  if (asksForMean(credit) || readsPeers || infers)
    for await (const row of source.read({})) {
      throwIfInterrupted(signal);
      if (isBad(row)) continue;
      const { group, reward, baseline, [GROUP_STD]: std } = row.columns;
      if (infers) inference.add(inputColumns(row, source.made));
      if (typeof group !== 'string' || typeof reward !== 'number') continue;
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
          `${source.inputs[0]?.path}: the ${plural(count, 'trace')} of group ${JSON.stringify(name)} have a mean reward of ${sum / count}, the file says ${mean}: some were left out, and the group's standard deviation is not known`,
          'rredcot score --method hierarchical, which counts them all',
        );
  return {
    /** types of the input's columns, where the file has none */
    columns: inference.finish(),
    /** means of a row's group; a stored one stands, since the file need not have all of the group */
    meansOf(row: OutputRow): GroupMean {
      const group = groups.get(row.trace.group ?? '');
      const found = groupMeanOf(group, row.reward);
      const isStored = isOfPeers(credit) && hasMean;
      return {
        ...found,
        groupMean: group?.mean ?? found.groupMean,
        peersMean: isStored ? (row.baseline ?? undefined) : found.peersMean,
        groupStd: group?.std ?? found.groupStd,
      };
    },
  };
}

/** Whether baselines are means of a trace's peers alone. */
const isOfPeers = ({ baseline }: CreditOptions): boolean => baseline === 'rloo';

/** What of their whole group's rewards rows have stored. */
function storedMeans({ credit: from, made }: ScoredFiles, credit: CreditOptions) {
  const mean = asksForMean(from) && isOfPeers(from) === isOfPeers(credit);
  return { mean, std: mean && made.has(GROUP_STD) };
}

/** What the credit needs of a group's rewards and rows have not stored, so that all traces of the group have to be there. */
export function ofWholeGroups(source: ScoredFiles, credit: CreditOptions, readsPeers: boolean) {
  const { mean, std } = storedMeans(source, credit);
  if (readsPeers || (asksForMean(credit) && !mean)) return 'mean';
  return credit.method === 'hierarchical' && !std ? 'standard deviation' : undefined;
}
