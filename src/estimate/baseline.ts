// Gives every trace its group's mean reward, from a first pass over the input or from groups that arrive in one piece.
import type { Trace } from '../trace.js';
import type { Reward } from './reward.js';

export interface RewardedTrace {
  readonly trace: Trace;
  readonly reward: Reward;
}

/** Mean of the group's known rewards; undefined without a group, without any known reward, or where nobody asks. */
export interface GroupMean {
  readonly groupMean: number | undefined;
}

/** Sum and number of the known rewards of one group. */
export interface GroupRewards {
  readonly sum: number;
  readonly count: number;
}

/** For baselines that need no group. */
export async function* withoutMeans(
  items: AsyncIterable<RewardedTrace>,
): AsyncGenerator<RewardedTrace & GroupMean> {
  for await (const item of items) yield { ...item, groupMean: undefined };
}

/** Means from a survey of the whole input. */
export async function* withSurveyedMeans(
  items: AsyncIterable<RewardedTrace>,
  groups: ReadonlyMap<string, GroupRewards>,
): AsyncGenerator<RewardedTrace & GroupMean> {
  for await (const item of items) {
    const { group } = item.trace;
    const found = group === undefined ? undefined : groups.get(group);
    yield {
      ...item,
      groupMean: found === undefined || found.count === 0 ? undefined : found.sum / found.count,
    };
  }
}

/**
 * Means for a stream that can be read only once: holds each group back until the next one begins.
 * @param onSplit is told of a trace whose group had already ended; it is left out
 */
export async function* withContiguousMeans(
  items: AsyncIterable<RewardedTrace>,
  onSplit: (item: RewardedTrace) => Promise<void>,
): AsyncGenerator<RewardedTrace & GroupMean> {
  const ended = new Set<string>();
  let held: RewardedTrace[] = [];
  for await (const item of items) {
    const group = held[0]?.trace.group;
    if (held.length > 0 && (group === undefined || group !== item.trace.group)) {
      yield* withMean(held);
      held = [];
      if (group !== undefined) ended.add(group);
    }
    if (item.trace.group !== undefined && ended.has(item.trace.group)) await onSplit(item);
    else held.push(item);
  }
  yield* withMean(held);
}

function* withMean(group: readonly RewardedTrace[]): Generator<RewardedTrace & GroupMean> {
  const rewards = group.map(({ reward }) => reward.reward).filter((reward) => reward !== null);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const known = group[0]?.trace.group !== undefined && rewards.length > 0;
  for (const item of group) yield { ...item, groupMean: known ? mean : undefined };
}
