/** The answer to a question at a state, in float64, from its formula. */
import { continuationLogprobs, type OracleModel, type State } from './llama.js';

/** p(yes | s, question) / (p(yes | s, question) + p(no | s, question)) */
export function askedValue(
  model: OracleModel,
  stateAt: () => State,
  question: readonly number[],
  yes: readonly number[],
  no: readonly number[],
): number {
  const [p, q] = [yes, no].map((answer) => {
    const logprobs = continuationLogprobs(model, stateAt(), [...question, ...answer]);
    return logprobs.subarray(question.length).reduce((product, lp) => product * Math.exp(lp), 1);
  }) as [number, number];
  return p / (p + q);
}
