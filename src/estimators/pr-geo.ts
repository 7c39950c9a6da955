// `pr-geo`: the geometric mean of the probabilities of a reference answer's tokens, its likelihood whatever its length.
import { geometricMean } from '../estimate/value.js';
import type { Estimator } from './estimator.js';

export const prGeo: Estimator = {
  name: 'pr-geo',
  scores: 'answers',
  fromStored: geometricMean,
  card: 'the geometric mean of the token probabilities of the reference answer, if the policy had to answer there',
};
