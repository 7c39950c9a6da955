/** φ of a trace in float64, as it is, without a segment, and by its attention: from the formulas, one whole pass each time. */
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

type Rows = readonly Float64Array[];

/** log p of one reference; `change` has a say in the input embeddings and in what rows see. */
function logprobOf(
  model: FamilyModel,
  before: readonly number[],
  { ids, scored }: OracleTrace['references'][number],
  change: (embeddings: Rows) => Rows = (rows) => rows,
  sight: Sight = {},
): number {
  const all = [...before, ...ids];
  const states = familyStates(model, change(familyEmbeddings(model, all)), sight);
  let sum = 0;
  for (let t = all.length - scored; t < all.length; t++)
    sum += familyNext(model, states[t - 1] as Float64Array)[all[t] as number] as number;
  return sum;
}

/** φ = log Σ_n ζ_n p(y_n). */
export function phi(
  model: FamilyModel,
  { ids, references }: Pick<OracleTrace, 'ids' | 'references'>,
  change?: (embeddings: Rows) => Rows,
  sight?: Sight,
): number {
  return logSumExp(
    references.map((each) => Math.log(each.utility) + logprobOf(model, ids, each, change, sight)),
  );
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
    return whole - phi(model, trace, undefined, { sees });
  });
}

/** ζ_n p_n / Σ ζ p of each reference. */
function posterior(model: FamilyModel, { ids, references }: OracleTrace): number[] {
  const logs = references.map((each) => Math.log(each.utility) + logprobOf(model, ids, each));
  return logs.map((log) => Math.exp(log - logSumExp(logs)));
}

/** (K) attention from the rows that predict scored tokens to each segment's keys, the mean over rows, heads and layers. */
export function attentionMass(model: FamilyModel, trace: OracleTrace): number[] {
  const { ids, exits, references } = trace;
  const { num_attention_heads: heads, num_hidden_layers: layers } = model.config as Record<string, number>;
  const weights = posterior(model, trace);
  const masses = exits.slice(1).map(() => 0);
  for (const [n, reference] of references.entries()) {
    const first = ids.length + reference.ids.length - reference.scored - 1;
    const onWeight = (_: number, __: number, row: number, key: number, weight: number): void => {
      const k = exits.findIndex((exit) => key < exit) - 1;
      if (k < 0 || row < first || row >= first + reference.scored) return;
      const shared = reference.scored * (heads as number) * (layers as number);
      masses[k] = (masses[k] as number) + ((weights[n] as number) * weight) / shared;
    };
    familyStates(model, familyEmbeddings(model, [...ids, ...reference.ids]), { onWeight });
  }
  return masses;
}

/** (K) ‖∂φ/∂E‖ over each segment's input embeddings, by central differences in every component. */
export function gradientNorms(model: FamilyModel, trace: OracleTrace, step = 1e-4): number[] {
  const { exits } = trace;
  const d = model.config.hidden_size as number;
  const slope = (t: number, i: number): number => {
    const moved = (by: number) =>
      phi(model, trace, (rows) =>
        rows.map((row, u) => (u === t ? row.map((x, j) => (j === i ? x + by : x)) : row)),
      );
    return (moved(step) - moved(-step)) / (2 * step);
  };
  return exits.slice(1).map((end, k) => {
    let squares = 0;
    for (let t = exits[k] as number; t < end; t++) for (let i = 0; i < d; i++) squares += slope(t, i) ** 2;
    return Math.sqrt(squares);
  });
}
