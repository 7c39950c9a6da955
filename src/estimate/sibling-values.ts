// Values of a trace's states from how its mates went on from corresponding ones (METHOD §3, `siblings`), and what of a stored row they cannot be.

import { FLOAT32_LIST, type OutputColumn, requestedColumn } from '../io/arrow/output-columns.js';
import { type MateOptions, placesOf, type Sibling, tailFrom, type WithMates } from './mates.js';
import { sum, type TraceResult, type TraceValues } from './value.js';

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
/**
 * A completion that its group has several times counts as often, since it was drawn as often; but not one of a smaller probability
 * than this, which nobody draws twice: there it is one trace under several ids.
 */
const DRAWN_TWICE = 1e-4;
/** Where all mates together weigh less than this from s_1 on, none of them has anything to say. */
const FITS = 0.1;

/** The options as a configuration has them, and what is not to be chosen. */
export function siblingConfig({ mates, mateTokens }: MateOptions) {
  const constants = {
    mateWeights: [...CLIP],
    matePrior: PRIOR,
    matePriorShare: PRIOR_SHARE,
    mateBegunAlike: BEGUN_ALIKE,
    mateDrawnTwice: DRAWN_TWICE,
  };
  return { mates, mateTokens, ...constants };
}

/** A trace whose values are asked for. */
interface Mated extends Partial<WithMates> {
  readonly pieces: Sibling['pieces'];
  /** of the trace itself, null where unknown */
  readonly reward: { readonly reward: number | null };
}

/**
 * V(s_k) = (1 − λ)·(n R + Σ_j n_j w_j r_j + c·V_c(s_k)) / (n + Σ_j n_j w_j + c) + λ·V_c(s_k), with log w_j the log-ratio of the first L tokens of mate j's tail
 * at s_k and at its own corresponding state, held between −30 and 3 nats, and n how often a completion was drawn. An unknown R is left out. Of those that are no
 * mates but began as the trace did, each counts as a half of one up to the state at which they part.
 * @param prior V_c: the calibrated values (K+1)
 * @param needed (mates) of (T) log-probabilities of each mate's own tokens, nats; undefined where the policy could not read it
 * @param hasPrior whether there is a V_c: without the reference that it is made of there is none
 */
export function siblingValues(
  prior: TraceValues,
  {
    segmentation,
    logprobs: ownLogprobs,
    tails = [],
  }: Pick<TraceResult, 'segmentation' | 'logprobs' | 'tails'>,
  { pieces, reward: { reward: own }, mates = [], begunAlike = [], draws = 1 }: Mated,
  needed: readonly (Float32Array | undefined)[],
  { mateTokens }: MateOptions,
  hasPrior: boolean = prior.referenceTokens.length > 0,
): Required<TraceValues> {
  const places = placesOf(pieces);
  const [ownTimes, ...times] = drawnTimes([
    { draws, logprobs: ownLogprobs },
    ...mates.map((mate, n) => ({ draws: mate.draws, logprobs: needed[n] })),
  ]) as [number, ...number[]];
  const drawn = own === null ? 0 : ownTimes;
  const [c, lambda] = hasPrior ? [PRIOR, PRIOR_SHARE] : [0, 0];
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
      const counted = (times[n] as number) * weight;
      sums.weights += counted;
      sums.squares += counted * weight;
      sums.rewards += counted * reward;
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
    const total = drawn + weights + c;
    if (!fits || total === 0) return value;
    return ((1 - lambda) * (drawn * (own ?? 0) + rewards + c * value)) / total + lambda * value;
  });
  const effective = states.map(({ weights, squares }) => {
    if (!fits) return 0;
    return drawn + squares === 0 ? 0 : (drawn + weights) ** 2 / (drawn + squares);
  });
  return {
    ...prior,
    values: Float32Array.from(values),
    start: prior.values[0] as number,
    columns: { value_prior: prior.values, value_ess: Float32Array.from(effective) },
    status: [...(prior.status ?? []), ...(fits ? [] : [mates.length === 0 ? NO_MATE : NO_FIT])],
  };
}

/** Columns that a run with mates writes beside ours: V_c at every exit, and how many outcomes stand behind each value. */
export const SIBLING_COLUMNS: readonly OutputColumn[] = [
  requestedColumn(
    'value_prior',
    FLOAT32_LIST,
    'the calibrated value at each exit point, before mates were heard',
  ),
  requestedColumn(
    'value_ess',
    FLOAT32_LIST,
    'effective number of outcomes behind the value at each exit point',
  ),
];

/**
 * As how many draws the trace's own completion counts, and those of its mates. Of those that nobody draws twice the least number of
 * rows says how often the input has each of its traces.
 */
function drawnTimes(
  all: readonly { readonly draws: number; readonly logprobs: Float32Array | undefined }[],
): readonly number[] {
  const isRare = all.map(({ logprobs }) => logprobs !== undefined && sum(logprobs) < Math.log(DRAWN_TWICE));
  const copies = Math.min(...all.map(({ draws }, n) => (isRare[n] ? draws : Number.POSITIVE_INFINITY)));
  return all.map(({ draws }, n) =>
    isRare[n] ? 1 : copies === Number.POSITIVE_INFINITY ? draws : Math.max(1, draws / copies),
  );
}

/** No group, or no mate of known reward that goes on from the same prompt by another completion: the values are the calibrated ones. */
export const NO_MATE = 'siblings:no-mate';
/** The same where no mate's tail is likely at any state of the trace. */
export const NO_FIT = 'siblings:no-fit';
