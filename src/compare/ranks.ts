// Ranks of numbers, ties sharing the mean of theirs.

/** 1 for the smallest; equal ones get the mean of the ranks they take. */
export function midranks(values: Float64Array): Float64Array {
  const n = values.length;
  // numbers alone are sorted many times faster than places by their numbers, and a search finds the place again
  const sorted = values.slice().sort();
  const means = new Float64Array(n); // where a value begins, its rank
  for (let from = 0, to = 0; from < n; from = to) {
    const value = sorted[from];
    for (to = from + 1; to < n && sorted[to] === value; ) to++;
    means[from] = (from + to + 1) / 2;
  }
  return values.map((value) => means[placeOf(sorted, value)] as number);
}

/** Where a value of a sorted list begins. */
function placeOf(sorted: Float64Array, value: number): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((sorted[middle] as number) < value) from = middle + 1;
    else to = middle;
  }
  return from;
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
