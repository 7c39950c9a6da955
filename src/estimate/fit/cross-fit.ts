// Logistic regressions of a trace's reward on what is known of its states, cross-fitted by group (METHOD §3): weights of each fold of the groups and of the whole, by passes over traces, and how good they are on groups that they have not seen.
import { CORRECT } from '../../credit/nature.js';
import { sum } from '../../credit/rules.js';
import { clipped } from '../states.js';
import { FOLDS, type GroupPlace, KnownGroups } from './groups.js';
import { Lbfgs } from './lbfgs.js';
import {
  addSample,
  crossEntropy,
  dot,
  factorise,
  logitOf,
  Moments,
  sigmoid,
  solveSymmetric,
  standardised,
} from './logistic.js';

/** One trace of a fit; K+1 states of F features. */
export interface FitTrace {
  /** ((K+1)·F) φ(s_0..K) */
  readonly features: Float64Array;
  /** ζ in [0, 1] */
  readonly reward: number;
  readonly place: GroupPlace;
}

/** The traces of a fit, in the same order at every call: then they give the same bits. */
export type Pass = () => AsyncIterable<FitTrace>;

/** A trace as a search reads it. @see FitTrace */
export type Sample = Omit<FitTrace, 'features'> & { readonly z: Float64Array };

/** A regression: the folds that are left out of it, and the search for its weights. */
interface Model {
  readonly left: readonly number[];
  /** (F) λ of the penalty Σ λ/2 w², beside Σ over traces of their mean cross-entropy; the intercept is free */
  readonly l2: Float64Array;
  readonly search: Lbfgs;
}

/** λ, and weights (1+F) to begin with. */
export type Ridge = Pick<Model, 'l2'> & { readonly start?: Float64Array };

interface FitOptions {
  /** largest entry of the gradient, a trace, at which a search ends */
  readonly tolerance: number;
  /** spreads of the last features, whose mean is 0: measured, they would move with the own reward */
  readonly given?: readonly number[];
}

/** With fewer groups no fold can be left out, and nothing said of others. */
const MIN_GROUPS = 5;

/** Why values are not made of a fit. */
export const STANDS_BACK = {
  'too-few-groups': 'too few groups to leave some of them out',
  'one-reward': 'all traces have the same reward',
  'no-gain': 'on groups that it has not seen it is no better than a mean reward or v̂',
} as const;
export type StandBack = keyof typeof STANDS_BACK;

/** Looks at all traces once: what they are, whether anything can be fitted to them, and what fits it. @param F features of a state */
export async function openFit(pass: Pass, F: number, { tolerance, given = [] }: FitOptions) {
  const { scale, rewards, ...counts } = await prescan(pass(), F);
  scale.mean.fill(0, F - given.length);
  scale.sd.set(given, F - given.length);
  const all = rewardsOf(rewards);
  const others = rewards.map((fold) => rewardsOf(rewards.filter((each) => each !== fold)));
  const constants = others.map(({ mean }) => mean);
  const seen = { ...counts, meanReward: all.mean, constants, scale };
  let standsBack: StandBack | null = null;
  if (seen.groups.size < MIN_GROUPS) standsBack = 'too-few-groups';
  else if (!all.differ) standsBack = 'one-reward';
  // in what remains without any one fold
  else if (!others.every(({ differ }) => differ)) standsBack = 'too-few-groups';
  async function* samples(): AsyncGenerator<Sample> {
    for await (const { features, reward, place } of pass())
      yield { reward, place, z: standardised(features, scale) };
  }
  let searchFor: ReturnType<typeof steering> | undefined;
  /** @param rough by how much a search may end earlier */
  const search = async ({ l2, start }: Ridge, traces = seen.traces, rough = 1): Promise<Lbfgs> => {
    searchFor ??= steering(samples(), F, given.length, seen.states);
    return (await searchFor)(start ?? new Float64Array(1 + F), l2, traces, rough * tolerance * traces);
  };
  return {
    ...{ seen, standsBack, samples, search },
    /** (1+F) weights without each fold, and behind them those of all traces. @param ridges of each */
    async weights(ridges: readonly Ridge[]): Promise<Float64Array[]> {
      const models: Model[] = [];
      for (const [left, ridge] of ridges.entries())
        models.push({ left: [left], l2: ridge.l2, search: await search(ridge) });
      await minimise(samples, models);
      return models.map(({ search }) => search.at);
    },
    /** @param valueAt feature that is v̂; undefined where there is none */
    assessed: (folds: readonly Float64Array[], valueAt: number | undefined) =>
      assess(samples(), seen, folds, valueAt),
  };
}

/** The first pass: what features are standardised with, and the rewards of each fold. */
async function prescan(traces: AsyncIterable<FitTrace>, F: number) {
  const moments = new Moments(F);
  const rewards = Array.from({ length: FOLDS }, () => ({ sum: 0, count: 0, lowest: 1, highest: 0 }));
  const groups = new KnownGroups();
  const counts = { traces: 0, states: 0 };
  for await (const { features, reward, place } of traces) {
    const states = features.length / F;
    for (let k = 0; k < states; k++) moments.add(features, k * F, 1 / states);
    const own = rewards[place.fold] as FoldRewards;
    own.sum += reward;
    own.count++;
    own.lowest = Math.min(own.lowest, reward);
    own.highest = Math.max(own.highest, reward);
    groups.add(place, reward);
    counts.traces++;
    counts.states += states;
  }
  return { scale: moments.standardisation, rewards, groups, ...counts };
}

/** A fold's rewards; of none at first, so that any from 0 to 1 is lower, and higher. */
type FoldRewards = Record<'sum' | 'count' | 'lowest' | 'highest', number>;

/** The mean of some folds' rewards, and whether these differ. */
function rewardsOf(folds: readonly FoldRewards[]) {
  const least = Math.min(...folds.map(({ lowest }) => lowest));
  const differ = least < Math.max(...folds.map(({ highest }) => highest));
  return { mean: sum(folds.map((each) => each.sum)) / sum(folds.map(({ count }) => count)), differ };
}

// ------ the search

/** States by which the curvature is guessed that steers a search; p (1 − p) of one about which little is known. */
const [GUESSED_BY, CURVATURE] = [2 ** 12, 0.2];
/** States whose products are summed at a time: no cache holds the sums. */
const AT_ONCE = 128;

/**
 * Guesses the curvature by some of the states, z zᵀ p (1 − p): a search takes fewer passes by it.
 * @param unread features at the end that are not looked at: even the way of a search would move with the own reward
 * @returns what begins one
 */
async function steering(samples: AsyncIterable<Sample>, F: number, unread: number, states: number) {
  const Q = 1 + F;
  const sums = new Float64Array(Q * Q); // lower triangle
  const some = new Float64Array(Q * AT_ONCE); // of each feature all states
  const addProducts = () => {
    for (let i = 0; i < Q; i++)
      for (let j = 0; j <= i; j++)
        sums[i * Q + j] = (sums[i * Q + j] as number) + dot(some, i * AT_ONCE, some, j * AT_ONCE, AT_ONCE);
    some.fill(0);
  };
  let [state, count] = [0, 0];
  for await (const { z } of samples)
    for (let from = 0; from < z.length; from += F) {
      if (state++ % Math.ceil(states / GUESSED_BY) > 0) continue;
      const at = count++ % AT_ONCE;
      some[at] = 1;
      for (let f = 1; f < Q - unread; f++) some[f * AT_ONCE + at] = z[from + f - 1] as number;
      if (at === AT_ONCE - 1) addProducts();
    }
  addProducts();
  for (let i = Q - unread; i < Q; i++) sums[i * Q + i] = count;
  // one is kept, however many follow: of 4,096 numbers it takes 134 MB
  let last: { readonly l2?: Float64Array; readonly traces?: number; readonly factor: Float64Array } = {
    factor: sums,
  };
  return (start: Float64Array, l2: Float64Array, traces: number, tolerance: number) => {
    if (last.l2 !== l2 || last.traces !== traces) {
      const curvature = sums.map((each) => (CURVATURE * traces * each) / count);
      for (const [f, own] of l2.entries())
        curvature[(f + 1) * (Q + 1)] = (curvature[(f + 1) * (Q + 1)] as number) + own;
      last = { l2, traces, factor: factorise(curvature, Q) };
    }
    const { factor } = last;
    return new Lbfgs(start, tolerance, (gradient) => solveSymmetric(factor, gradient));
  };
}

/** Runs all searches side by side, each pass serving all of them. */
export async function minimise(pass: () => AsyncIterable<Sample>, models: readonly Model[]): Promise<void> {
  for (;;) {
    const active = models
      .filter(({ search }) => !search.hasEnded)
      .map((model) => ({ ...model, loss: 0, gradient: new Float64Array(model.search.at.length) }));
    if (active.length === 0) return;
    for await (const { z, reward, place } of pass())
      for (const own of active) {
        if (own.left.includes(place.fold)) continue;
        const { at: weights } = own.search;
        const F = own.l2.length;
        const weight = F / z.length;
        for (let from = 0; from < z.length; from += F) {
          const logit = logitOf(weights, z, from);
          own.loss += weight * crossEntropy(logit, reward);
          addSample(own.gradient, z, from, weight * (sigmoid(logit) - reward));
        }
      }
    for (const { search, l2, loss, gradient } of active) {
      let penalty = 0;
      for (const [f, own] of l2.entries()) {
        const w = search.at[1 + f] as number;
        penalty += (own / 2) * w * w;
        gradient[1 + f] = (gradient[1 + f] as number) + own * w;
      }
      search.take(loss + penalty, gradient);
    }
  }
}

// ------ how good it is, on traces that its weights have not seen

const [BINS, BINS_OF_RANKS] = [10, 1000];

/** The bin of so many that a probability falls into. */
const binOf = (value: number, bins: number) => Math.min(bins - 1, Math.floor(value * bins));

/** What the first pass has seen; `constants`: of each fold the mean reward of the others. */
type SeenTraces = Omit<Awaited<ReturnType<typeof prescan>>, 'rewards'> & {
  readonly constants: readonly number[];
};

/** Gathers it in one pass. @param folds (1+F) of each fold, fitted without it @param valueAt feature that is v̂ */
async function assess(
  samples: AsyncIterable<Sample>,
  { scale, groups, traces, constants }: SeenTraces,
  folds: readonly Float64Array[],
  valueAt = -1,
) {
  const F = scale.mean.length;
  const loss = { calibrated: 0, constant: 0, peers: 0, value: 0 };
  const bins = Array.from({ length: BINS }, () => ({ states: 0, weight: 0, value: 0, reward: 0 }));
  const ranks = { start: openRanks(), middle: openRanks(), end: openRanks() };
  for await (const { z, reward, place } of samples) {
    const last = z.length / F - 1;
    const weight = 1 / (last + 1);
    const ownValues = Array.from({ length: last + 1 }, (_, k) => {
      const logit = logitOf(folds[place.fold] as Float64Array, z, k * F);
      loss.calibrated += weight * crossEntropy(logit, reward);
      const before = (z[k * F + valueAt] ?? 0) * (scale.sd[valueAt] ?? 0) + (scale.mean[valueAt] ?? 0);
      loss.value += weight * lossOf(before, reward);
      const value = sigmoid(logit);
      const bin = bins[binOf(value, BINS)] as (typeof bins)[number];
      bin.states++;
      bin.weight += weight;
      bin.value += weight * value;
      bin.reward += weight * reward;
      return value;
    });
    for (const [name, k] of Object.entries({ start: 0, middle: Math.floor(last / 2), end: last }))
      ranks[name as keyof typeof ranks].add(ownValues[k] as number, reward > CORRECT);
    const constant = constants[place.fold] as number;
    loss.constant += lossOf(constant, reward);
    // NaN from the first group on that is not kept
    loss.peers += lossOf(groups.peersMean(place, reward, constant) ?? Number.NaN, reward);
  }
  return {
    /** mean cross-entropy of ζ, nats a trace: every state counts 1/(K+1). Each figure is of folds that were left out */
    log_loss: {
      calibrated: loss.calibrated / traces,
      /** the mean reward of the other folds */
      constant: loss.constant / traces,
      /** the mean reward of the trace's peers, with the constant as one more of them; null where groups are too many */
      group_mean: Number.isNaN(loss.peers) ? null : loss.peers / traces,
      /** v̂ as it is; null where nothing was scored */
      value: valueAt < 0 ? null : loss.value / traces,
    },
    /** the states whose value fell between `from` and `to` */
    reliability: bins.map(({ states, weight, value, reward }, n) => ({
      ...{ from: n / BINS, to: (n + 1) / BINS, states },
      /** mean value, and mean reward of these traces, weighted by 1/(K+1); null in an empty bin */
      value: states === 0 ? null : value / weight,
      reward: states === 0 ? null : reward / weight,
    })),
    auc: { start: ranks.start.auc(), middle: ranks.middle.auc(), end: ranks.end.auc() },
  };
}

/** Cross-entropy of a probability that is held away from 0 and 1. */
function lossOf(probability: number, reward: number): number {
  const p = clipped(probability);
  return -reward * Math.log(p) - (1 - reward) * Math.log1p(-p);
}

/** The values of right and wrong traces at one place, to a thousandth. */
function openRanks() {
  const bins = Array.from({ length: BINS_OF_RANKS }, () => ({ right: 0, wrong: 0 }));
  return {
    add(value: number, isRight: boolean): void {
      (bins[binOf(value, BINS_OF_RANKS)] as (typeof bins)[number])[isRight ? 'right' : 'wrong']++;
    },
    /** how often of a right and a wrong trace the right one has the larger value; null where all are right, or none */
    auc(): number | null {
      let [below, pairs, rights] = [0, 0, 0];
      for (const { right, wrong } of bins) {
        pairs += right * (below + wrong / 2);
        below += wrong;
        rights += right;
      }
      return below * rights === 0 ? null : pairs / (below * rights);
    },
  };
}
