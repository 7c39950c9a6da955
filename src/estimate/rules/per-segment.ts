// The σ rules that share credit among segments: differences of values in, σ of one token of each segment out (METHOD §4).

/** What of a trace its segments' credit follows from; K thought segments, and the answer's where there is one. */
export interface Steps {
  /** (K or K+1) segment ends, exclusive */
  readonly ends: Int32Array;
  /** whether the last segment is the answer */
  readonly answered: boolean;
  /** (K or K+1) Δ_k; 0 for the answer */
  readonly deltas: Float64Array;
  /** v(s_K) */
  readonly last: number;
  /** ζ */
  readonly reward: number;
  /** R* = ζ − b; NaN where the trace has no baseline */
  readonly advantage: number;
}

/** (K or K+1) σ of one token of each segment, or the status code that says why there is none. */
export type PerSegment = Float64Array | string;

/** Below this |R*| a division by it blows up. */
const SMALL_RETURN = 0.05;
/** Below this sum of weights no segment helped: there is nothing to share out. */
const SMALL_GAIN = 1e-6;
/** λ of the `share` rule: the part of σ that is spread evenly. */
const SHARE_UNIFORM = 0.1;

const NO_RETURN = 'uniform:small-return';
const NO_GAIN = 'uniform:no-gain';

/**
 * RUDDER's additive correction: σ of a token of segment k = (Δ_k/n_k + ρ/|o|) / R*, ρ = R* − ΣΔ.
 * @param residual where ρ goes: over all tokens, or to the answer (the literal MDP)
 */
export function rudder(steps: Steps, residual: 'uniform' | 'answer'): PerSegment {
  const { advantage, deltas } = steps;
  const rho = advantage - sum(deltas);
  return normalised(steps, rho, advantage, residual);
}

/** METHOD eq. (2) as it stands, answer step included: r_k / Σ r, with ζ − v(s_K) for the answer. No baseline comes in. */
export function signed(steps: Steps): PerSegment {
  const { reward, last, deltas } = steps;
  const outcome = reward - last;
  return normalised(steps, outcome, sum(deltas) + outcome, 'answer');
}

/** (Δ_k + what is left, to the answer or by length) / total: sums to 1 where total = ΣΔ + left. */
function normalised(
  { deltas, ends, answered }: Steps,
  left: number,
  total: number,
  residual: 'uniform' | 'answer',
): PerSegment {
  if (Math.abs(total) < SMALL_RETURN) return NO_RETURN;
  const T = ends[ends.length - 1] as number;
  return deltas.map((delta, k) => {
    const n = segmentLength(ends, k);
    // a trace without an answer segment has no answer step to give it to
    const share = residual === 'uniform' || !answered ? left / T : k === ends.length - 1 ? left / n : 0;
    return (delta / n + share) / total;
  });
}

/** g_k = max(0, sign(R*)·Δ_k); a segment's σ is (1−λ) g_k/Σg + λ n_k/|o|, spread over its tokens. */
export function share({ deltas, advantage, ends }: Steps): PerSegment {
  if (advantage === 0) return NO_RETURN;
  const gains = deltas.map((delta) => Math.max(0, Math.sign(advantage) * delta));
  const T = ends[ends.length - 1] as number;
  const part = proportional(gains, ends);
  return typeof part === 'string' ? part : part.map((s) => (1 - SHARE_UNIFORM) * s + SHARE_UNIFORM / T);
}

/** σ of a segment ∝ |Δ_k|: how much happened there, whichever way. */
export function abs({ deltas, ends }: Steps): PerSegment {
  return proportional(deltas.map(Math.abs), ends);
}

/** σ of a segment ∝ n_k · exp(sign(R*)·Δ_k / τ). */
export function softmax({ deltas, advantage, ends }: Steps, tau: number): PerSegment {
  if (advantage === 0) return NO_RETURN;
  const scores = deltas.map((delta) => (Math.sign(advantage) * delta) / tau);
  const largest = scores.reduce((a, b) => Math.max(a, b));
  const weights = scores.map((score, k) => segmentLength(ends, k) * Math.exp(score - largest));
  return proportional(weights, ends);
}

function proportional(weights: Float64Array, ends: Int32Array): PerSegment {
  const total = sum(weights);
  if (total < SMALL_GAIN) return NO_GAIN;
  return weights.map((weight, k) => weight / total / segmentLength(ends, k));
}

/** n_k */
export function segmentLength(ends: Int32Array, k: number): number {
  return (ends[k] as number) - (k === 0 ? 0 : (ends[k - 1] as number));
}

function sum(x: Float64Array): number {
  return x.reduce((total, value) => total + value, 0);
}
