// `--estimator surprise`: log-probabilities of a trace's tokens in, values that sum up each segment's most surprising token out.
import { summedAttributions } from './summed.js';

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
