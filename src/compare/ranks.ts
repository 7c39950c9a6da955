// Ranks of numbers, ties sharing the mean of theirs.

/** 1 for the smallest; equal ones get the mean of the ranks they take. */
export function midranks(values: Float64Array): Float64Array {
  const n = values.length;
  const order = Int32Array.from({ length: n }, (_, i) => i).sort(
    (i, j) => (values[i] as number) - (values[j] as number),
  );
  const ranks = new Float64Array(n);
  for (let from = 0, to = 0; from < n; from = to) {
    const value = values[order[from] as number];
    for (to = from + 1; to < n && values[order[to] as number] === value; ) to++;
    for (let i = from; i < to; i++) ranks[order[i] as number] = (from + to + 1) / 2;
  }
  return ranks;
}

/** How many values each group of equal ones has. */
export function tieCounts(values: Float64Array): number[] {
  const sorted = values.slice().sort();
  const counts: number[] = [];
  for (let from = 0, to = 0; from < sorted.length; from = to) {
    for (to = from + 1; to < sorted.length && sorted[to] === sorted[from]; ) to++;
    counts.push(to - from);
  }
  return counts;
}
