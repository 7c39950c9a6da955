// `surprise`: what a segment counts for is how unlikely its least likely token was; no reference, no value, no further pass.
import { summedAttributions } from '../estimate/summed.js';
import type { Estimator } from './estimator.js';

/**
 * a_k = −min log π(o_t) over the tokens of segment k, and 0 where that is below: a log-probability may be above 0 by rounding.
 * @param logprobs (T) nats
 * @param ends (K) of the thought segments, exclusive
 * @returns (K+1) nats, as they are stored
 */
export function surpriseValues(logprobs: Float32Array, ends: Int32Array): Float32Array {
  const attributions = Float64Array.from(ends, (end, k) => {
    const own = logprobs.subarray(k === 0 ? 0 : ends[k - 1], end);
    return -own.reduce((least, logprob) => Math.min(least, logprob), 0);
  });
  return summedAttributions(attributions);
}

export const surprise: Estimator = {
  name: 'surprise',
  scores: 'nothing',
  isAttribution: true,
  isMagnitude: true,
  noLevel: 'sums of attributions',
  valueName: 'Σa',
  fromLogprobs: surpriseValues,
  card: 'no value: what the segments so far count for, each by the negative log-probability of its least likely token',
  of: ({ logprobs, ends }) => surpriseValues(logprobs, ends),
};
