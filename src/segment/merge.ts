// Merges neighbouring pieces until few enough are left, or none are poor enough: always the two with the lowest total entropy (METHOD §2).

/**
 * Greedy merge by a heap over a linked list: O(P log P), equal to the naive loop on every input, ties leftmost.
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
  const sums = new Float64Array(P); // of the pair (i, next[i]); infinite where a border lies between them
  const sumOf = (i: number, j: number) =>
    borders?.has(ends[j - 1] as number)
      ? Number.POSITIVE_INFINITY
      : (weight[i] as number) + (weight[j] as number);
  for (let i = 0; i < P; i++) {
    next[i] = i + 1;
    previous[i] = i - 1;
    sums[i] = sumOf(i, i + 1); // the last one has no pair, and is in no heap
  }
  const pairs = new PairHeap(sums, P - 1);

  let count = P;
  for (; count > 1; count--) {
    const i = pairs.top();
    if ((count <= max && (sums[i] as number) > limit) || sums[i] === Number.POSITIVE_INFINITY) break;
    const j = next[i] as number;
    const after = next[j] as number;
    weight[i] = sums[i] as number;
    next[i] = after;
    // the pair of j becomes i's
    if (after === P) pairs.remove(i);
    else {
      previous[after] = i;
      pairs.remove(j);
      pairs.update(i, sumOf(i, after));
    }
    const before = previous[i] as number;
    if (before >= 0) pairs.update(before, sumOf(before, i));
  }

  const kept = new Int32Array(count);
  for (let i = 0, k = 0; i < P; i = next[i] as number, k++) kept[k] = ends[(next[i] as number) - 1] as number;
  return kept;
}

/** A binary heap of pairs, each called by its left piece: smallest sum first, leftmost on ties. */
class PairHeap {
  private readonly heap: Int32Array;
  /** where each pair stands in the heap */
  private readonly places: Int32Array;

  /** @param sums of pairs 0..size (exclusive); the heap keeps them up to date */
  constructor(
    private readonly sums: Float64Array,
    private size: number,
  ) {
    this.heap = new Int32Array(size);
    this.places = new Int32Array(size);
    for (let pair = 0; pair < size; pair++) this.put(pair, pair);
    for (let place = (size >> 1) - 1; place >= 0; place--) this.sink(place);
  }

  top(): number {
    return this.heap[0] as number;
  }

  update(pair: number, sum: number): void {
    this.sums[pair] = sum;
    this.settle(this.places[pair] as number);
  }

  remove(pair: number): void {
    const place = this.places[pair] as number;
    const last = this.heap[--this.size] as number;
    if (last === pair) return;
    this.put(place, last);
    this.settle(place);
  }

  private settle(place: number): void {
    this.sink(this.rise(place));
  }

  private rise(start: number): number {
    const { heap } = this;
    const pair = heap[start] as number;
    let place = start;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!this.isBefore(pair, heap[parent] as number)) break;
      this.put(place, heap[parent] as number);
      place = parent;
    }
    this.put(place, pair);
    return place;
  }

  private sink(start: number): void {
    const { heap, size } = this;
    const pair = heap[start] as number;
    let place = start;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= size) break;
      if (child + 1 < size && this.isBefore(heap[child + 1] as number, heap[child] as number)) child++;
      if (!this.isBefore(heap[child] as number, pair)) break;
      this.put(place, heap[child] as number);
      place = child;
    }
    this.put(place, pair);
  }

  private put(place: number, pair: number): void {
    this.heap[place] = pair;
    this.places[pair] = place;
  }

  private isBefore(a: number, b: number): boolean {
    const x = this.sums[a] as number;
    const y = this.sums[b] as number;
    return x < y || (x === y && a < b);
  }
}
