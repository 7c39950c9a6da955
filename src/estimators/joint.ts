// `joint`: the probability of a reference's solution and answer as the continuation, METHOD eq. (3) in full, kept as its logarithm.
import { logJoint } from '../estimate/value.js';
import type { Estimator } from './estimator.js';

export const joint: Estimator = {
  name: 'joint',
  scores: 'continuations',
  fromStored: logJoint,
  isLog: true,
  hasOwnScale: true,
  noLevel: 'logarithms',
  valueName: 'log v̂',
  card: 'the log-probability of the reference solution and answer as the continuation',
};
