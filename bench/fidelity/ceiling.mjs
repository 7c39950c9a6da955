// The ceiling of Monte Carlo's differences from two halves of its samples, with its interval over groups as `bench` and `compare` make it.

import { ceilingOf } from '../../dist/compare/bench.js';
import { withIntervals } from '../../dist/compare/bootstrap.js';
import { correlate, pairTraces } from '../../dist/compare/correlations.js';

/**
 * @param rows with the group of each trace; one without is a group of its own
 * @param a changes of each trace, from one half of the truth's samples
 * @param b from the other
 */
export function ceilingWithInterval(rows, a, b) {
  const names = [...new Set(rows.map(({ group }, i) => group ?? i))];
  const table = {
    offsets: Int32Array.from([0, ...a], (_, i) => a.slice(0, i).flat().length),
    rewards: Float64Array.from(rows, ({ reward }) => reward),
    groups: Int32Array.from(rows, ({ group }, i) => names.indexOf(group ?? i)),
  };
  const [x, y] = [a, b].map((changes) => ({
    values: Float64Array.from(changes.flat(), (own) => own ?? Number.NaN),
  }));
  const { figure } = correlate(table, pairTraces(table, x, y, 1), 'all').pearson;
  return withIntervals([ceilingOf(figure)], table.groups, { resamples: 1000, seed: 0 })[0];
}
