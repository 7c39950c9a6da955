/** Turns value differences into σ over the tokens of a trace, by the formulas of METHOD 4. */

export type SigmaRule = 'rudder' | 'share' | 'uniform' | 'signed' | 'abs' | 'softmax';

export interface SigmaInput {
  segmentEnds: readonly number[]; // (K or K+1) token index, exclusive; the last is |o|
  deltas: readonly number[]; // (K) Δ_k of the thought segments; one segment more is the answer's
  values: readonly number[]; // (K+1) v̂(s_0..K), as stored; log v̂ where `logarithmic`
  logarithmic?: boolean; // `joint`, `joint-log`
  logSteps?: boolean; // Δ are differences of the logarithms: `joint-log`
  entropies: ArrayLike<number>; // (|o|)
  reward: number | null; // ζ
  baseline: number; // b
}

export interface SigmaOptions {
  residual?: 'uniform' | 'answer';
  within?: 'uniform' | 'entropy';
  lambda?: number; // of `share`
  tau?: number; // of `softmax`
}

export interface SigmaResult {
  sigma: Float64Array; // (|o|)
  segmentShares: number[]; // (K or K+1) Σσ of each segment
  uniformBecause?: 'reward:unknown' | 'flat' | 'small-advantage' | 'no-difference';
}

const SMALL_ADVANTAGE = 0.05;
const NO_DIFFERENCE = 1e-6;
const FLAT = 0.001;

/** Values that do not move: steps below .001; of logarithms, all within one part in 2^23 (float32's digits). */
function isFlat({ values, logarithmic = false, logSteps = false }: SigmaInput): boolean {
  const largest = Math.max(...values);
  if (logarithmic && largest === Number.NEGATIVE_INFINITY) return true;
  const isStill = values.slice(1).every((value, k) => Math.abs(value - (values[k] as number)) < FLAT);
  if (!logarithmic || (logSteps && isStill)) return isStill;
  const smallest = Math.min(...values);
  return Number.isFinite(smallest) && (largest - smallest) * 2 ** 23 <= Math.abs(smallest);
}

export function computeSigma(rule: SigmaRule, input: SigmaInput, options: SigmaOptions = {}): SigmaResult {
  const { segmentEnds, reward, baseline } = input;
  const { residual = 'uniform', lambda = 0.1, tau = 1 } = options;
  const lengths = segmentEnds.map((end, k) => end - (segmentEnds[k - 1] ?? 0)); // n_k
  const total = segmentEnds.at(-1) ?? 0; // |o|
  const thoughts = input.deltas.length; // K
  const hasAnswer = segmentEnds.length > thoughts;
  const deltas = lengths.map((_, k) => input.deltas[k] ?? 0); // Δ_{K+1} = 0
  const uniformShares = lengths.map((length) => length / total);
  const uniform = (uniformBecause?: SigmaResult['uniformBecause']): SigmaResult => ({
    sigma: new Float64Array(total).fill(1 / total),
    segmentShares: uniformShares,
    ...(uniformBecause && { uniformBecause }),
  });
  const spread = (segmentShares: number[]): SigmaResult => ({
    sigma: spreadWithin(segmentShares, segmentEnds, input.entropies, options.within ?? 'uniform'),
    segmentShares,
  });
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
      // (2) in full: the answer's step ζ − v(s_K); the normaliser telescopes to ζ − v(s_0)
      const first = input.values[0] as number;
      const last = input.values[thoughts] as number;
      return byStep(reward - last, reward - first, hasAnswer);
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
      const scores = deltas.map((delta) => (sign * delta) / tau);
      const largest = Math.max(...scores);
      return byWeight(
        scores.map((score, k) => (lengths[k] as number) * Math.exp(score - largest)),
        0,
      );
    }
  }
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
