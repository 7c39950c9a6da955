/** Turns value differences into σ over the tokens of a trace, by the formulas of METHOD 4. */

export type SigmaRule =
  | 'rudder'
  | 'share'
  | 'uniform'
  | 'signed'
  | 'abs'
  | 'softmax'
  | 'surprise'
  | 'entropy'
  | 'top-entropy';

export interface SigmaInput {
  segmentEnds: readonly number[]; // (K or K+1) token index, exclusive; the last is |o|
  deltas: readonly number[]; // (K) Δ_k of the thought segments; one segment more is the answer's
  values: readonly number[]; // (K+1) v̂(s_0..K), as stored; log v̂ where `logarithmic`
  logarithmic?: boolean; // `joint`, `joint-log`
  logSteps?: boolean; // Δ are differences of the logarithms: `joint-log`
  /** Δ_k is what segment k counts for: rules read it scaled to Σ|Δ| = |R*|, a magnitude with the sign of R* */
  attribution?: { magnitude: boolean; unitless: boolean };
  entropies: ArrayLike<number>; // (|o|)
  logprobs?: ArrayLike<number>; // (|o|), read by `surprise`
  reward: number | null; // ζ
  baseline: number; // b
}

export interface SigmaOptions {
  residual?: 'uniform' | 'answer';
  within?: 'uniform' | 'entropy';
  lambda?: number; // of `share`
  tau?: number; // of `softmax`
  penalty?: number; // on Δ < 0
  smooth?: number; // segments on either side
}

export interface SigmaResult {
  sigma: Float64Array; // (|o|)
  segmentShares: number[]; // (K or K+1) Σσ of each segment
  uniformBecause?: 'reward:unknown' | 'flat' | 'small-advantage' | 'no-difference' | 'no-weight';
}

const SMALL_ADVANTAGE = 0.05;
const NO_DIFFERENCE = 1e-6;
const FLAT = 0.001;

/** Values that do not move: steps below .001; of logarithms, all within one part in 2^23 (float32's digits). */
function isFlat({ values, logarithmic = false, logSteps = false, attribution }: SigmaInput): boolean {
  const flat = attribution?.unitless ? 1e-6 : FLAT;
  const largest = Math.max(...values);
  if (logarithmic && largest === Number.NEGATIVE_INFINITY) return true;
  const isStill = values.slice(1).every((value, k) => Math.abs(value - (values[k] as number)) < flat);
  if (!logarithmic || (logSteps && isStill)) return isStill;
  const smallest = Math.min(...values);
  return Number.isFinite(smallest) && (largest - smallest) * 2 ** 23 <= Math.abs(smallest);
}

/** Δ_k as rules read it. */
function readDelta({ deltas, attribution, reward, baseline }: SigmaInput, k: number): number | undefined {
  const delta = deltas[k];
  const advantage = (reward ?? 0) - baseline;
  const mass = deltas.reduce((sum, each) => sum + Math.abs(each), 0);
  if (delta === undefined || attribution === undefined || advantage === 0 || mass === 0) return delta;
  return attribution.magnitude ? (advantage * Math.abs(delta)) / mass : (Math.abs(advantage) * delta) / mass;
}

export function computeSigma(rule: SigmaRule, input: SigmaInput, options: SigmaOptions = {}): SigmaResult {
  const { segmentEnds, reward, baseline } = input;
  const { residual = 'uniform', lambda = 0.1, tau = 1, penalty = 1, smooth = 0 } = options;
  const lengths = segmentEnds.map((end, k) => end - (segmentEnds[k - 1] ?? 0)); // n_k
  const total = segmentEnds.at(-1) ?? 0; // |o|
  const thoughts = input.deltas.length; // K
  const hasAnswer = segmentEnds.length > thoughts;
  const unpunished = lengths.map((_, k) => readDelta(input, k) ?? 0); // Δ_{K+1} = 0
  const deltas = unpunished.map((delta) => delta * (delta < 0 ? penalty : 1));
  const uniformShares = lengths.map((length) => length / total);
  const uniform = (uniformBecause?: SigmaResult['uniformBecause']): SigmaResult => ({
    sigma: new Float64Array(total).fill(1 / total),
    segmentShares: uniformShares,
    ...(uniformBecause && { uniformBecause }),
  });
  const spread = (rough: number[]): SigmaResult => {
    const segmentShares = smoothedShares(rough, lengths, smooth);
    const within = options.within ?? 'uniform';
    return { sigma: spreadWithin(segmentShares, segmentEnds, input.entropies, within), segmentShares };
  };
  /** σ_t ∝ w_t, whatever the values */
  const byToken = (weights: number[]): SigmaResult => {
    const sum = weights.reduce((a, b) => a + b, 0);
    if (!(sum > 0)) return uniform('no-weight');
    const sigma = Float64Array.from(weights, (w) => w / sum);
    return {
      sigma,
      segmentShares: lengths.map((n, k) => {
        const end = segmentEnds[k] as number;
        return sigma.slice(end - n, end).reduce((a, b) => a + b, 0);
      }),
    };
  };
  const byWeight = (weights: number[], mixed: number): SigmaResult => {
    const sum = weights.reduce((a, b) => a + b, 0);
    if (sum < NO_DIFFERENCE) return uniform('no-difference');
    return spread(weights.map((w, k) => ((1 - mixed) * w) / sum + mixed * (uniformShares[k] as number)));
  };
  /** steps + leftover in the answer (or over all tokens), normalised: each sums to 1 */
  const byStep = (leftover: number, normaliser: number, toAnswer: boolean): SigmaResult => {
    if (Math.abs(normaliser) < SMALL_ADVANTAGE) return uniform('small-advantage');
    return spread(
      deltas.map((delta, k) => {
        if (!toAnswer) return (delta + leftover * (uniformShares[k] as number)) / normaliser;
        return (k === thoughts ? leftover : delta) / normaliser;
      }),
    );
  };

  if (rule === 'uniform') return uniform();
  const H = Array.from(input.entropies).slice(0, total);
  if (rule === 'entropy') return byToken(H.map((h) => Math.max(h, 0)));
  if (rule === 'surprise')
    return byToken(Array.from(input.logprobs ?? [], (lp) => Math.max(-lp, 0)).slice(0, total));
  if (rule === 'top-entropy') {
    // a token is among the top fifth where fewer than so many are above it, or equal and before it
    const above = (t: number) => H.filter((h, i) => h > (H[t] as number) || (h === H[t] && i < t)).length;
    return byToken(H.map((_, t) => (above(t) < Math.ceil(total / 5) ? 1 : 0)));
  }
  if (reward === null) return uniform('reward:unknown');
  if (isFlat(input)) return uniform('flat');
  const advantage = reward - baseline; // R*
  const sign = Math.sign(advantage);
  switch (rule) {
    case 'rudder': {
      const rho = advantage - deltas.reduce((a, b) => a + b, 0);
      return byStep(rho, advantage, residual === 'answer' && hasAnswer);
    }
    case 'signed': {
      // (2) in full: the answer's step ζ − v(s_K);
      // without a penalty the normaliser telescopes to ζ − v(s_0)
      const last = input.values[thoughts] as number;
      const steps = deltas.reduce((a, b) => a + b, 0);
      return byStep(reward - last, steps + reward - last, hasAnswer);
    }
    case 'share':
      if (sign === 0) return uniform('small-advantage');
      return byWeight(
        deltas.map((delta) => Math.max(0, sign * delta)),
        lambda,
      );
    case 'abs':
      return byWeight(deltas.map(Math.abs), 0);
    case 'softmax': {
      if (sign === 0) return uniform('small-advantage');
      const scores = deltas.map((delta) => (sign * delta) / tau);
      const largest = Math.max(...scores);
      return byWeight(
        scores.map((score, k) => (lengths[k] as number) * Math.exp(score - largest)),
        0,
      );
    }
  }
}

/** The values with the outcome mixed in: v_k = (1−λ) v̂_k + λ v_{k+1} from the last on, v_{K+1} = ζ. */
export function sweep(values: readonly number[], reward: number, lambda: number): number[] {
  if (values.length === 0) return [];
  const later = sweep(values.slice(1), reward, lambda);
  return [(1 - lambda) * (values[0] as number) + lambda * (later[0] ?? reward), ...later];
}

/**
 * Shares averaged over windows of `reach` segments on either side, as a matrix: of the share of segment j a part
 * n_k / max(N_j, N_k) goes to its neighbour k, N the tokens of a segment's window, and the rest stays.
 */
function smoothedShares(shares: readonly number[], lengths: readonly number[], reach: number): number[] {
  const near = (j: number, k: number) => Math.abs(j - k) <= reach;
  const windows = lengths.map((_, j) => lengths.reduce((sum, n, k) => sum + (near(j, k) ? n : 0), 0));
  const part = (k: number, j: number) =>
    near(j, k) && j !== k ? (lengths[k] as number) / Math.max(windows[j] as number, windows[k] as number) : 0;
  const kept = lengths.map((_, j) => 1 - lengths.reduce((sum, _, k) => sum + part(k, j), 0));
  return lengths.map((_, k) =>
    shares.reduce((sum, share, j) => sum + share * (j === k ? (kept[j] as number) : part(k, j)), 0),
  );
}

/** σ_t = share_k/n_k · m_t, with m_t = 1 or H_t over its mean in the segment (1 where the segment's ΣH = 0). */
function spreadWithin(
  shares: readonly number[],
  ends: readonly number[],
  entropies: ArrayLike<number>,
  within: 'uniform' | 'entropy',
): Float64Array {
  const sigma = new Float64Array(ends.at(-1) ?? 0);
  for (const [k, end] of ends.entries()) {
    const begin = ends[k - 1] ?? 0;
    const share = shares[k] as number;
    let sum = 0; // ΣH of the segment
    for (let t = begin; t < end; t++) sum += entropies[t] as number;
    for (let t = begin; t < end; t++) {
      sigma[t] =
        within === 'entropy' && sum > 0 ? (share * (entropies[t] as number)) / sum : share / (end - begin);
    }
  }
  return sigma;
}
