// The constant that other objectives weigh every token of a trace with, to be compared with σ (METHOD §4).

export const NORMALISERS = ['grpo', 'dapo', 'batch_tokens', 'dr_grpo'] as const;
export type Normaliser = (typeof NORMALISERS)[number];

/** The normalisers that need more than the trace itself: they are made of a whole file alone. */
export const OF_OTHERS: readonly Normaliser[] = ['dapo', 'batch_tokens'];

/** Numbers of completion tokens. */
export interface TokenCounts {
  /** |o| of the trace */
  readonly own: number;
  /** of all traces of its group; undefined where it has none */
  readonly group: number | undefined;
  /** of all traces of its batch */
  readonly batch: number | undefined;
  /** M: the longest completion that the trainer lets the policy write */
  readonly most: number | undefined;
}

/**
 * - `grpo` 1/|o|, which alone sums to 1 over a trace
 * - `dapo` 1/Σ_group |o|
 * - `batch_tokens` 1/|B|, the tokens of the batch
 * - `dr_grpo` 1/M
 * @returns null where the number of tokens is not known
 */
export function normaliser(name: Normaliser, { own, group, batch, most }: TokenCounts): number | null {
  const tokens = { grpo: own, dapo: group, batch_tokens: batch, dr_grpo: most }[name];
  return tokens === undefined ? null : 1 / tokens;
}
