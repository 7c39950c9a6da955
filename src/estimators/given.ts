// `given`: values that the rows bring along, such as published Monte Carlo values.
import { givenValues } from '../estimate/value.js';
import type { Estimator } from './estimator.js';

export const given: Estimator = {
  name: 'given',
  scores: 'nothing',
  onRewardScale: true,
  isOfRow: true,
  card: 'values that the input brought along',
  of: ({ trace, exits }) => givenValues(trace.values, exits.length),
};
