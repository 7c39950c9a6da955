// `pr`, the default: the probability of giving a reference answer if the policy had to answer there (METHOD eq. 3, u empty).
import { rightNow } from '../estimate/value.js';
import type { Estimator } from './estimator.js';

export const pr: Estimator = {
  name: 'pr',
  scores: 'answers',
  fromStored: rightNow,
  card: 'the probability of the reference answer, if the policy had to answer there',
};
