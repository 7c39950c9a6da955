// `joint-log`: the same value as `joint`, with differences of the logarithm itself: the change of the NLL that the paper's PRM figure studies.
import type { Estimator } from './estimator.js';
import { joint } from './joint.js';

const { hasOwnScale: _, ...of } = joint;

export const jointLog: Estimator = {
  ...of,
  name: 'joint-log',
  card: 'the log-probability of the reference solution and answer as the continuation; differences are of the logarithm',
};
