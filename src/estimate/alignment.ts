// Aligns a trace's thought with those of its peers: which are most like it, and which states correspond.
import type { TokenizedTrace } from '../question.js';
import { candidateExits } from '../segment/segment.js';

/** What of a trace is aligned. */
export type Alignable = Pick<TokenizedTrace, 'completionIds' | 'pieces'>;

/** A peer as one trace sees it. */
export type Aligned<T> = T & {
  /** (P+1) for each exit that the trace's pieces allow: tokens of the peer's completion before the corresponding state */
  readonly at: Int32Array;
};

/** Pairs of pieces that are aligned at most, which take 16 bytes each: 4,000 pieces beside 4,000. */
const MOST_PAIRS = 2 ** 24;

/** The peers of a window are aligned with many traces each. */
const known = new WeakMap<object, readonly Bag[]>();

function bagsOf({ completionIds, pieces }: Alignable): readonly Bag[] {
  const bags = known.get(pieces) ?? pieceBags(completionIds, pieces.thought.start, pieces.ends);
  known.set(pieces, bags);
  return bags;
}

/**
 * The peers whose thoughts are most like the trace's own, the most similar first; of equal ones those that come first.
 * @param others of the group, without the trace itself
 */
export function mostSimilar<T extends Alignable>(
  own: Alignable,
  others: readonly T[],
  most: number,
): Aligned<T>[] {
  const bags = bagsOf(own);
  return others
    .filter((peer) => bagsOf(peer).length * bags.length <= MOST_PAIRS)
    .map((peer) => ({ peer, ...align(bags, bagsOf(peer)) }))
    .sort((a, b) => b.similarity - a.similarity)
    .slice(0, most)
    .map(({ peer, states }) => {
      const exits = candidateExits(peer.pieces);
      return { ...peer, at: states.map((state) => exits[state] as number) };
    });
}

/** A piece's tokens as a bag. */
interface Bag {
  /** distinct, rising */
  readonly ids: Int32Array;
  readonly counts: Int32Array;
}

/** The pieces of a thought as bags of tokens. @param start token from which the first one counts @param ends (K) piece ends, rising */
export function pieceBags(ids: Int32Array, start: number, ends: Int32Array): readonly Bag[] {
  return Array.from(ends, (end, k) => {
    const counts = new Map<number, number>();
    for (const id of ids.slice(k === 0 ? start : ends[k - 1], end).sort())
      counts.set(id, (counts.get(id) ?? 0) + 1);
    return { ids: Int32Array.from(counts.keys()), counts: Int32Array.from(counts.values()) };
  });
}

/**
 * Aligns the pieces of two thoughts in order (Needleman and Wunsch, without a price for gaps), by the Dice similarity of their
 * tokens, where a token that many pieces of the two have counts less. No policy is asked, and no reward is read. The state that
 * corresponds to s_k is the peer's last one before the next piece of its own that is aligned to a piece after s_k. Of alignments
 * that are equally good it is the one whose pieces lie latest: what has nothing in common goes side by side, from the end.
 * @returns similarity: 0..1, of aligned pieces, as a share of all pieces of both; states: (K+1) for each state of the first thought the
 * corresponding one of the second, 0..J, never falling; that of s_0 is s_0
 */
export function align(first: readonly Bag[], second: readonly Bag[]) {
  const [K, J] = [first.length, second.length];
  const states = new Int32Array(K + 1);
  if (K === 0 || J === 0) return { similarity: 0, states };
  const similarity = similarities(first, second);
  const width = J + 1;
  const total = new Float64Array((K + 1) * width);
  // the best sums that end in pieces k and j: with both aligned to each other, and with one of them left out
  const match = (k: number, j: number): number =>
    (total[(k - 1) * width + j - 1] as number) + (similarity[(k - 1) * J + j - 1] as number);
  const without = (k: number, j: number): number =>
    Math.max(total[(k - 1) * width + j] as number, total[k * width + j - 1] as number);
  for (let k = 1; k <= K; k++)
    for (let j = 1; j <= J; j++) total[k * width + j] = Math.max(match(k, j), without(k, j));
  let [k, j] = [K, J];
  states[K] = J;
  while (k > 0) {
    if (j > 0 && match(k, j) >= without(k, j)) [k, j] = [k - 1, j - 1];
    else if (j === 0 || total[(k - 1) * width + j] === total[k * width + j]) k -= 1;
    else {
      j -= 1;
      continue;
    }
    states[k] = j;
  }
  // both begin with nothing but the prompt
  states[0] = 0;
  return { similarity: (2 * (total[K * width + J] as number)) / (K + J), states };
}

/** (K·J) Dice similarity of every piece of the one with every piece of the other, tokens weighted by log(1 + pieces / pieces that have it). */
function similarities(first: readonly Bag[], second: readonly Bag[]): Float64Array {
  const having = new Map<number, number>();
  for (const { ids } of [...first, ...second])
    for (const id of ids) having.set(id, (having.get(id) ?? 0) + 1);
  const pieces = first.length + second.length;
  const weigh = ({ ids, counts }: Bag) => {
    const weights = Float64Array.from(ids, (id) => Math.log(1 + pieces / (having.get(id) as number)));
    return { ids, counts, weights, sum: weights.reduce((sum, w, n) => sum + w * (counts[n] as number), 0) };
  };
  const [rows, columns] = [first.map(weigh), second.map(weigh)];
  const found = new Float64Array(rows.length * columns.length);
  for (const [k, a] of rows.entries())
    for (const [j, b] of columns.entries()) {
      let common = 0;
      for (let x = 0, y = 0; x < a.ids.length && y < b.ids.length; ) {
        const difference = (a.ids[x] as number) - (b.ids[y] as number);
        if (difference === 0)
          common += (a.weights[x] as number) * Math.min(a.counts[x] as number, b.counts[y] as number);
        if (difference <= 0) x++;
        if (difference >= 0) y++;
      }
      found[k * columns.length + j] = a.sum + b.sum === 0 ? 0 : (2 * common) / (a.sum + b.sum);
    }
  return found;
}
