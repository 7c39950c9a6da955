// Fits the calibrated value by passes over traces: weights of each fold of the groups and of the whole, and how good they are.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { sum } from '../credit/rules.js';
import {
  crossEntropy,
  LogisticFit,
  logitOf,
  Moments,
  type Standardisation,
  sigmoid,
  standardise,
} from './logistic.js';
import { clipped, FEATURES } from './states.js';

/** One trace of a fit; K+1 states of F features. */
export interface FitTrace {
  /** ((K+1)·F) φ(s_0..K) */
  readonly features: Float64Array;
  /** ζ in [0, 1] */
  readonly reward: number;
  readonly place: GroupPlace;
}

/** λ of the penalty λ/2 Σ w², beside Σ over traces of their mean cross-entropy. */
export const L2 = 1;
/** With fewer groups no fold can be left out, and nothing said of others. */
export const MIN_GROUPS = 5;
/** Newton's method takes 6 to 10. */
const MAX_PASSES = 200;

/** Why a calibration is not to be used. */
export type StandBack = 'too-few-groups' | 'one-reward' | 'no-gain';

/** What the traces are, and what was fitted to them. */
export interface Fit {
  readonly traces: number;
  readonly states: number;
  readonly groups: KnownGroups;
  readonly meanReward: number;
  readonly scale: Standardisation;
  /** null where there was nothing to fit */
  readonly weights: {
    /** (1+F), of all traces */
    readonly whole: Float64Array;
    /** (1+F) of each fold: fitted to the groups of the others */
    readonly folds: readonly Float64Array[];
  } | null;
  readonly quality: Quality | null;
  readonly standsBack: StandBack | null;
}

/**
 * Logistic regression of ζ on φ(s_k), every state a sample of weight 1/(K+1), cross-fitted by group: METHOD §3. Keeps
 * sums alone; the same traces in the same order give the same bits.
 * @param pass the traces, in the same order at every call
 * @param F features of a state
 * @param hasValue whether a v̂ is the first two of them
 */
export async function fitCalibration(
  pass: () => AsyncIterable<FitTrace>,
  F: number = FEATURES.length,
  hasValue = true,
): Promise<Fit> {
  const { scale, rewards, ...seen } = await prescan(pass(), F);
  const all = rewardsOf(rewards);
  const others = rewards.map((fold) => rewardsOf(rewards.filter((each) => each !== fold)));
  const found = { ...seen, meanReward: all.mean, scale };
  const none = { ...found, weights: null, quality: null };
  if (seen.groups.size < MIN_GROUPS) return { ...none, standsBack: 'too-few-groups' };
  if (!all.differ) return { ...none, standsBack: 'one-reward' };
  // in what remains without any one fold
  if (!others.every(({ differ }) => differ)) return { ...none, standsBack: 'too-few-groups' };

  const fitted = await fitFolds(pass, scale);
  const weights = { whole: fitted.pop() as Float64Array, folds: fitted };
  const constants = others.map(({ mean }) => mean);
  const quality = await assessed(pass(), found, weights.folds, constants, hasValue);
  const { calibrated, constant, value } = quality.logLoss;
  const isGain = calibrated < constant && (value === null || calibrated < value);
  return { ...found, weights, quality, standsBack: isGain ? null : 'no-gain' };
}

/** The first pass: what features are standardised with, and the rewards of each fold. */
export async function prescan(traces: AsyncIterable<FitTrace>, F: number) {
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
export function rewardsOf(folds: readonly FoldRewards[]) {
  const least = Math.min(...folds.map(({ lowest }) => lowest));
  const differ = least < Math.max(...folds.map(({ highest }) => highest));
  return { mean: sum(folds.map((each) => each.sum)) / sum(folds.map(({ count }) => count)), differ };
}

/** Weights without each fold, and behind them those of all traces. */
async function fitFolds(
  pass: () => AsyncIterable<FitTrace>,
  scale: Standardisation,
): Promise<Float64Array[]> {
  const F = scale.mean.length;
  const fits = Array.from({ length: FOLDS + 1 }, () => new LogisticFit(F, L2));
  const z = new Float64Array(F);
  for (let passes = 0; fits.some(({ hasEnded }) => !hasEnded); passes++) {
    if (passes === MAX_PASSES) throw new Error(`the calibration has not settled in ${passes} passes`);
    for await (const { features, reward, place } of pass()) {
      const states = features.length / F;
      for (let k = 0; k < states; k++) {
        standardise(features, k * F, scale, z);
        for (const [left, fit] of fits.entries()) if (left !== place.fold) fit.add(z, reward, 1 / states);
      }
    }
    for (const fit of fits) fit.endPass();
  }
  return fits.map(({ weights }) => weights);
}

/** Parts that the groups fall into: a trace's value is fitted on the other four. */
export const FOLDS = 5;
/** Groups that a fit keeps in mind; with more of them every group is taken for one of the fit's, in its own fold. */
const MAX_KNOWN = 2 ** 18;

/** A group by its hash. */
export interface GroupPlace {
  readonly fold: number;
  /** 32 further bits, by which it is known again */
  readonly mark: number;
}

/** @param key the trace's group, or its id where it has none */
export function groupPlace(key: string): GroupPlace {
  const hash = createHash('sha256').update(key).digest();
  return { fold: hash.readUInt32BE(0) % FOLDS, mark: hash.readUInt32BE(4) };
}

/** The groups of a fit: none is forgotten, and of others 1 in 16,000 at most is taken for one of them. */
export class KnownGroups {
  /** sum and number of the rewards of each */
  readonly #rewards = new Map<number, { sum: number; count: number }>();
  #isFull = false;

  add({ mark }: Pick<GroupPlace, 'mark'>, reward = 0): void {
    const own = this.#rewards.get(mark) ?? { sum: 0, count: 0 };
    if (own.count === 0 && this.size === MAX_KNOWN) this.#isFull = true;
    else this.#rewards.set(mark, { sum: own.sum + reward, count: own.count + 1 });
  }

  has({ mark }: GroupPlace): boolean {
    return this.#isFull || this.#rewards.has(mark);
  }

  /** How many there are; at least so many where they are too many. */
  get size(): number {
    return this.#rewards.size;
  }

  /** The mean reward of a trace's peers, with a constant in the place of its own; undefined for a group that is not kept. */
  peersMean({ mark }: GroupPlace, reward: number, constant: number): number | undefined {
    const peers = this.#rewards.get(mark);
    return peers && (peers.sum - reward + constant) / peers.count;
  }

  /** As text: the sorted marks, 4 bytes each (little endian) in base64; null where there are too many. */
  toText(): string | null {
    if (this.#isFull) return null;
    const bytes = Buffer.alloc(4 * this.size);
    for (const [n, mark] of Uint32Array.from(this.#rewards.keys()).sort().entries())
      bytes.writeUInt32LE(mark, 4 * n);
    return bytes.toString('base64');
  }

  /** What {@link toText} has written. */
  static ofText(text: string | null): KnownGroups {
    const known = new KnownGroups();
    if (text === null) known.#isFull = true;
    const bytes = Buffer.from(text ?? '', 'base64');
    for (let at = 0; at + 4 <= bytes.length; at += 4) known.add({ mark: bytes.readUInt32LE(at) });
    return known;
  }
}

// ------ how good it is, on traces that its weights have not seen

/** Mean cross-entropy of ζ, nats a trace: every state counts 1/(K+1). Each figure is of folds that were left out. */
export const LogLoss = z.strictObject({
  calibrated: z.number(),
  /** the mean reward of the other folds */
  constant: z.number(),
  /** the mean reward of the trace's peers, with the constant as one more of them; null where groups are too many */
  group_mean: z.number().nullable(),
  /** v̂ as it is; null where nothing was scored */
  value: z.number().nullable(),
});

/** The states whose value fell between `from` and `to`. */
export const Reliability = z.array(
  z.strictObject({
    from: z.number(),
    to: z.number(),
    states: z.int().nonnegative(),
    /** mean value, and mean reward of these traces, weighted by 1/(K+1); null in an empty bin */
    value: z.number().nullable(),
    reward: z.number().nullable(),
  }),
);

export interface Quality {
  readonly logLoss: z.infer<typeof LogLoss>;
  readonly reliability: z.infer<typeof Reliability>;
}

const BINS = 10;

/**
 * Gathers it in one pass.
 * @param folds (1+F) of each fold, fitted without it
 * @param constants of each fold: the mean reward of the others
 * @param hasValue whether there is a v̂
 * @param see is shown every V(s_k)
 */
export async function assessed(
  pass: AsyncIterable<FitTrace>,
  { scale, groups, traces }: Pick<Fit, 'scale' | 'groups' | 'traces'>,
  folds: readonly Float64Array[],
  constants: readonly number[],
  hasValue: boolean,
  see?: (value: number, k: number, trace: FitTrace) => void,
): Promise<Quality> {
  const z = new Float64Array(scale.mean.length);
  const loss = { calibrated: 0, constant: 0, peers: 0, value: 0 };
  const bins = Array.from({ length: BINS }, () => ({ states: 0, weight: 0, value: 0, reward: 0 }));
  for await (const trace of pass) {
    const { features, reward, place } = trace;
    const states = features.length / z.length;
    const weight = 1 / states;
    for (let from = 0; from < features.length; from += z.length) {
      standardise(features, from, scale, z);
      const logit = logitOf(folds[place.fold] as Float64Array, z);
      const calibrated = sigmoid(logit);
      loss.calibrated += weight * crossEntropy(logit, reward);
      see?.(calibrated, from / z.length, trace);
      loss.value += weight * lossOf(features[from + 1] as number, reward);
      const bin = bins[Math.min(BINS - 1, Math.floor(calibrated * BINS))] as (typeof bins)[number];
      bin.states++;
      bin.weight += weight;
      bin.value += weight * calibrated;
      bin.reward += weight * reward;
    }
    const constant = constants[place.fold] as number;
    loss.constant += lossOf(constant, reward);
    // NaN from the first group on that is not kept
    loss.peers += lossOf(groups.peersMean(place, reward, constant) ?? Number.NaN, reward);
  }
  return {
    logLoss: {
      calibrated: loss.calibrated / traces,
      constant: loss.constant / traces,
      group_mean: Number.isNaN(loss.peers) ? null : loss.peers / traces,
      value: hasValue ? loss.value / traces : null,
    },
    reliability: bins.map(({ states, weight, value, reward }, n) => ({
      ...{ from: n / BINS, to: (n + 1) / BINS, states },
      value: states === 0 ? null : value / weight,
      reward: states === 0 ? null : reward / weight,
    })),
  };
}

/** Cross-entropy of a probability that is held away from 0 and 1. */
function lossOf(probability: number, reward: number): number {
  const p = clipped(probability);
  return -reward * Math.log(p) - (1 - reward) * Math.log1p(-p);
}
