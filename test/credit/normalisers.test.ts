/** What normalisers do to the optimum, exactly: one choice for two prompts, every group of completions enumerated. */
import { expect, test } from 'vitest';
import { NORMALISERS, requestedOf } from '../../dist/credit/requested.js';
import { named } from '../support/estimators.js';

/** Completions of a prompt: their tokens, and how often they win by which choice. */
const PROMPTS = [
  { tokens: 10, wins: { stay: 0.7, move: 0.6 } },
  { tokens: 40, wins: { stay: 0.2, move: 0.5 } },
] as const;
const GROUP = 4;

/** The weight of a token of either prompt's completions, by the program. */
function weightOf(name: (typeof NORMALISERS)[number], tokens: number): number {
  const trace = { ends: Int32Array.of(tokens), answered: false, estimator: named('pr') };
  const values = { values: new Float32Array(2), reward: 1, baseline: 0 };
  const none = { entropies: new Float32Array(tokens), logprobs: new Float32Array(tokens) };
  const { columns } = requestedOf(
    { ...trace, ...values, ...none },
    {
      ...{ rule: 'uniform', residual: 'uniform', within: 'uniform' },
      ...{ normalisers: [name], maxCompletionLength: 64 },
    },
    { group: GROUP * tokens, batch: GROUP * (10 + 40) },
  );
  return columns[`normaliser_${name}`] as number;
}

/** The expected gradient of one prompt's group in the logit of `move`: Σ over all groups of p Σ_i (r_i − mean) ∂ log π(o_i). */
function gradient({ wins }: (typeof PROMPTS)[number], move: number): number {
  let expected = 0;
  for (let drawn = 0; drawn < 4 ** GROUP; drawn++) {
    const group = Array.from({ length: GROUP }, (_, i) => (drawn >> (2 * i)) & 3);
    const traces = group.map((bits) => ({ moves: bits >> 1, reward: bits & 1 }));
    const mean = traces.reduce((sum, { reward }) => sum + reward, 0) / GROUP;
    let [p, own] = [1, 0];
    for (const { moves, reward } of traces) {
      const odds = moves ? wins.move : wins.stay;
      p *= (moves ? move : 1 - move) * (reward ? odds : 1 - odds);
      own += (reward - mean) * (moves - move);
    }
    expected += p * own;
  }
  return expected;
}

test('by the length of a trace, or of its group, ascent ends at the choice that wins .45; by a constant or the batch at the one that wins .55', () => {
  for (const name of NORMALISERS)
    for (const move of [0.01, 0.2, 0.5, 0.8, 0.99]) {
      const whole = PROMPTS.reduce(
        (sum, prompt) => sum + gradient(prompt, move) * weightOf(name, prompt.tokens),
        0,
      );
      expect(Math.sign(whole), `${name} at ${move}`).toBe(name === 'grpo' || name === 'dapo' ? -1 : 1);
    }
});
