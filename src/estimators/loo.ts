// `loo`: what a segment counts for is what the answer's log-probability loses without it.
import type { Loo } from '../estimate/models/deletions.js';
import { oneOf } from '../flag-values.js';
import type { Estimator } from './estimator.js';
import { OF_ANSWERS, readAgain } from './read-again.js';

/**
 * What a trace is without a segment:
 * - `deleted`: what follows moves up, as if the segment had never been written
 * - `masked`: it stays where it is and nothing after it sees the segment
 */
const LOO = ['deleted', 'masked'] as const satisfies readonly Loo[];

export const loo: Estimator = {
  ...OF_ANSWERS,
  name: 'loo',
  card: 'no value: what the segments so far count for, each by how much less likely the reference answer is without it, as a logarithm',
  flags: [
    [
      '--loo <how>',
      `of loo: a segment is ${LOO.join('|')} (what follows moves up, or stays and does not see it; default: ${LOO[0]})`,
    ],
  ],
  configKeys: ['loo'],
  ask({ loo: how = LOO[0] }) {
    const own = oneOf('--loo', String(how), LOO);
    return readAgain({ estimator: 'loo', loo: own }, { loo: own });
  },
};
