/** Turns value differences into σ over the tokens of a trace, by the formulas of METHOD 4. */

export type SigmaRule =
  | 'rudder'
  | 'share'
  | 'uniform'
  | 'signed'
  | 'softmax'
  | 'surprise'
  | 'entropy'
  | 'top-entropy'
  | 'discounted';

export interface SigmaInput {
  segmentEnds: readonly number[]; // (K or K+1) token index, exclusive; the last is |o|
  deltas: readonly number[]; // (K) Δ_k of the thought segments; one segment more is the answer's
  values: readonly number[]; // (K+1) v̂(s_0..K), as stored; log v̂ where `logarithmic`
  logarithmic?: boolean; // `joint`, `joint-log`
  logSteps?: boolean; // Δ are differences of the logarithms: `joint-log`
  /** Δ_k is what segment k counts for: rules read it scaled to Σ|Δ| = |R*|, a magnitude with the sign of R* */
  attribution?: { magnitude: boolean };
  entropies: ArrayLike<number>; // (|o|)
  logprobs?: ArrayLike<number>; // (|o|), read by `surprise`
  reward: number | null; // ζ
  baseline: number; // b
  isNoise?: readonly boolean[]; // (K) the values differ by less than they may be off: no credit
}

export interface SigmaOptions {
  residual?: 'uniform' | 'answer';
  within?: 'uniform' | 'entropy' | 'unsure';
  mix?: number; // λ of `share`
  cap?: number; // largest σ_t·T of `share`
  tau?: number; // of `softmax`
  gamma?: number; // of `discounted`
}

export interface SigmaResult {
  sigma: Float64Array; // (|o|)
  uniformBecause?: 'reward:unknown' | 'flat' | 'small-advantage' | 'no-difference' | 'no-weight' | 'noise';
}

const SMALL_ADVANTAGE = 0.05;
const NO_DIFFERENCE = 1e-6;
const FLAT = 0.001;

/** Values that do not move: steps below .001; of logarithms, all within one part in 2^23 (float32's digits). */
function isFlat({ values, deltas, logarithmic = false, logSteps = false }: SigmaInput): boolean {
  const largest = Math.max(...values);
  if (logarithmic && largest === Number.NEGATIVE_INFINITY) return true;
  const isStill = logarithmic
    ? values.slice(1).every((value, k) => Math.abs(value - (values[k] as number)) < FLAT)
    : deltas.every((delta) => Math.abs(delta) < FLAT);
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
  const { residual = 'uniform', mix = 0.1, tau = 1 } = options;
  const lengths = segmentEnds.map((end, k) => end - (segmentEnds[k - 1] ?? 0)); // n_k
  const total = segmentEnds.at(-1) ?? 0; // |o|
  const thoughts = input.deltas.length; // K
  const hasAnswer = segmentEnds.length > thoughts;
  const heard = input.deltas.map((delta, k) => (input.isNoise?.[k] ? 0 : delta));
  const deltas = lengths.map((_, k) => readDelta({ ...input, deltas: heard }, k) ?? 0); // Δ_{K+1} = 0
  const uniformShares = lengths.map((length) => length / total);
  const uniform = (uniformBecause?: SigmaResult['uniformBecause']): SigmaResult => ({
    sigma: new Float64Array(total).fill(1 / total),
    ...(uniformBecause && { uniformBecause }),
  });
  /** @param flat part that falls on all tokens alike, whatever the segment */
  const spread = (shares: number[], flat = 0): SigmaResult => {
    const sigma = spreadWithin(shares, segmentEnds, tokenShares(input, options.within ?? 'uniform'));
    return { sigma: sigma.map((s) => (1 - flat) * s + flat / total) };
  };
  /** σ_t ∝ w_t, whatever the values */
  const byToken = (weights: number[]): SigmaResult => {
    const sum = weights.reduce((a, b) => a + b, 0);
    if (!(sum > 0)) return uniform('no-weight');
    return { sigma: Float64Array.from(weights, (w) => w / sum) };
  };
  const byWeight = (weights: number[], mixed: number): SigmaResult => {
    const sum = weights.reduce((a, b) => a + b, 0);
    if (sum < NO_DIFFERENCE) return uniform('no-difference');
    return spread(
      weights.map((w) => w / sum),
      mixed,
    );
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
  // each token's weight is γ times the next one's, the last one's 1
  if (rule === 'discounted') return byToken(H.map((_, t) => (options.gamma ?? 0.99) ** (total - 1 - t)));
  if (reward === null) return uniform('reward:unknown');
  if (isFlat(input)) return uniform('flat');
  if (heard.every((delta) => delta === 0) && input.deltas.some((delta) => delta !== 0))
    return uniform('noise');
  const advantage = reward - baseline; // R*
  const sign = Math.sign(advantage);
  switch (rule) {
    case 'rudder': {
      const rho = advantage - deltas.reduce((a, b) => a + b, 0);
      return byStep(rho, advantage, residual === 'answer' && hasAnswer);
    }
    case 'signed': {
      // (2) in full: the answer's step ζ − v(s_K); the normaliser telescopes to ζ − v(s_0)
      const last = input.values[thoughts] as number;
      const steps = deltas.reduce((a, b) => a + b, 0);
      return byStep(reward - last, steps + reward - last, hasAnswer);
    }
    case 'share': {
      if (sign === 0) return uniform('small-advantage');
      const whole = byWeight(
        deltas.map((delta) => Math.max(0, sign * delta)),
        mix,
      );
      if (options.cap === undefined || whole.uniformBecause !== undefined) return whole;
      return { sigma: held(whole.sigma, options.cap / total) };
    }
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

/** min(most, σ_t + c), with the c for which that sums to 1 again, found by halving. */
function held(sigma: Float64Array, most: number): Float64Array {
  const filled = (c: number) => sigma.map((s) => Math.min(most, s + c));
  let [low, high] = [0, Math.min(1, most)];
  for (let round = 0; round < 100; round++) {
    const middle = (low + high) / 2;
    if (filled(middle).reduce((a, b) => a + b, 0) < 1) low = middle;
    else high = middle;
  }
  return filled(low);
}

/** What a token weighs in its segment, before the mean is made 1; below 0 is rounding. */
function tokenShares(
  { entropies, logprobs }: SigmaInput,
  within: 'uniform' | 'entropy' | 'unsure',
): number[] {
  if (within === 'uniform') return Array.from(entropies, () => 1);
  if (within === 'entropy') return Array.from(entropies, (h) => Math.max(h, 0));
  return Array.from(logprobs ?? [], (lp) => Math.max(-Math.expm1(lp), 0));
}

/** Σ log p of each thought segment, as a probability; 0 where what the policy did not write stands before the state. */
function segmentProbabilities(
  ends: readonly number[],
  logprobs: ArrayLike<number>,
  thoughts: number,
  shownBehind: readonly boolean[],
): number[] {
  return ends.slice(0, thoughts).map((end, k) => {
    if (shownBehind[k]) return 0;
    const own = Array.from(logprobs).slice(ends[k - 1] ?? 0, end);
    return Math.min(1, Math.exp(own.reduce((a, b) => a + b, 0)));
  });
}

const normal = (z: number) => Math.exp(-(z ** 2) / 2);
const logit = (p: number) => Math.log(p) - Math.log1p(-p);
const GRID = Array.from({ length: 101 }, (_, i) => (2 * i + 1) / 202);

/**
 * E[V_k | all estimates] of a walk on the grid, by the chances of every pair of neighbouring values (METHOD 3).
 * @param outcomes of each state: so many of so many completions were right
 */
export function smoothedWalk(
  values: readonly number[],
  pi: readonly number[],
  outcomes: readonly (readonly [right: number, count: number])[] = [],
): number[] {
  // beside completions an estimate counts less
  const sd = outcomes.length > 0 ? 2 : 1;
  const seen = values.map((v, k) => {
    const held = Math.min(Math.max(v, 1 / 202), 201 / 202);
    const [right, count] = outcomes[k] ?? [0, 0];
    return GRID.map((g) => normal((logit(held) - logit(g)) / sd) * g ** right * (1 - g) ** (count - right));
  });
  /** chance of each step from g to h, given g */
  const steps = pi.map((p) => {
    const step = 0.6 * (1 - p) + 0.01;
    return GRID.map((g) => {
      const row = GRID.map((h) => normal((h - g) / step));
      const sum = row.reduce((a, b) => a + b, 0);
      return row.map((x) => x / sum);
    });
  });
  const scaled = (p: number[]) => {
    const largest = Math.max(...p);
    return p.map((x) => x / largest);
  };
  const past = (k: number): number[] => {
    if (k === 0) return GRID.map(() => 1);
    const before = pasts[k - 1] as number[];
    return scaled(
      GRID.map((_, j) =>
        before.reduce(
          (sum, p, i) => sum + p * (seen[k - 1]?.[i] as number) * (steps[k - 1]?.[i]?.[j] as number),
          0,
        ),
      ),
    );
  };
  const pasts: number[][] = [];
  for (const k of values.keys()) pasts.push(past(k));
  let future = GRID.map(() => 1); // of what is seen behind the state
  const means: number[] = [];
  for (let k = values.length - 1; k >= 0; k--) {
    const p = GRID.map(
      (_, i) => (pasts[k]?.[i] as number) * (seen[k]?.[i] as number) * (future[i] as number),
    );
    const sum = p.reduce((a, b) => a + b, 0);
    means.unshift(p.reduce((mean, x, i) => mean + (x / sum) * (GRID[i] as number), 0));
    if (k > 0)
      future = scaled(
        (steps[k - 1] as number[][]).map((row) =>
          row.reduce((all, x, j) => all + x * (seen[k]?.[j] as number) * (future[j] as number), 0),
        ),
      );
  }
  return means;
}

/** Values and differences in a form of `--steps`. */
export function steppedValues(
  values: readonly number[],
  segmentEnds: readonly number[],
  logprobs: ArrayLike<number>,
  steps: 'free' | 'scaled' | 'smoothed',
  shownBehind: readonly boolean[] = [],
): { values: number[]; factors: number[]; unsure: number[] } {
  const pi = segmentProbabilities(segmentEnds, logprobs, values.length - 1, shownBehind);
  return {
    values: steps === 'smoothed' ? smoothedWalk(values, pi) : [...values],
    factors: pi.map((p) => (steps === 'scaled' ? 1 - p : 1)),
    unsure: pi.map((p) => (steps === 'free' ? 1 : 1 - p)),
  };
}

/** σ_t = share_k · w_t / Σ w of the segment (1/n_k where that is 0). */
function spreadWithin(
  shares: readonly number[],
  ends: readonly number[],
  weights: readonly number[],
): Float64Array {
  const sigma = new Float64Array(ends.at(-1) ?? 0);
  for (const [k, end] of ends.entries()) {
    const begin = ends[k - 1] ?? 0;
    const sum = weights.slice(begin, end).reduce((a, b) => a + b, 0);
    for (let t = begin; t < end; t++)
      sigma[t] = (shares[k] as number) * (sum > 0 ? (weights[t] as number) / sum : 1 / (end - begin));
  }
  return sigma;
}
