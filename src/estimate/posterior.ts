// `--estimator posterior`: values of states by how a hint changes the log-probabilities of a trace's tokens (METHOD §3).

/**
 * v_k = logistic(Σ_{s_0 ≤ t < exit k} log π(o_t | x, hint) − log π(o_t | x)), summed in float64: ½ at s_0, wherever the tag
 * that opens the thought stands.
 * @param logprobs (T) nats, without the hint
 * @param hinted (T) nats, with it
 * @param exits (K+1) rising, in tokens of the completion
 * @returns (K+1) in (0, 1), as they are stored
 */
export function posteriorValues(
  logprobs: Float32Array,
  hinted: Float32Array,
  exits: Int32Array,
): Float32Array {
  let [sum, t] = [0, exits[0] ?? 0];
  return Float32Array.from(exits, (exit) => {
    for (; t < exit; t++) sum += (hinted[t] as number) - (logprobs[t] as number);
    return 1 / (1 + Math.exp(-sum));
  });
}
