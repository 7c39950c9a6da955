// Redistributes a trace's reward over its tokens: from state values to σ, which sums to 1 (METHOD §4).
import { boundedSteps, type WrittenSegments } from './martingale.js';
import type { Nature } from './nature.js';
import { RULES, SHARE_MIX, type SigmaRule, sum } from './rules.js';

export const RESIDUALS = ['uniform', 'answer'] as const;
export const WITHINS = ['uniform', 'entropy', 'unsure'] as const;
export const STEPS = ['free', 'scaled', 'smoothed'] as const;

export interface SigmaOptions {
  readonly rule: SigmaRule;
  /** of `rudder`: where ρ, what the differences leave unexplained, goes: over all tokens, or to the answer (the literal MDP) */
  readonly residual: (typeof RESIDUALS)[number];
  /** weights of a segment's tokens: equal, or by H_t or 1 − p_t with mean 1 in the segment */
  readonly within: (typeof WITHINS)[number];
  /** τ of `softmax`; 1 where absent */
  readonly tau?: number;
  /** γ of `discounted` */
  readonly gamma?: number;
  /** λ of `share`: the part of σ that falls on all tokens alike; .1 where absent */
  readonly mix?: number;
  /** most of a weight σ_t·T of `share`, 1 or more, what is above it falls on the tokens below; none where absent */
  readonly cap?: number;
  /** how far values may step: as they are, by Δ_k (1 − π_k), or smoothed by 1 − π_k; `free` where absent */
  readonly steps?: (typeof STEPS)[number];
}

/** What σ is computed from, all of it as stored in the output, so that σ can be computed again from a file. */
export interface SigmaInput extends WrittenSegments {
  /** (K+1) values of the states 0..K; logarithms where the estimator's are */
  readonly values: Float32Array;
  /** (K or K+1) by how much a change of the values may be off: a smaller one is no credit; absent where none is off */
  readonly noise?: Float32Array;
  /** (T) nats; read where `within` is `entropy`, and by rules and methods that say so */
  readonly entropies: Float32Array;
  /** ζ; null where unknown */
  readonly reward: number | null;
  /** b; undefined where the trace has none */
  readonly baseline: number | undefined;
  /** standard deviation of the group's rewards, where b is their mean */
  readonly groupStd?: number | undefined;
  /** whether the last of the segments is the answer */
  readonly answered: boolean;
  readonly estimator: Nature;
  /** status code that says why there is no baseline, where that is known */
  readonly noBaseline?: string | undefined;
  /** status code that says why the values mean nothing; undefined where they do */
  readonly fault?: string | undefined;
}

export interface Redistribution {
  /** (T) token-wise coefficient, Σ_t σ_t = 1 */
  readonly sigma: Float32Array;
  /** (K or K+1) Δ_k of the values, by `steps`; 0 for the answer segment; scaled to Σ|Δ| = |R*| for `joint`, a_k for attributions */
  readonly deltas: Float32Array;
  /** why σ is uniform although the rule is not: a status code */
  readonly fallback?: string;
}

/** Values whose largest |Δ| is below this do not move: what they do is no credit. */
const FLAT = 1e-3;
/** The same of log v̂ (`joint`): so far apart, relative to their size, are neighbours in float32. */
const FLOAT32_STEP = 2 ** -23;

/** σ of one trace (METHOD §4). All arithmetic in float64, rounded once at the end. */
export function redistribute(input: SigmaInput, opts: SigmaOptions): Redistribution {
  const { ends, reward, baseline } = input;
  const { values, raw, heard } = valueSteps(input, opts.steps);
  const T = ends[ends.length - 1] as number;
  const uniform = (fallback: string, deltas: Float64Array = raw): Redistribution => {
    return { sigma: new Float32Array(T).fill(1 / T), deltas: Float32Array.from(deltas), fallback };
  };

  const { ofTokens, ofSegments, needsNoBaseline, flags } = RULES[opts.rule];
  if (ofTokens !== undefined) {
    const sigma = ofTokens({ ...input, T }, opts);
    return sigma === undefined ? uniform('uniform:no-weight') : { sigma, deltas: Float32Array.from(raw) };
  }
  if (input.fault !== undefined) return uniform(input.fault);
  if (reward === null) return uniform('reward:unknown');
  if (baseline === undefined && !needsNoBaseline) return uniform(input.noBaseline ?? 'uniform:no-baseline');
  if (areFlat(values, input.estimator, raw)) return uniform('uniform:flat-values');
  const advantage = baseline === undefined ? Number.NaN : reward - baseline; // R* = ζ − b
  const isScaled = input.estimator.hasOwnScale && baseline !== undefined;
  const deltas = isScaled ? scaleTo(raw, Math.abs(advantage)) : raw;
  const kept = heard(deltas);
  if (deltas.some(Boolean) && !kept.some(Boolean)) return uniform('uniform:noise', deltas);
  const read = input.estimator.isAttribution ? attributed(kept, input.estimator, advantage) : kept;
  const steps = { ...input, reward, advantage, last: values.at(-1) as number, deltas: read };
  const perSegment = ofSegments?.(steps, opts);
  if (perSegment === undefined) throw new Error(`--sigma ${opts.rule} has no σ`);
  if (typeof perSegment === 'string') return uniform(perSegment, deltas);
  const mix = flags?.includes('mix') ? (opts.mix ?? SHARE_MIX) : 0;
  const cap = flags?.includes('cap') ? opts.cap : undefined;
  const sigma = spread(perSegment, ends, tokenWeights(input, opts.within), mix, cap);
  return { sigma, deltas: Float32Array.from(deltas) };
}

/**
 * Values and their differences, for bounded steps as far as the policy was not sure of the segments; and what is heard of
 * differences: 0 of one that is smaller than the answers' noise, as far as the policy was not sure, since nobody knows its sign.
 */
export function valueSteps(input: SigmaInput, steps: SigmaOptions['steps'] = 'free') {
  const own = Float64Array.from(input.values);
  const bounded = steps === 'free' ? undefined : boundedSteps(own, input, steps);
  const raw = new Float64Array(input.ends.length);
  raw.set(bounded?.deltas ?? valueDifferences(own, input));
  const changes = bounded?.deltas ?? own.subarray(1).map((value, k) => value - (own[k] as number));
  const least = changes.map((_, k) => (input.noise?.[k] ?? 0) * (bounded?.unsure[k] ?? 1));
  const isNoise = (k: number) => Math.abs(changes[k] as number) < (least[k] as number);
  const heard = (deltas: Float64Array) => deltas.map((delta, k) => (isNoise(k) ? 0 : delta));
  return { values: bounded?.values ?? own, raw, heard };
}

/**
 * Δ_k = v̂(s_k) − v̂(s_{k−1}) for thought segments, 0 for the answer. `joint` takes them from exp(log v̂ − largest): the
 * trace's own scale, since the values themselves underflow. `joint-log` takes them from log v̂.
 */
function valueDifferences(values: Float64Array, { ends, estimator }: SigmaInput): Float64Array {
  const largest = values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const scaled = estimator.hasOwnScale ? values.map((value) => Math.exp(value - largest)) : values;
  return Float64Array.from(ends, (_, k) => {
    const delta = (scaled[k + 1] as number) - (scaled[k] as number);
    // no reference contributes after an exit: its logarithm has no difference
    return Number.isFinite(delta) ? delta : 0;
  });
}

/** Whether the values do not move: `joint` alone has a scale of its own, and noise fills that of a logarithm. */
function areFlat(values: Float64Array, { isLog, hasOwnScale }: Nature, deltas: Float64Array): boolean {
  const isStill = deltas.every((delta) => Math.abs(delta) < FLAT);
  if (!isLog || (!hasOwnScale && isStill)) return isStill;
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  return low === Number.NEGATIVE_INFINITY ? high === low : high - low <= FLOAT32_STEP * Math.abs(low);
}

/** What rules read of an attribution: a_k scaled to Σ|Δ| = |R*|, magnitudes with the sign of R*: what mattered for the outcome is credited with it. */
function attributed(deltas: Float64Array, { isMagnitude }: Nature, advantage: number): Float64Array {
  const scaled = scaleTo(deltas, Math.abs(advantage));
  return isMagnitude ? scaled.map((delta) => Math.sign(advantage) * Math.abs(delta)) : scaled;
}

/** c·Δ with c = |R*| / Σ|Δ|; zeros stay zeros. */
function scaleTo(deltas: Float64Array, total: number): Float64Array {
  const mass = deltas.reduce((sum, d) => sum + Math.abs(d), 0);
  return mass === 0 ? deltas : deltas.map((d) => (d * total) / mass);
}

/**
 * m_t of each token, of mean 1 in its segment: 1; ∝ H_t (`entropy`); ∝ 1 − p_t (`unsure`). 1 where a segment has none of that.
 * @param ends (K) segment ends, exclusive
 * @param entropies (T) nats
 * @param logprobs (T) nats
 */
export function tokenWeights(
  { ends, entropies, logprobs }: Pick<SigmaInput, 'ends' | 'entropies' | 'logprobs'>,
  within: SigmaOptions['within'],
): Float64Array {
  if (within === 'uniform') return new Float64Array(ends[ends.length - 1] as number).fill(1);
  if (within === 'unsure') return ofMeanOne(Float64Array.from(logprobs, unsureness), ends);
  return ofMeanOne(
    Float64Array.from(entropies, (h) => Math.max(0, h)),
    ends,
  );
}

/** Weights of tokens over their mean in the segment, 1 where that is 0: they take its place. */
export function ofMeanOne(weights: Float64Array, ends: Int32Array): Float64Array {
  let start = 0;
  for (const end of ends) {
    const own = weights.subarray(start, end);
    const mean = sum(own) / own.length;
    own.set(own.map((weight) => (mean === 0 ? 1 : weight / mean)));
    start = end;
  }
  return weights;
}

/** 1 − p of a token. @param logprob nats; rounding makes it a little more than 0, and an entropy a little less */
export function unsureness(logprob: number): number {
  return Math.max(0, -Math.expm1(logprob));
}

/**
 * σ_t = (1−λ) m_t · σ of one token of its segment + λ/T.
 * @param perSegment (K) @param weights (T) of {@link tokenWeights} @param mix λ, spread over all tokens alike
 * @param cap largest σ_t·T: what is above it is spread over the tokens below it, until none is above
 */
export function spread(
  perSegment: Float64Array,
  ends: Int32Array,
  weights: Float64Array,
  mix = 0,
  cap = Number.POSITIVE_INFINITY,
): Float32Array {
  const T = weights.length;
  const sigma = new Float64Array(T);
  let t = 0;
  for (const [k, end] of ends.entries())
    for (; t < end; t++) sigma[t] = (1 - mix) * (weights[t] as number) * (perSegment[k] as number) + mix / T;
  return Float32Array.from(capped(sigma, cap / T));
}

/** A σ of the same sum, none of it above `most`, which is its mean or more: after each round more tokens stand at `most`. */
function capped(sigma: Float64Array, most: number): Float64Array {
  const rest = sum(sigma.map((s) => Math.max(0, s - most)));
  const below = sigma.filter((s) => s < most).length;
  if (rest === 0 || below === 0) return sigma;
  const next = sigma.map((s) => (s < most ? s + rest / below : most));
  return capped(next, most);
}

/**
 * `--method segment`: every token of a thought segment gets Δ_k, those of the answer ζ − V(s_K), the policy gradient with a
 * segment as one action. No σ: it does not sum to 1, and not to R* either.
 * @returns (T); null where the reward is not known
 */
export function segmentAdvantages(input: SigmaInput, opts: SigmaOptions): Float32Array | null {
  const { ends, answered, reward } = input;
  if (reward === null) return null;
  const { values, raw, heard } = valueSteps(input, opts.steps);
  const steps = heard(raw);
  if (answered) steps[ends.length - 1] = reward - (values[values.length - 1] as number);
  return spread(steps, ends, tokenWeights(input, 'uniform'));
}

/**
 * Figures of a trace's credit: the effective number of tokens that carry it, 1/Σσ²; the largest weight, max |σ_t·T|; and how much
 * larger the gradient gets where σ falls on tokens of which the policy was unsure, since a sure one has hardly any:
 * Σ_t σ_t T (1 − p_t) / Σ_t (1 − p_t), 1 for uniform σ, null where the policy was sure of all.
 */
export function sigmaFigures(sigma: Float32Array, logprobs: Float32Array) {
  const T = sigma.length;
  let [squares, most, weighted, plain] = [0, 0, 0, 0];
  for (const [t, s] of sigma.entries()) {
    const unsure = unsureness(logprobs[t] as number);
    squares += s * s;
    most = Math.max(most, Math.abs(s));
    weighted += s * unsure;
    plain += unsure;
  }
  return {
    sigmaEss: 1 / squares,
    sigmaMaxWeight: most * T,
    sigmaGain: plain > 0 ? (weighted * T) / plain : null,
  };
}
