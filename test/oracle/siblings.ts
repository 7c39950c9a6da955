// The siblings value from its formula, in float64, and the best alignment of two thoughts by trying all of them.

/** Dice similarity of two bags of tokens, each token with log(1 + pieces / pieces that have it). */
export function oracleDice(
  a: readonly number[],
  b: readonly number[],
  pieces: readonly (readonly number[])[],
): number {
  const weight = (id: number) =>
    Math.log(1 + pieces.length / pieces.filter((piece) => piece.includes(id)).length);
  const times = (bag: readonly number[], id: number) => bag.filter((each) => each === id).length;
  const total = (bag: readonly number[]) => bag.reduce((sum, id) => sum + weight(id), 0);
  const common = [...new Set(a)].reduce(
    (sum, id) => sum + weight(id) * Math.min(times(a, id), times(b, id)),
    0,
  );
  return total(a) + total(b) === 0 ? 0 : (2 * common) / (total(a) + total(b));
}

/** The largest sum of similarities that an alignment in order has, by trying all of them: for a few pieces. */
export function oracleBest(similar: readonly (readonly number[])[], k = 0, j = 0): number {
  if (k >= similar.length || j >= (similar[0]?.length ?? 0)) return 0;
  return Math.max(
    (similar[k]?.[j] as number) + oracleBest(similar, k + 1, j + 1),
    oracleBest(similar, k + 1, j),
    oracleBest(similar, k, j + 1),
  );
}

export interface OraclePeer {
  /** Σ log π of its first L tokens, at the trace's state and at its own */
  here: number;
  own: number;
  reward: number;
  /** n_j (default 1) */
  draws?: number;
}

/**
 * ¾ (n R + Σ n w r + ½ Σ_b r_b + c·V) / (n + Σ n w + ½ B + c) + ¼ V with c = ½; the mean of the outcomes where no V is made of anything.
 * @param reward R; null: unknown, and left out
 * @param begunAlike (B) r_b of those that are no peers and came through the same state
 * @param draws n
 */
export function oracleSibling(
  reward: number | null,
  prior: number,
  peers: readonly OraclePeer[],
  begunAlike: readonly number[] = [],
  draws = 1,
  hasPrior = true,
): number {
  let [above, below] = hasPrior ? [prior / 2, 0.5] : [0, 0];
  if (reward !== null) [above, below] = [above + draws * reward, below + draws];
  for (const outcome of begunAlike) {
    above += outcome / 2;
    below += 0.5;
  }
  for (const { here, own, reward: outcome, draws: n = 1 } of peers) {
    const w = n * Math.exp(Math.min(3, Math.max(-30, here - own)));
    above += w * outcome;
    below += w;
  }
  if (below === 0) return prior;
  return hasPrior ? (0.75 * above) / below + 0.25 * prior : above / below;
}
