/** Correlations inside traces and what permuting does to them, from their definitions: loops over pairs and permutations. */

export type Pair = readonly (readonly [x: number, y: number])[];

const mean = (list: readonly number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;

/** Pearson of values from which each trace's mean is taken. */
export function centredPearson(traces: readonly Pair[]): number {
  const centred = traces.flatMap((trace) => {
    const [mx, my] = [mean(trace.map(([x]) => x)), mean(trace.map(([, y]) => y))];
    return trace.map(([x, y]) => [x - mx, y - my] as const);
  });
  const sum = (term: (x: number, y: number) => number) =>
    centred.reduce((all, [x, y]) => all + term(x, y), 0);
  return sum((x, y) => x * y) / Math.sqrt(sum((x) => x * x) * sum((_, y) => y * y));
}

/** 1 + how many are smaller + half of how many others are equal. */
export const rankAmong = (list: readonly number[], value: number) =>
  1 + list.filter((other) => other < value).length + (list.filter((other) => other === value).length - 1) / 2;

/** The same of ranks inside the trace over its length. */
export function centredSpearman(traces: readonly Pair[]): number {
  return centredPearson(
    traces.map((trace) => {
      const [xs, ys] = [trace.map(([x]) => x), trace.map(([, y]) => y)];
      return trace.map(
        ([x, y]) => [rankAmong(xs, x) / trace.length, rankAmong(ys, y) / trace.length] as const,
      );
    }),
  );
}

/** τ_b over the pairs of segments of one trace each. */
export function pairedKendall(traces: readonly Pair[]): number {
  let [agree, differX, differY] = [0, 0, 0];
  for (const trace of traces)
    for (const [i, [x, y]] of trace.entries())
      for (const [u, v] of trace.slice(0, i)) {
        agree += Math.sign(x - u) * Math.sign(y - v);
        differX += x === u ? 0 : 1;
        differY += y === v ? 0 : 1;
      }
  return agree / Math.sqrt(differX * differY);
}

/** All orders of a list. */
export function permutations<T>(list: readonly T[]): T[][] {
  if (list.length < 2) return [[...list]];
  return list.flatMap((first, i) =>
    permutations(list.filter((_, j) => j !== i)).map((rest) => [first, ...rest]),
  );
}
