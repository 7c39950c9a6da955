// Merges neighbouring pieces until few enough are left, or none are poor enough: always the two with the lowest total entropy (METHOD §2).
import TinyQueue from 'tinyqueue';

/**
 * Greedy merge by a queue over a linked list: O(P log P), equal to the naive loop on every input, ties leftmost.
 * @param ends (P) piece ends as token boundaries, rising
 * @param weights (P) total entropy of each piece (or its length, where there is no policy)
 * @param max pieces that may be left
 * @param borders ends over which nothing is merged, though more pieces than `max` are left
 * @param limit pairs of no larger sum are merged also where no more than `max` pieces are left; absent: none are
 * @returns the ends that survive, at most `max` of them
 */
export function mergePieces(
  ends: Int32Array,
  weights: Float64Array,
  max: number,
  limit = Number.NEGATIVE_INFINITY,
  borders?: ReadonlySet<number>,
): Int32Array {
  const P = ends.length;
  if (P < 2 || (P <= max && limit === Number.NEGATIVE_INFINITY)) return ends;
  const weight = Float64Array.from(weights);
  const next = new Int32Array(P); // P: none
  const previous = new Int32Array(P);
  const sums = new Float64Array(P); // of the pair (i, next[i]); NaN where there is none
  const pairs = new TinyQueue<Pair>([], (a, b) => a.sum - b.sum || a.left - b.left);
  const put = (i: number): void => {
    const j = next[i] as number;
    const isApart = j === P || borders?.has(ends[j - 1] as number);
    const sum = isApart ? Number.NaN : (weight[i] as number) + (weight[j] as number);
    sums[i] = sum;
    if (!isApart) pairs.push({ left: i, sum });
  };
  for (let i = 0; i < P; i++) {
    next[i] = i + 1;
    previous[i] = i - 1;
    put(i);
  }

  let count = P;
  for (let pair = pairs.pop(); pair !== undefined; pair = pairs.pop()) {
    const { left: i, sum } = pair;
    if (sum !== sums[i]) continue; // one of the two is part of another piece by now
    if (count <= max && sum > limit) break;
    const j = next[i] as number;
    const after = next[j] as number;
    weight[i] = sum;
    next[i] = after;
    if (after < P) previous[after] = i;
    sums[j] = Number.NaN;
    put(i);
    const before = previous[i] as number;
    if (before >= 0) put(before);
    count--;
  }

  const kept = new Int32Array(count);
  for (let i = 0, k = 0; i < P; i = next[i] as number, k++) kept[k] = ends[(next[i] as number) - 1] as number;
  return kept;
}

/** Two neighbours, called by the left one: smallest sum first, leftmost on ties. */
interface Pair {
  readonly left: number;
  readonly sum: number;
}
