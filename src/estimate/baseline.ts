// Gives every trace its group's mean reward, from a first pass over the input or from groups that arrive in one piece.
import type { Reward } from './reward.js';

/** A trace (or what stands for it) on its way to the policy: only its group and reward matter here. */
export interface Grouped {
  readonly group: string | undefined;
  readonly reward: Reward;
}

/** Sum and number of the known rewards of one group. */
export interface GroupRewards {
  readonly sum: number;
  readonly count: number;
}

/** Adds the group mean b, undefined for traces without a group or in one whose rewards are all unknown. */
export async function* withSurveyedMeans<T extends Grouped>(
  items: AsyncIterable<T>,
  groups: ReadonlyMap<string, GroupRewards>,
): AsyncGenerator<T & { groupMean: number | undefined }> {
  for await (const item of items) {
    const found = item.group === undefined ? undefined : groups.get(item.group);
    yield {
      ...item,
      groupMean: found === undefined || found.count === 0 ? undefined : found.sum / found.count,
    };
  }
}

/**
 * The same for a stream that can be read only once: holds each group back until the next one begins.
 * @param onSplit is told of a trace whose group had already ended; it is left out
 */
export async function* withContiguousMeans<T extends Grouped>(
  items: AsyncIterable<T>,
  onSplit: (item: T) => Promise<void>,
): AsyncGenerator<T & { groupMean: number | undefined }> {
  const ended = new Set<string>();
  let held: T[] = [];
  for await (const item of items) {
    const group = held[0]?.group;
    if (held.length > 0 && (group === undefined || group !== item.group)) {
      yield* withMean(held);
      held = [];
      if (group !== undefined) ended.add(group);
    }
    if (item.group !== undefined && ended.has(item.group)) await onSplit(item);
    else held.push(item);
  }
  yield* withMean(held);
}

function* withMean<T extends Grouped>(group: readonly T[]): Generator<T & { groupMean: number | undefined }> {
  const rewards = group.map((item) => item.reward.reward).filter((reward) => reward !== null);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const known = group[0]?.group !== undefined && rewards.length > 0;
  for (const item of group) yield { ...item, groupMean: known ? mean : undefined };
}
