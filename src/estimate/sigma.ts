// Redistributes a trace's reward over its tokens: from state values to σ, which sums to 1 (METHOD §4).
import { type Estimator, natureOf } from './estimators.js';

/** The default first: METHOD §4 measures the rules against each other. */
export const SIGMA_RULES = ['share', 'rudder', 'uniform'] as const;
export type SigmaRule = (typeof SIGMA_RULES)[number];

export const RESIDUALS = ['uniform', 'answer'] as const;
export const WITHINS = ['uniform', 'entropy'] as const;

export interface SigmaOptions {
  readonly rule: SigmaRule;
  /** of `rudder`: where ρ, what the differences leave unexplained, goes: over all tokens, or to the answer (the literal MDP) */
  readonly residual: (typeof RESIDUALS)[number];
  /** weights of a segment's tokens: equal, or by H_t with mean 1 in the segment */
  readonly within: (typeof WITHINS)[number];
}

/** What σ is computed from, all of it as stored in the output, so that σ can be computed again from a file. */
export interface SigmaInput {
  /** (K or K+1) segment ends, exclusive; the last segment is the answer where `answered` */
  readonly ends: Int32Array;
  readonly answered: boolean;
  /** (K+1) v̂(s_0..K); log v̂ for `joint` and `joint-log` */
  readonly values: Float32Array;
  readonly estimator: Estimator;
  /** (T) nats; read where `within` is `entropy` */
  readonly entropies: Float32Array;
  /** ζ; null where unknown */
  readonly reward: number | null;
  /** b; undefined where the trace has none */
  readonly baseline: number | undefined;
}

export interface Redistribution {
  /** (T) token-wise coefficient, Σ_t σ_t = 1 */
  readonly sigma: Float32Array;
  /** (K or K+1) Δ_k; 0 for the answer segment; scaled to Σ|Δ| = |R*| for `joint` */
  readonly deltas: Float32Array;
  /** why σ is uniform although the rule is not: a status code */
  readonly fallback?: string;
}

/** Values whose largest |Δ| is below this do not move: what they do is no credit. */
const FLAT = 1e-3;
/** The same of log v̂ (`joint`): so far apart, relative to their size, are neighbours in float32. */
const FLOAT32_STEP = 2 ** -23;
/** Below this |R*| the `rudder` rule's division blows up. */
const SMALL_RETURN = 0.05;
/** Below this Σg no segment helped: `share` has nothing to share out. */
const SMALL_GAIN = 1e-6;
/** λ of the `share` rule: the part of σ that is spread evenly. */
const SHARE_UNIFORM = 0.1;

/** σ of one trace (METHOD §4). All arithmetic in float64, rounded once at the end. */
export function redistribute(input: SigmaInput, opts: SigmaOptions): Redistribution {
  const { ends, reward, baseline } = input;
  const T = ends[ends.length - 1] as number;
  const uniform = new Float32Array(T).fill(1 / T);
  const raw = valueDifferences(input);
  const unscaled = Float32Array.from(raw);

  if (opts.rule === 'uniform') return { sigma: uniform, deltas: unscaled };
  if (reward === null) return { sigma: uniform, deltas: unscaled, fallback: 'reward:unknown' };
  if (baseline === undefined) return { sigma: uniform, deltas: unscaled, fallback: 'uniform:no-baseline' };
  if (areFlat(input, raw)) return { sigma: uniform, deltas: unscaled, fallback: 'uniform:flat-values' };
  const ret = reward - baseline; // R* = ζ − b
  const deltas = input.estimator === 'joint' ? scaleTo(raw, Math.abs(ret)) : raw;
  const perSegment =
    opts.rule === 'rudder' ? rudder(deltas, ret, input, opts.residual) : share(deltas, ret, ends);
  if (typeof perSegment === 'string')
    return { sigma: uniform, deltas: Float32Array.from(deltas), fallback: perSegment };
  return {
    sigma: spread(perSegment, input, opts.within),
    deltas: Float32Array.from(deltas),
  };
}

/**
 * Δ_k = v̂(s_k) − v̂(s_{k−1}) for thought segments, 0 for the answer. `joint` takes them from exp(log v̂ − largest): the
 * trace's own scale, since the values themselves underflow. `joint-log` takes them from log v̂.
 */
function valueDifferences({ ends, values, estimator }: SigmaInput): Float64Array {
  const deltas = new Float64Array(ends.length);
  const largest = values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  if (largest === Number.NEGATIVE_INFINITY) return deltas;
  const value = (k: number) =>
    estimator === 'joint' ? Math.exp((values[k] as number) - largest) : (values[k] as number);
  for (let k = 1; k < values.length; k++) deltas[k - 1] = value(k) - value(k - 1);
  // no reference contributes after an exit: its logarithm has no difference
  for (const [k, delta] of deltas.entries()) if (!Number.isFinite(delta)) deltas[k] = 0;
  return deltas;
}

/** Whether the values do not move: `joint` alone has a scale of its own, and noise fills that of a logarithm. */
function areFlat({ values, estimator }: SigmaInput, deltas: Float64Array): boolean {
  const isStill = deltas.every((delta) => Math.abs(delta) < FLAT);
  if (!natureOf(estimator).isLog || (estimator === 'joint-log' && isStill)) return isStill;
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  if (low === Number.NEGATIVE_INFINITY) return high === low;
  return high - low <= FLOAT32_STEP * Math.abs(low);
}

/** c·Δ with c = |R*| / Σ|Δ|; zeros stay zeros. */
function scaleTo(deltas: Float64Array, total: number): Float64Array {
  const mass = deltas.reduce((sum, d) => sum + Math.abs(d), 0);
  return mass === 0 ? deltas : deltas.map((d) => (d * total) / mass);
}

/**
 * RUDDER's additive correction: σ of a token of segment k = (Δ_k/n_k + ρ/|o|) / R*, ρ = R* − ΣΔ.
 * @returns (K or K+1) σ of one token of each segment, or why there is none
 */
function rudder(
  deltas: Float64Array,
  ret: number,
  { ends, answered }: SigmaInput,
  residual: SigmaOptions['residual'],
): Float64Array | string {
  if (Math.abs(ret) < SMALL_RETURN) return 'uniform:small-return';
  const T = ends[ends.length - 1] as number;
  const rho = ret - deltas.reduce((sum, d) => sum + d, 0);
  return deltas.map((delta, k) => {
    const n = length(ends, k);
    // a trace without an answer segment has no answer step to give ρ to
    const share = residual === 'uniform' || !answered ? rho / T : k === ends.length - 1 ? rho / n : 0;
    return (delta / n + share) / ret;
  });
}

/**
 * g_k = max(0, sign(R*)·Δ_k); a segment's σ is (1−λ) g_k/Σg + λ n_k/|o|, spread over its tokens.
 * @returns as {@link rudder}
 */
function share(deltas: Float64Array, ret: number, ends: Int32Array): Float64Array | string {
  if (ret === 0) return 'uniform:small-return';
  const gains = deltas.map((delta) => Math.max(0, Math.sign(ret) * delta));
  const total = gains.reduce((sum, g) => sum + g, 0);
  if (total < SMALL_GAIN) return 'uniform:no-gain';
  const T = ends[ends.length - 1] as number;
  return gains.map((g, k) => ((1 - SHARE_UNIFORM) * g) / total / length(ends, k) + SHARE_UNIFORM / T);
}

/** σ_t = m_t · σ of the segment's tokens; m_t is 1, or H_t over the segment's mean H (1 where that is 0). */
function spread(
  perSegment: Float64Array,
  { ends, entropies }: SigmaInput,
  within: SigmaOptions['within'],
): Float32Array {
  const sigma = new Float32Array(ends[ends.length - 1] as number);
  let start = 0;
  for (let k = 0; k < ends.length; k++) {
    const end = ends[k] as number;
    let total = 0;
    for (let t = start; t < end; t++) total += entropies[t] as number;
    const mean = total / (end - start);
    for (let t = start; t < end; t++) {
      const m = within === 'uniform' || mean === 0 ? 1 : (entropies[t] as number) / mean;
      sigma[t] = m * (perSegment[k] as number);
    }
    start = end;
  }
  return sigma;
}

function length(ends: Int32Array, k: number): number {
  return (ends[k] as number) - (k === 0 ? 0 : (ends[k - 1] as number));
}

/** Effective number of tokens that carry the credit, 1/Σσ². */
export function sigmaEss(sigma: Float32Array): number {
  return 1 / sigma.reduce((sum, s) => sum + s * s, 0);
}

/** Largest token weight, max |σ_t·T|. */
export function sigmaMaxWeight(sigma: Float32Array): number {
  return sigma.reduce((most, s) => Math.max(most, Math.abs(s)), 0) * sigma.length;
}
