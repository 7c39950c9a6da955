// The σ rules: those that share credit among segments by the differences of values, and those that look at tokens alone (METHOD §4). Nobody else has their names.

/** What of a trace its segments' credit follows from; K thought segments, and the answer's where there is one. */
interface SegmentSteps {
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

/** What shapes a rule's credit, by its flag. */
export type RuleFlag = 'residual' | 'mix' | 'cap' | 'tau' | 'gamma';

/** A rule: of segments, whose credit the values' differences decide, or of tokens, whatever the values. */
export interface Rule {
  /** what it does, in the words of a dataset card */
  readonly words: string;
  /** (K or K+1) σ of one token of each segment, or the status code that says why there is none */
  readonly ofSegments?: (
    steps: SegmentSteps,
    opts: { readonly residual: 'uniform' | 'answer'; readonly tau?: number },
  ) => Float64Array | string;
  /** (T) σ, or undefined where no token has any weight */
  readonly ofTokens?: (
    tokens: { readonly logprobs: Float32Array; readonly entropies: Float32Array; readonly T: number },
    opts: { readonly gamma?: number },
  ) => Float32Array | undefined;
  /** which of a token's numbers it reads */
  readonly reads?: 'entropies' | 'logprobs';
  /** the flags that have a meaning with it */
  readonly flags?: readonly RuleFlag[];
  /** the literal differences need no b */
  readonly needsNoBaseline?: true;
  /** it divides by ζ − v̂(s_0), which means nothing of logarithms and the like */
  readonly needsLevel?: true;
}

/** Below this |R*| a division by it blows up. */
const SMALL_RETURN = 0.05;
/** Below this sum of weights no segment helped: there is nothing to share out. */
const SMALL_GAIN = 1e-6;
/** λ of the `share` rule: the part of σ that is spread over all tokens alike, once the rest has been shared out. */
export const SHARE_MIX = 0.1;

/** γ of the `discounted` rule. */
export const DISCOUNT = 0.99;

const NO_RETURN = 'uniform:small-return';
const NO_GAIN = 'uniform:no-gain';

/** RUDDER's additive correction: σ of a token of segment k = (Δ_k/n_k + ρ/|o|) / R*, ρ = R* − ΣΔ, which may go to the answer instead. */
const rudder: Rule = {
  words: 'value differences over the return, what they leave unexplained spread evenly; signed',
  flags: ['residual'],
  ofSegments(steps, { residual }) {
    const { advantage, deltas } = steps;
    return normalised(steps, advantage - sum(deltas), advantage, residual);
  },
};

/** METHOD eq. (2) as it stands, answer step included: r_k / Σ r, with ζ − v(s_K) for the answer. No baseline comes in. */
const signed: Rule = {
  words: 'the value differences as they stand, the answer as the last step; signed',
  needsNoBaseline: true,
  needsLevel: true,
  ofSegments(steps) {
    const { reward, last, deltas } = steps;
    const outcome = reward - last;
    return normalised(steps, outcome, sum(deltas) + outcome, 'answer');
  },
};

/** g_k/Σg, g_k = max(0, sign(R*)·Δ_k): what is shared out beside the part that is even. */
const share: Rule = {
  words: 'the shares of the value differences that go the way of the reward; not negative',
  flags: ['mix', 'cap'],
  ofSegments({ deltas, advantage, ends }) {
    if (advantage === 0) return NO_RETURN;
    const gains = deltas.map((delta) => Math.max(0, Math.sign(advantage) * delta));
    return proportional(gains, ends);
  },
};

/** σ of a segment ∝ n_k · exp(sign(R*)·Δ_k / τ). */
const softmax: Rule = {
  words: 'a softmax of the value differences in the direction of the reward; not negative',
  flags: ['tau'],
  ofSegments({ deltas, advantage, ends }, { tau = 1 }) {
    if (advantage === 0) return NO_RETURN;
    const scores = deltas.map((delta) => (Math.sign(advantage) * delta) / tau);
    const largest = scores.reduce((a, b) => Math.max(a, b));
    const weights = scores.map((score, k) => segmentLength(ends, k) * Math.exp(score - largest));
    return proportional(weights, ends);
  },
};

/** (Δ_k + what is left, to the answer or by length) / total: sums to 1 where total = ΣΔ + left. */
function normalised(
  { deltas, ends, answered }: SegmentSteps,
  left: number,
  total: number,
  residual: 'uniform' | 'answer',
): Float64Array | string {
  if (Math.abs(total) < SMALL_RETURN) return NO_RETURN;
  const T = ends[ends.length - 1] as number;
  return deltas.map((delta, k) => {
    const n = segmentLength(ends, k);
    // a trace without an answer segment has no answer step to give it to
    const share = residual === 'uniform' || !answered ? left / T : k === ends.length - 1 ? left / n : 0;
    return (delta / n + share) / total;
  });
}

function proportional(weights: Float64Array, ends: Int32Array): Float64Array | string {
  const total = sum(weights);
  if (total < SMALL_GAIN) return NO_GAIN;
  return weights.map((weight, k) => weight / total / segmentLength(ends, k));
}

/** n_k */
export function segmentLength(ends: Int32Array, k: number): number {
  return (ends[k] as number) - (k === 0 ? 0 : (ends[k - 1] as number));
}

/** In float64, in their order. */
export function sum(x: Iterable<number>): number {
  let total = 0;
  for (const each of x) total += each;
  return total;
}

/** Of the tokens so large a part has all the credit of `top-entropy`. */
const TOP = 0.2;

/** σ_t ∝ −log π(o_t). */
const surprise: Rule = {
  words: 'the negative log-probabilities of the tokens, whatever the values',
  reads: 'logprobs',
  ofTokens: ({ logprobs }) => byWeight(logprobs.map((lp) => -lp)),
};

/** σ_t ∝ H_t. */
const entropy: Rule = {
  words: 'the entropies of the tokens, whatever the values',
  reads: 'entropies',
  ofTokens: ({ entropies }) => byWeight(entropies),
};

/** The fifth of the tokens with most entropy, each alike, and 0 elsewhere; of equal ones the first. At least one token. */
const topEntropy: Rule = {
  words: 'the fifth of the tokens with most entropy, whatever the values',
  reads: 'entropies',
  ofTokens({ entropies }) {
    const most = Math.ceil(TOP * entropies.length);
    const order = Array.from(entropies.keys()).sort(
      (a, b) => (entropies[b] as number) - (entropies[a] as number) || a - b,
    );
    const sigma = new Float32Array(entropies.length);
    for (const t of order.slice(0, most)) sigma[t] = 1 / most;
    return sigma;
  },
};

/** σ_t ∝ γ^(T−t), t from 1: the discounted return of a reward at the end, which later tokens have more of. */
const discounted: Rule = {
  words: 'the discounted return of a reward at the end, whatever the values',
  flags: ['gamma'],
  ofTokens: ({ T }, { gamma = DISCOUNT }) =>
    byWeight(Float64Array.from({ length: T }, (_, t) => gamma ** (T - 1 - t))),
};

/** Plain GRPO. */
const uniform: Rule = {
  words: '1/T: no redistribution',
  ofTokens: ({ T }) => new Float32Array(T).fill(1 / T),
};

const TABLE = {
  ...{ share, rudder, signed, softmax },
  ...{ surprise, entropy, 'top-entropy': topEntropy, discounted, uniform },
} as const satisfies Readonly<Record<string, Rule>>;
export type SigmaRule = keyof typeof TABLE;
/** The rules; the default first: METHOD §4 measures them against each other. */
export const RULES: Readonly<Record<SigmaRule, Rule>> = TABLE;
export const SIGMA_RULES = Object.keys(RULES) as readonly SigmaRule[];

/** Rounding makes a log-probability of a certain token, or its entropy, a little more or less than 0. */
function byWeight(weights: ArrayLike<number>): Float32Array | undefined {
  const own = Float64Array.from(weights, (weight) => Math.max(0, weight));
  const total = sum(own);
  return total > 0 ? Float32Array.from(own, (weight) => weight / total) : undefined;
}
