/** φ of a trace in float64, as it is and without a segment: from the formulas, one whole pass each time. */
import { logSumExp, type OracleModel, type Sees, tokenStats } from './llama.js';

/** A trace up to the end of its thought, and the references behind an exit template. */
export interface OracleTrace {
  /** prompt and completion up to s_K */
  readonly ids: readonly number[];
  /** (K+1) exit points among these */
  readonly exits: readonly number[];
  /** (N) template, answer and closer, of which the last `scored` tokens count */
  readonly references: readonly { ids: readonly number[]; scored: number; utility: number }[];
}

/** log p of one reference; `sees` has a say in what rows see. */
function logprobOf(
  model: OracleModel,
  before: readonly number[],
  { ids, scored }: OracleTrace['references'][number],
  sees?: Sees,
): number {
  const { logprobs } = tokenStats(model, [...before, ...ids], sees);
  return logprobs.slice(-scored).reduce((sum, logprob) => sum + logprob, 0);
}

/** φ = log Σ_n ζ_n p(y_n). */
export function phi(
  model: OracleModel,
  { ids, references }: Pick<OracleTrace, 'ids' | 'references'>,
  sees?: Sees,
): number {
  return logSumExp(references.map((each) => Math.log(each.utility) + logprobOf(model, ids, each, sees)));
}

/** (K) φ(all) − φ(without u_k), the segment taken out of the text. */
export function deletedLoo(model: OracleModel, trace: OracleTrace): number[] {
  const { ids, exits, references } = trace;
  const whole = phi(model, trace);
  return exits.slice(1).map((end, k) => {
    const shorter = [...ids.slice(0, exits[k]), ...ids.slice(end)];
    return whole - phi(model, { ids: shorter, references });
  });
}

/** (K) the same, the segment hidden from all that comes after it. */
export function maskedLoo(model: OracleModel, trace: OracleTrace): number[] {
  const { exits } = trace;
  const whole = phi(model, trace);
  return exits.slice(1).map((end, k) => {
    const isInside = (t: number) => t >= (exits[k] as number) && t < end;
    const sees = (row: number, key: number) => isInside(row) || !isInside(key);
    return whole - phi(model, trace, sees);
  });
}
