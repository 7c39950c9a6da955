// `attention`: what a segment counts for is the attention that it gets from the tokens of the answer.
import type { Estimator } from './estimator.js';
import { OF_ANSWERS, readAgain } from './read-again.js';

export const attention: Estimator = {
  ...OF_ANSWERS,
  name: 'attention',
  isMagnitude: true,
  isUnitless: true,
  card: 'no value: what the segments so far count for, each by the share of attention that it gets from the tokens of the reference answer',
  ask: () => readAgain({ estimator: 'attention' }),
};
