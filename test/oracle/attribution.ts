/** φ of a trace in float64, as it is and without a segment: from the formulas, one whole pass each time. */
import { type FamilyModel, familyEmbeddings, familyNext, familyStates, type Sight } from './families.js';
import { logSumExp } from './llama.js';

/** A trace up to the end of its thought, and the references behind an exit template. */
export interface OracleTrace {
  /** prompt and completion up to s_K */
  readonly ids: readonly number[];
  /** (K+1) exit points among these */
  readonly exits: readonly number[];
  /** (N) template, answer and closer, of which the last `scored` tokens count */
  readonly references: readonly { ids: readonly number[]; scored: number; utility: number }[];
}

/** log p of one reference; `sight` has a say in what rows see. */
function logprobOf(
  model: FamilyModel,
  before: readonly number[],
  { ids, scored }: OracleTrace['references'][number],
  sight: Sight = {},
): number {
  const all = [...before, ...ids];
  const states = familyStates(model, familyEmbeddings(model, all), sight);
  let sum = 0;
  for (let t = all.length - scored; t < all.length; t++)
    sum += familyNext(model, states[t - 1] as Float64Array)[all[t] as number] as number;
  return sum;
}

/** φ = log Σ_n ζ_n p(y_n). */
export function phi(
  model: FamilyModel,
  { ids, references }: Pick<OracleTrace, 'ids' | 'references'>,
  sight?: Sight,
): number {
  return logSumExp(references.map((each) => Math.log(each.utility) + logprobOf(model, ids, each, sight)));
}

/** (K) φ(all) − φ(without u_k), the segment taken out of the text. */
export function deletedLoo(model: FamilyModel, trace: OracleTrace): number[] {
  const { ids, exits, references } = trace;
  const whole = phi(model, trace);
  return exits.slice(1).map((end, k) => {
    const shorter = [...ids.slice(0, exits[k]), ...ids.slice(end)];
    return whole - phi(model, { ids: shorter, references });
  });
}

/** (K) the same, the segment hidden from all that comes after it. */
export function maskedLoo(model: FamilyModel, trace: OracleTrace): number[] {
  const { exits } = trace;
  const whole = phi(model, trace);
  return exits.slice(1).map((end, k) => {
    const isInside = (t: number) => t >= (exits[k] as number) && t < end;
    const sees = (row: number, key: number) => isInside(row) || !isInside(key);
    return whole - phi(model, trace, { sees });
  });
}
