/** Correlations inside traces from their definitions: every trace less its own mean. */

export type Pair = readonly (readonly [x: number, y: number])[];

const mean = (list: readonly number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;

/** Pearson of values from which each trace's mean is taken. */
export function centeredPearson(traces: readonly Pair[]): number {
  const centered = traces.flatMap((trace) => {
    const [mx, my] = [mean(trace.map(([x]) => x)), mean(trace.map(([, y]) => y))];
    return trace.map(([x, y]) => [x - mx, y - my] as const);
  });
  const sum = (term: (x: number, y: number) => number) =>
    centered.reduce((all, [x, y]) => all + term(x, y), 0);
  return sum((x, y) => x * y) / Math.sqrt(sum((x) => x * x) * sum((_, y) => y * y));
}

/** 1 + how many are smaller + half of how many others are equal. */
const rankAmong = (list: readonly number[], value: number) =>
  1 + list.filter((other) => other < value).length + (list.filter((other) => other === value).length - 1) / 2;

/** The same of ranks inside the trace over its length. */
export function centeredSpearman(traces: readonly Pair[]): number {
  return centeredPearson(
    traces.map((trace) => {
      const [xs, ys] = [trace.map(([x]) => x), trace.map(([, y]) => y)];
      return trace.map(
        ([x, y]) => [rankAmong(xs, x) / trace.length, rankAmong(ys, y) / trace.length] as const,
      );
    }),
  );
}
