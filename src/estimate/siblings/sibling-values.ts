// Values of a trace's states from how its mates went on from corresponding ones (METHOD §3, `siblings`).
import { FLOAT32_LIST, type OutputColumn } from '../../io/table/output-columns.js';
import { NO_FIT, NO_MATE } from '../mateless.js';
import type { TraceResult } from '../trace-result.js';
import type { TraceValues } from '../value.js';
import {
  type GivenMate,
  type MateOptions,
  placesOf,
  type SharedBeginning,
  type Sibling,
  tailFrom,
} from './mates.js';

/** A log-weight is held between these. */
const CLIP = [-30, 3] as const;
/** c: outcomes that the calibrated value counts for among them. */
const PRIOR = 0.5;
/**
 * λ: the part of the value that is the calibrated one however many outcomes there are. It sees what mates cannot, a trace that
 * corrects itself where none of them went wrong; .2 to .4 are alike, by what was measured.
 */
const PRIOR_SHARE = 0.25;
/**
 * Outcomes that a trace counts for which began word for word as this one did and is no mate of it. At the first state where it
 * no longer does it counts for nothing, and what that changes is credit of nobody: not a whole one, by what was measured.
 */
const BEGUN_ALIKE = 0.5;
/** Where all mates together weigh less than this from s_1 on, none of them has anything to say. */
const FITS = 0.1;

/** The options as a configuration has them, and what is not to be chosen. */
export function siblingConfig({ mates, mateTokens }: MateOptions) {
  const constants = {
    mateWeights: [...CLIP],
    matePrior: PRIOR,
    matePriorShare: PRIOR_SHARE,
    mateBegunAlike: BEGUN_ALIKE,
  };
  return { mates, mateTokens, ...constants };
}

/** The keys of these. */
export const SIBLING_KEYS: readonly string[] = [
  ...['mates', 'mateTokens', 'mateWeights', 'matePrior', 'matePriorShare', 'mateBegunAlike'],
];

/** A trace whose values are asked for. */
export interface Mated {
  readonly pieces: Sibling['pieces'];
  /** of the trace itself, null where unknown */
  readonly reward: { readonly reward: number | null };
  /** absent where it was given none */
  readonly mates?: readonly GivenMate[];
  readonly begunAlike?: readonly SharedBeginning[];
}

/** Values, and what is told of them. */
export interface SiblingValues extends TraceValues {
  /** V(s_0) without the trace's own outcome, which a baseline may not have in it */
  readonly start: number;
  /** the columns of {@link SIBLING_COLUMNS} */
  readonly columns: Readonly<Record<string, unknown>>;
  readonly status: readonly string[];
}

/**
 * V(s_k) = (1 − λ)·(R + Σ_j w_j r_j + c·V_c(s_k)) / (1 + Σ_j w_j + c) + λ·V_c(s_k), with log w_j the log-ratio of the first L tokens of mate j's tail
 * at s_k and at its own corresponding state, held between −30 and 3 nats. An unknown R is left out. Of those that are no mates but
 * began as the trace did, each counts as a half of one up to the state at which they part.
 * @param prior V_c: the calibrated values (K+1)
 * @param needed (mates) of (T) log-probabilities of each mate's own tokens, nats; undefined where the policy could not read it
 */
export function siblingValues(
  prior: TraceValues,
  { segmentation, tails = [] }: Pick<TraceResult, 'segmentation' | 'tails'>,
  { pieces, reward: { reward: own }, mates = [], begunAlike = [] }: Mated,
  needed: readonly (Float32Array | undefined)[],
  { mateTokens }: MateOptions,
): SiblingValues {
  const places = placesOf(pieces);
  const one = own === null ? 0 : 1;
  // without a reference there is no V_c
  const [c, lambda] = prior.referenceTokens.length === 0 ? [0, 0] : [PRIOR, PRIOR_SHARE];
  const states = Array.from(segmentation.exits, (exit, k) => {
    const place = places.get(exit) as number;
    const sums = { weights: 0, squares: 0, rewards: 0 };
    let next = 0;
    for (const [n, { mate, at, reward }] of mates.entries()) {
      const logprobs = needed[n];
      const from = at[place] as number;
      const { length } = tailFrom(mate, from, mateTokens);
      if (length === 0) continue;
      const here = sum(tails[k]?.[next++] as Float32Array);
      if (logprobs === undefined) continue;
      const ratio = here - sum(logprobs.subarray(from, from + length));
      const weight = Math.exp(Math.min(CLIP[1], Math.max(CLIP[0], ratio)));
      sums.weights += weight;
      sums.squares += weight ** 2;
      sums.rewards += weight * reward;
    }
    for (const { tokens, reward } of begunAlike) {
      if (tokens < exit) continue;
      sums.weights += BEGUN_ALIKE;
      sums.squares += BEGUN_ALIKE ** 2;
      sums.rewards += BEGUN_ALIKE * reward;
    }
    return sums;
  });
  const fits =
    mates.length > 0 && (states.length < 2 || states.slice(1).some(({ weights }) => weights >= FITS));
  const values = states.map(({ weights, rewards }, k) => {
    const value = prior.values[k] as number;
    const total = one + weights + c;
    if (!fits || total === 0) return value;
    return ((1 - lambda) * (one * (own ?? 0) + rewards + c * value)) / total + lambda * value;
  });
  const effective = states.map(({ weights, squares }) => {
    if (!fits) return 0;
    return one + squares === 0 ? 0 : (one + weights) ** 2 / (one + squares);
  });
  return {
    ...prior,
    values: Float32Array.from(values),
    start: prior.values[0] as number,
    columns: { value_prior: prior.values, value_ess: Float32Array.from(effective) },
    status: fits ? [] : [mates.length === 0 ? NO_MATE : NO_FIT],
  };
}

/** Columns that a run with mates writes beside ours: V_c at every exit, and how many outcomes stand behind each value. */
export const SIBLING_COLUMNS: readonly OutputColumn[] = ['value_prior', 'value_ess'].map((name) => ({
  name,
  type: FLOAT32_LIST,
  value: ({ requested }) => requested?.[name] ?? null,
}));

/** What a stored row holds in them. @param cell of the row; null where there is none */
export function storedSiblings(cell: (name: string) => unknown): SiblingValues['columns'] {
  return Object.fromEntries(
    SIBLING_COLUMNS.map(({ name }) => {
      const list = cell(name as string);
      return [name, Array.isArray(list) ? Float32Array.from(list as number[]) : null];
    }),
  );
}

function sum(x: Float32Array): number {
  return x.reduce((total, value) => total + value, 0);
}
