/** φ of a trace in float64, as it is and without a segment, from the formulas. */
import {
  continuationLogprobs,
  fork,
  logSumExp,
  type OracleModel,
  type Sees,
  type State,
  tokenStats,
} from './llama.js';

/** A trace up to the end of its thought, and the references behind an exit template. */
export interface OracleTrace {
  /** prompt and completion up to s_K */
  readonly ids: readonly number[];
  /** (K+1) exit points among these */
  readonly exits: readonly number[];
  /** (N) template, answer and closer, of which the last `scored` tokens count */
  readonly references: readonly { ids: readonly number[]; scored: number; utility: number }[];
}

/** φ = log Σ_n ζ_n p(y_n) where the state is followed by `rest`; `sees` has a say in what rows see. */
function phi(
  model: OracleModel,
  state: State,
  rest: readonly number[],
  references: OracleTrace['references'],
  sees?: Sees,
): number {
  return logSumExp(
    references.map(({ ids, scored, utility }) => {
      const logprobs = continuationLogprobs(model, state, [...rest, ...ids], sees).slice(-scored);
      return Math.log(utility) + logprobs.reduce((sum, logprob) => sum + logprob, 0);
    }),
  );
}

/** (K) φ(all) − φ(without u_k): the segment taken out of the text, or hidden from all that comes after it. */
export function looValues(
  model: OracleModel,
  { ids, exits, references }: OracleTrace,
  how: 'deleted' | 'masked',
): number[] {
  const { state } = tokenStats(model, ids);
  const whole = phi(model, state, [], references);
  return exits.slice(1).map((end, k) => {
    const from = exits[k] as number;
    if (how === 'deleted') return whole - phi(model, fork(state, from), ids.slice(end), references);
    const isInside = (t: number) => t >= from && t < end;
    const sees = (row: number, key: number) => isInside(row) || !isInside(key);
    return whole - phi(model, fork(state, from), ids.slice(from), references, sees);
  });
}
