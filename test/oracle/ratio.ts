/** The log-ratio of two policies over a trace, in float64, from its formula. */
import { type OracleModel, tokenStats } from './llama.js';

/**
 * (K) Σ log π(o_t) − log π_ref(o_t) over the tokens of each segment.
 * @param ends (K) exclusive; the first segment begins at token 0
 */
export function segmentRatios(
  policy: OracleModel,
  older: OracleModel,
  prompt: readonly number[],
  completion: readonly number[],
  ends: readonly number[],
): number[] {
  const [own, reference] = [policy, older].map((model) => {
    const { logprobs } = tokenStats(model, [...prompt, ...completion]);
    return logprobs.subarray(prompt.length);
  }) as [Float64Array, Float64Array];
  return ends.map((end, k) => {
    let sum = 0;
    for (let t = ends[k - 1] ?? 0; t < end; t++) sum += (own[t] as number) - (reference[t] as number);
    return sum;
  });
}
