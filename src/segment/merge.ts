// Merges neighbouring pieces until few enough are left: always the two with the lowest total entropy (METHOD §2).

/**
 * Greedy merge by a heap over a linked list: O(P log P), equal to the naive loop on every input, ties leftmost.
 * @param ends (P) piece ends as token boundaries, rising
 * @param weights (P) total entropy of each piece (or its length, where there is no policy)
 * @returns the ends that survive, at most `max` of them
 */
export function mergePieces(ends: Int32Array, weights: Float64Array, max: number): Int32Array {
  const P = ends.length;
  if (P <= max) return ends;
  const weight = Float64Array.from(weights);
  const next = Int32Array.from({ length: P }, (_, i) => i + 1); // P: none
  const previous = Int32Array.from({ length: P }, (_, i) => i - 1);
  const version = new Int32Array(P); // of the pair (i, next[i]); -1: piece i is merged away
  const heap = new PairHeap();
  const push = (i: number) => {
    const j = next[i] as number;
    if (j < P)
      heap.push({
        sum: (weight[i] as number) + (weight[j] as number),
        left: i,
        version: version[i] as number,
      });
  };
  for (let i = 0; i < P; i++) push(i);

  for (let count = P; count > max; ) {
    const pair = heap.pop();
    const i = pair.left;
    if (version[i] !== pair.version) continue; // a neighbour has changed since
    const j = next[i] as number;
    weight[i] = pair.sum;
    next[i] = next[j] as number;
    if ((next[i] as number) < P) previous[next[i] as number] = i;
    version[j] = -1;
    version[i] = (version[i] as number) + 1;
    push(i);
    const h = previous[i] as number;
    if (h >= 0) {
      version[h] = (version[h] as number) + 1;
      push(h);
    }
    count--;
  }

  const kept = new Int32Array(max);
  for (let i = 0, k = 0; i < P; i = next[i] as number, k++) kept[k] = ends[(next[i] as number) - 1] as number;
  return kept;
}

interface Pair {
  readonly sum: number;
  readonly left: number;
  readonly version: number;
}

/** A binary heap: smallest sum first, leftmost on ties. */
class PairHeap {
  private readonly items: Pair[] = [];

  push(pair: Pair): void {
    const { items } = this;
    let i = items.push(pair) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!before(pair, items[parent] as Pair)) break;
      items[i] = items[parent] as Pair;
      i = parent;
    }
    items[i] = pair;
  }

  pop(): Pair {
    const { items } = this;
    const top = items[0] as Pair;
    const last = items.pop() as Pair;
    if (items.length === 0) return top;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && before(items[child + 1] as Pair, items[child] as Pair)) child++;
      if (!before(items[child] as Pair, last)) break;
      items[i] = items[child] as Pair;
      i = child;
    }
    items[i] = last;
    return top;
  }
}

function before(a: Pair, b: Pair): boolean {
  return a.sum < b.sum || (a.sum === b.sum && a.left < b.left);
}
