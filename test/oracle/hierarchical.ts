// Hierarchical credit from its formula, in float64.

export interface OracleTrace {
  ends: ArrayLike<number>; // K or K+1 segments
  values: ArrayLike<number>; // K+1 states
  entropies: ArrayLike<number>;
  reward: number;
  baseline: number;
  groupStd?: number | undefined; // where it has one
}

/** Standard deviation of a sample, as torch.std has it. */
export function oracleStd(rewards: readonly number[]): number {
  if (rewards.length < 2) return 0;
  const mean = rewards.reduce((a, b) => a + b, 0) / rewards.length;
  return Math.sqrt(rewards.reduce((sum, r) => sum + (r - mean) * (r - mean), 0) / (rewards.length - 1));
}

/** m_t of the tokens of one segment. */
export function oracleFactors(entropies: readonly number[], beta: number): number[] {
  const mean = (x: readonly number[]) => x.reduce((a, b) => a + b, 0) / x.length;
  const H = mean(entropies);
  if (H === 0) return entropies.map(() => 1);
  const clipped = entropies.map((h) => Math.min(2, Math.max(0, 1 + beta * (h / H - 1))));
  return clipped.map((m) => m / mean(clipped));
}

/** A_t of every token. */
export function oracleHierarchical(trace: OracleTrace, alpha: number, beta: number): number[] {
  const { values, reward, baseline, groupStd: std } = trace;
  const [ends, entropies] = [trace.ends, trace.entropies].map((list) => Array.from(list)) as [
    number[],
    number[],
  ];
  const outcome = std === undefined ? reward - baseline : (reward - baseline) / (std + 1e-4);
  return ends.flatMap((end, k) => {
    const before = values[k];
    const after = values[k + 1];
    const step = before === undefined || after === undefined ? 0 : after - before;
    const own = entropies.slice(k === 0 ? 0 : ends[k - 1], end);
    return oracleFactors(own, beta).map((m) => (outcome + alpha * step) * m);
  });
}
