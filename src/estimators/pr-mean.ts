// `pr-mean`: the mean probability of a reference answer's tokens, as RLPR has it.
import { arithmeticMean } from '../estimate/value.js';
import type { Estimator } from './estimator.js';

export const prMean: Estimator = {
  name: 'pr-mean',
  scores: 'answers',
  // the mean of token probabilities does not follow from their product, which is what a row stores
  fromTokens: arithmeticMean,
  card: 'the mean token probability of the reference answer, if the policy had to answer there',
};
