// How much of the truth is not noise: its reliability, whose root no credit's correlation with it can be expected to pass.
import { withIntervals } from '../../dist/compare/bootstrap.js';
import { pairedCredits } from '../../dist/compare/credit-table.js';
import { pearsonSums } from '../../dist/compare/within.js';

/** √ of Spearman and Brown's 2r/(1+r), r the correlation inside traces of two halves of the truth's samples. */
export function ceilingOfHalves(table, a, b) {
  const sums = Array.from(table.rewards, (_, i) => {
    const { x, y } = pairedCredits(table, a, b, i, 1);
    return pearsonSums(x, y);
  });
  return {
    terms: Float64Array.from(sums.flatMap(({ cross, ownX, ownY }) => [cross, ownX, ownY])),
    m: 3,
    value: ([cross, ownX, ownY]) => {
      const r = cross / Math.sqrt(ownX * ownY);
      return Math.sqrt(Math.max(0, Math.min(1, (2 * r) / (1 + r))));
    },
  };
}

/**
 * The ceiling with its interval over groups, as `compare` makes its intervals.
 * @param rows with the group of each trace; one without is a group of its own
 * @param a changes of each trace, from one half of the truth's samples
 * @param b from the other
 */
export function ceilingWithInterval(rows, a, b) {
  const numbers = new Map();
  const numberOf = (group) => numbers.get(group) ?? numbers.set(group, numbers.size).get(group);
  const table = {
    offsets: Int32Array.from([0, ...a], (_, i) => a.slice(0, i).reduce((sum, own) => sum + own.length, 0)),
    rewards: Float64Array.from(rows, ({ reward }) => reward),
    groups: Int32Array.from(rows, ({ group }, i) => numberOf(group ?? i)),
  };
  const credit = (changes) => ({ values: Float64Array.from(changes.flat(), (x) => x ?? Number.NaN) });
  const figure = ceilingOfHalves(table, credit(a), credit(b));
  return withIntervals([figure], table.groups, { resamples: 1000, seed: 0 })[0];
}
