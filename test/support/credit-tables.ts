// Tables of credits from lists of numbers, and what a figure comes to over all of their traces.
import { type Figure, withIntervals } from '../../dist/compare/bootstrap.js';
import type { CreditTable } from '../../dist/compare/credit-table.js';

/** Credits by their names: of each trace a list. */
export type Lists = Readonly<Record<string, readonly (readonly number[])[]>>;

/** n traces, each a group of its own */
export const apart = (n: number) => Int32Array.from({ length: n }, (_, i) => i);

/** @param firstWrong of the labelled traces; the others have no label */
export function tableOf(
  lists: Lists,
  rewards: readonly number[],
  firstWrong: readonly number[] = [],
): CreditTable {
  const lengths = (Object.values(lists)[0] ?? []).map((trace) => trace.length);
  return {
    offsets: Int32Array.from([0, ...lengths.map((_, i) => lengths.slice(0, i + 1).reduce((a, b) => a + b))]),
    rewards: Float64Array.from(rewards),
    groups: apart(rewards.length),
    firstWrong: Int32Array.from(rewards, (_, i) => firstWrong[i] ?? -2),
    credits: Object.entries(lists).map(([name, traces]) => ({
      name,
      values: Float64Array.from(traces.flat()),
    })),
  };
}

/** The figure, without an interval. */
export function told(figure: Figure, groups: Int32Array): number {
  return withIntervals([figure], groups, { resamples: 0, seed: 0 })[0]?.value as number;
}
