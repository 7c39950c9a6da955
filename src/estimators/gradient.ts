// `gradient`: what a segment counts for is the norm of the gradient of the answer's log-probability in its input embeddings.
import type { Estimator } from './estimator.js';
import { OF_ANSWERS, readAgain } from './read-again.js';

export const gradient: Estimator = {
  ...OF_ANSWERS,
  name: 'gradient',
  isMagnitude: true,
  isUnitless: true,
  card: "no value: what the segments so far count for, each by the norm of the gradient of the reference answer's log-probability in its input embeddings",
  ask: () => readAgain({ estimator: 'gradient' }),
};
