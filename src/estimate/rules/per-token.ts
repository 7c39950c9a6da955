// The σ rules that look at tokens alone, whatever the values: what the policy made of each in, σ out (METHOD §4).

/** Of the tokens so large a part has all the credit of `top-entropy`. */
const TOP = 0.2;

/** σ_t ∝ −log π(o_t). @returns undefined where no token surprises */
export function surprise(logprobs: Float32Array): Float32Array | undefined {
  return proportional(logprobs.map((lp) => -lp));
}

/** σ_t ∝ H_t. @returns undefined where all entropies are 0 */
export function entropy(entropies: Float32Array): Float32Array | undefined {
  return proportional(entropies);
}

/** The fifth of the tokens with most entropy, each alike, and 0 elsewhere; of equal ones the first. At least one token. */
export function topEntropy(entropies: Float32Array): Float32Array {
  const most = Math.ceil(TOP * entropies.length);
  const order = Array.from(entropies.keys()).sort(
    (a, b) => (entropies[b] as number) - (entropies[a] as number) || a - b,
  );
  const sigma = new Float32Array(entropies.length);
  for (const t of order.slice(0, most)) sigma[t] = 1 / most;
  return sigma;
}

/** Rounding makes a log-probability of a certain token, or its entropy, a little more or less than 0. */
function proportional(weights: Float32Array): Float32Array | undefined {
  const total = weights.reduce((sum, weight) => sum + Math.max(0, weight), 0);
  return total > 0 ? weights.map((weight) => Math.max(0, weight) / total) : undefined;
}
