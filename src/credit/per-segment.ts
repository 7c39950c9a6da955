// The σ rules that share credit among segments by the differences of values (METHOD §4).
import type { PerSegment, Rule, Steps } from './rule.js';

/** Below this |R*| a division by it blows up. */
const SMALL_RETURN = 0.05;
/** Below this sum of weights no segment helped: there is nothing to share out. */
const SMALL_GAIN = 1e-6;
/** λ of the `share` rule: the part of σ that is spread over all tokens alike, once the rest has been shared out. */
export const SHARE_EVEN = 0.1;

const NO_RETURN = 'uniform:small-return';
const NO_GAIN = 'uniform:no-gain';

/** RUDDER's additive correction: σ of a token of segment k = (Δ_k/n_k + ρ/|o|) / R*, ρ = R* − ΣΔ, which may go to the answer instead. */
const rudder: Rule = {
  words: 'value differences over the return, what they leave unexplained spread evenly; signed',
  isSigned: true,
  flags: ['residual', 'smooth', 'penalty'],
  ofSegments(steps, { residual }) {
    const { advantage, deltas } = steps;
    return normalised(steps, advantage - sum(deltas), advantage, residual);
  },
};

/** METHOD eq. (2) as it stands, answer step included: r_k / Σ r, with ζ − v(s_K) for the answer. No baseline comes in. */
const signed: Rule = {
  words: 'the value differences as they stand, the answer as the last step; signed',
  isSigned: true,
  needsNoBaseline: true,
  needsLevel: true,
  flags: ['smooth', 'penalty'],
  ofSegments(steps) {
    const { reward, last, deltas } = steps;
    const outcome = reward - last;
    return normalised(steps, outcome, sum(deltas) + outcome, 'answer');
  },
};

/** g_k/Σg, g_k = max(0, sign(R*)·Δ_k): what is shared out beside the part that is even. A factor on one sign cancels. */
const share: Rule = {
  words: 'the shares of the value differences that go the way of the reward; not negative',
  flags: ['even', 'smooth'],
  ofSegments({ deltas, advantage, ends }) {
    if (advantage === 0) return NO_RETURN;
    const gains = deltas.map((delta) => Math.max(0, Math.sign(advantage) * delta));
    return proportional(gains, ends);
  },
};

/** σ of a segment ∝ |Δ_k|: how much happened there, whichever way. */
const abs: Rule = {
  words: 'the sizes of the value differences; not negative',
  needsNoBaseline: true,
  flags: ['smooth', 'penalty'],
  ofSegments: ({ deltas, ends }) => proportional(deltas.map(Math.abs), ends),
};

/** σ of a segment ∝ n_k · exp(sign(R*)·Δ_k / τ). */
const softmax: Rule = {
  words: 'a softmax of the value differences in the direction of the reward; not negative',
  flags: ['tau', 'smooth', 'penalty'],
  ofSegments({ deltas, advantage, ends }, { tau = 1 }) {
    if (advantage === 0) return NO_RETURN;
    const scores = deltas.map((delta) => (Math.sign(advantage) * delta) / tau);
    const largest = scores.reduce((a, b) => Math.max(a, b));
    const weights = scores.map((score, k) => segmentLength(ends, k) * Math.exp(score - largest));
    return proportional(weights, ends);
  },
};

export const SEGMENT_RULES = { share, rudder, signed, softmax, abs } as const;

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
