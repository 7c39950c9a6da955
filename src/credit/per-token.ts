// The σ rules that look at tokens alone, whatever the values (METHOD §4).
import type { Rule } from './rule.js';

/** Of the tokens so large a part has all the credit of `top-entropy`. */
const TOP = 0.2;

/** σ_t ∝ −log π(o_t). */
const surprise: Rule = {
  words: 'the negative log-probabilities of the tokens, whatever the values',
  reads: 'logprobs',
  ofTokens: ({ logprobs }) => proportional(logprobs.map((lp) => -lp)),
};

/** σ_t ∝ H_t. */
const entropy: Rule = {
  words: 'the entropies of the tokens, whatever the values',
  reads: 'entropies',
  ofTokens: ({ entropies }) => proportional(entropies),
};

/** The fifth of the tokens with most entropy, each alike, and 0 elsewhere; of equal ones the first. At least one token. */
const topEntropy: Rule = {
  words: 'the fifth of the tokens with most entropy, whatever the values',
  reads: 'entropies',
  ofTokens({ entropies }) {
    const most = Math.ceil(TOP * entropies.length);
    const order = Array.from(entropies.keys()).sort(
      (a, b) => (entropies[b] as number) - (entropies[a] as number) || a - b,
    );
    const sigma = new Float32Array(entropies.length);
    for (const t of order.slice(0, most)) sigma[t] = 1 / most;
    return sigma;
  },
};

/** Plain GRPO. */
const uniform: Rule = {
  words: '1/T: no redistribution',
  ofTokens: ({ T }) => new Float32Array(T).fill(1 / T),
};

export const TOKEN_RULES = { surprise, entropy, 'top-entropy': topEntropy, uniform } as const;

/** Rounding makes a log-probability of a certain token, or its entropy, a little more or less than 0. */
function proportional(weights: Float32Array): Float32Array | undefined {
  const total = weights.reduce((sum, weight) => sum + Math.max(0, weight), 0);
  return total > 0 ? weights.map((weight) => Math.max(0, weight) / total) : undefined;
}
