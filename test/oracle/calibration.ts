// METHOD §3, "the calibrated value", in float64, written from the formulas: φ by sorting, the fit by another optimiser.
import { createHash } from 'node:crypto';

export interface OracleTrace {
  readonly key: string;
  readonly reward: number;
  /** (K+1) */
  readonly values: readonly number[];
  /** (K+1) */
  readonly geo: readonly number[];
  /** (K) */
  readonly ends: readonly number[];
  readonly logprobs: readonly number[];
}

/**
 * φ(s_k) = (logit v̂, v̂, tokens, lowest log p, Σ log p, number below −2.3, sum of the two lowest, logit g, g), of what is before s_k;
 * g is v̂ of one token of the reference.
 */
export function oracleFeatures({
  values,
  geo,
  ends,
  logprobs,
}: Omit<OracleTrace, 'key' | 'reward'>): number[][] {
  return values.map((value, k) => {
    const before = logprobs.slice(0, k === 0 ? 0 : ends[k - 1]);
    const sorted = [...before].sort((a, b) => a - b);
    const logit = (p: number) => {
      const held = Math.max(1e-4, Math.min(1 - 1e-4, p));
      return Math.log(held) - Math.log(1 - held);
    };
    const perToken = geo[k] as number;
    return [
      logit(value),
      value,
      before.length,
      sorted[0] ?? 0,
      before.reduce((a, b) => a + b, 0),
      before.filter((lp) => lp < -2.3).length,
      (sorted[0] ?? 0) + (sorted[1] ?? 0),
      logit(perToken),
      perToken,
    ];
  });
}

/** The fold of a group: the first 32 bits of its SHA-256, modulo 5. */
export function oracleFold(key: string): number {
  return Number.parseInt(createHash('sha256').update(key).digest('hex').slice(0, 8), 16) % 5;
}

export interface OracleFit {
  readonly mean: number[];
  readonly sd: number[];
  readonly whole: number[];
  readonly folds: number[][];
  /** cross-fitted, nats a trace */
  readonly loss: number;
}

/** Mean and spread over all states (each of weight 1/(K+1)), then one regression for all and one without each fold. */
export function oracleFit(traces: readonly OracleTrace[], l2 = 1): OracleFit {
  const samples = traces.flatMap((trace) => {
    const fold = oracleFold(trace.key);
    return oracleFeatures(trace).map((x) => ({ x, y: trace.reward, w: 1 / trace.values.length, fold }));
  });
  const weight = samples.reduce((sum, { w }) => sum + w, 0);
  const F = samples[0]?.x.length ?? 0;
  const average = (of: (x: number[]) => number) =>
    samples.reduce((sum, { x, w }) => sum + w * of(x), 0) / weight;
  const mean = Array.from({ length: F }, (_, f) => average((x) => x[f] as number));
  const sd = mean.map((m, f) => Math.sqrt(average((x) => ((x[f] as number) - m) ** 2)) || 1);
  const standard = samples.map(({ x, ...rest }) => ({
    ...rest,
    z: [1, ...x.map((value, f) => (value - (mean[f] as number)) / (sd[f] as number))],
  }));
  const folds = [0, 1, 2, 3, 4].map((left) =>
    descend(
      standard.filter(({ fold }) => fold !== left),
      l2,
    ),
  );
  const losses = standard.map(({ z, y, w, fold }) => {
    const p = 1 / (1 + Math.exp(-dot(folds[fold] as number[], z)));
    return -w * (y * Math.log(p) + (1 - y) * Math.log(1 - p));
  });
  return {
    mean,
    sd,
    whole: descend(standard, l2),
    folds,
    loss: losses.reduce((a, b) => a + b, 0) / traces.length,
  };
}

type Standard = readonly { readonly z: number[]; readonly y: number; readonly w: number }[];

/** Minimises Σ w·cross-entropy + l2/2 Σ_{f>0} b_f² by plain gradient descent: steps of one over a bound of the curvature. */
export function descend(samples: Standard, l2: number): number[] {
  const curvature = l2 + samples.reduce((sum, { z, w }) => sum + (w * dot(z, z)) / 4, 0);
  const b: number[] = new Array(samples[0]?.z.length ?? 0).fill(0);
  for (let n = 0; n < 100_000; n++) {
    const gradient = b.map((value, f) => (f === 0 ? 0 : l2 * value));
    for (const { z, y, w } of samples) {
      const error = w * (1 / (1 + Math.exp(-dot(b, z))) - y);
      for (const [f, x] of z.entries()) gradient[f] = (gradient[f] as number) + error * x;
    }
    if (Math.max(...gradient.map(Math.abs)) < 1e-9) break;
    for (const [f, slope] of gradient.entries()) b[f] = (b[f] as number) - slope / curvature;
  }
  return b;
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, x, n) => sum + x * (b[n] as number), 0);
}
