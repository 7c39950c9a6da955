// The figures that are compared: credits of the thought segments of all traces, column by column.

/** Credits per segment of n traces; trace i has segments offsets[i] to offsets[i+1]. */
export interface CreditTable {
  readonly offsets: Int32Array; // (n+1)
  readonly rewards: Float64Array; // (n) NaN where unknown
  /** number of a trace's group, from 0; a trace without one is its own */
  readonly groups: Int32Array; // (n)
  /** first wrong segment of a trace: its number, −1 where none is wrong, −2 where nobody has said */
  readonly firstWrong: Int32Array; // (n)
  readonly credits: readonly NamedCredit[];
}

/** One way to share the reward out. */
export interface NamedCredit {
  readonly name: string;
  readonly values: Float64Array; // (N) of the thought segments; NaN where there is none
}

export const NO_LABEL = -2;

/** Which traces. */
export type Outcome = 'all' | 'right' | 'wrong';

/** Whether a trace counts: right is a reward above ½. */
export function isIn(outcome: Outcome, reward: number): boolean {
  return outcome === 'all' || (outcome === 'right' ? reward > 0.5 : reward <= 0.5);
}

/** The credits of two columns in one trace: of the last share of its segments, those that have finite numbers in both. */
export function pairedCredits(
  table: CreditTable,
  a: NamedCredit,
  b: NamedCredit,
  trace: number,
  last: number,
) {
  const end = table.offsets[trace + 1] as number;
  const start = end - Math.ceil(last * (end - (table.offsets[trace] as number)) - 1e-9);
  const [x, y] = [a.values.subarray(start, end), b.values.subarray(start, end)];
  if (x.every(Number.isFinite) && y.every(Number.isFinite)) return { x, y };
  const isKnown = (_: number, k: number) => Number.isFinite(x[k]) && Number.isFinite(y[k]);
  return { x: x.filter(isKnown), y: y.filter(isKnown) };
}
