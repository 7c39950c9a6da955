// `snis`: the share of right answers in the probability of all that a bank has, right and wrong.
import { contrast } from '../estimate/value.js';
import type { Estimator } from './estimator.js';

export const snis: Estimator = {
  name: 'snis',
  scores: 'answers',
  isContrast: true,
  fromStored: contrast,
  card: 'the share of right answers in the probability of all in the bank, if the policy had to answer there',
};
