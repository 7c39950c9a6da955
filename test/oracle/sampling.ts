/** How tokens are chosen, and what a state is worth then, from log-probabilities alone: temperature, then the nucleus (Holtzman et al., 1904.09751). */

/** The distribution under a temperature and top-p: the smallest set of likeliest tokens that holds so much, scaled to 1. */
export function choosing(logp: Float64Array, temperature: number, topP: number): Float64Array {
  const weights = logp.map((lp) => Math.exp(lp / temperature));
  const total = weights.reduce((a, b) => a + b, 0);
  const order = Array.from(weights.keys()).sort((a, b) => (weights[b] as number) - (weights[a] as number));
  let held = 0;
  const kept = new Float64Array(logp.length);
  for (const id of order) {
    if (held >= topP) break;
    kept[id] = (weights[id] as number) / total;
    held += kept[id] as number;
  }
  return kept.map((p) => p / held);
}

/** What continuations of a state come to, all of them enumerated. */
export interface Enumerated {
  /** Σ p ζ over those that end within the limit */
  readonly value: number;
  /** p of the others */
  readonly lost: number;
}

/**
 * Sums over every continuation of at most `limit` tokens.
 * @param next log-probabilities of all tokens after a sequence
 * @param zeta of a continuation, its stop token included
 */
export function enumerate(
  next: (ids: readonly number[]) => Float64Array,
  state: readonly number[],
  limit: number,
  stops: ReadonlySet<number>,
  zeta: (continuation: readonly number[]) => number,
  { temperature = 1, topP = 1 } = {},
): Enumerated {
  const from = (written: readonly number[]): Enumerated => {
    if (written.length === limit) return { value: 0, lost: 1 };
    let [value, lost] = [0, 0];
    for (const [id, p] of choosing(next([...state, ...written]), temperature, topP).entries()) {
      if (p === 0) continue;
      const longer = [...written, id];
      const rest = stops.has(id) ? { value: zeta(longer), lost: 0 } : from(longer);
      value += p * rest.value;
      lost += p * rest.lost;
    }
    return { value, lost };
  };
  return from([]);
}
