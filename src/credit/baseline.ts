// Gives every trace the mean reward of its group, and of its peers, from a first pass over the input or from groups that arrive in one piece.
import { type BadRow, isBad, rejectTrace } from '../rows.js';
import type { Trace } from '../trace.js';

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
  return { groupMean: sum / count, peersMean, groupStd: Math.sqrt(variance) };
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
  const sum = rewards.reduce((total, reward) => total + reward, 0);
  const squares = rewards.reduce((total, reward) => total + reward ** 2, 0);
  const isGroup = group[0]?.trace.group !== undefined;
  const found = isGroup ? { sum, squares, count: rewards.length } : undefined;
  for (const item of items) yield isBad(item) ? item : { ...item, ...groupMeanOf(found, item.reward.reward) };
}
