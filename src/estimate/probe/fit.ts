// Fits the probe: a logistic regression of a trace's reward on its states (the policy's hidden state there, what `calibrated` knows, the mean reward of its peers), cross-fitted by group (METHOD §3).
import { CORRECT } from '../../credit/nature.js';
import { fromFloat16 } from '../../model/onnx/float16.js';
import { assessed, type FitTrace, FOLDS, MIN_GROUPS, prescan, rewardsOf } from '../calibration-fit.js';
import { crossEntropy, factorise, type Standardisation, sigmoid, solveSymmetric } from '../logistic.js';
import { Lbfgs } from './lbfgs.js';

/** One trace of a fit: K+1 states of D numbers and F features. */
export interface ProbeTrace extends FitTrace {
  /** ((K+1)·D) float16 */
  readonly states: Uint16Array;
  /** {@link peersFeature} */
  readonly peers: number;
}

/** D numbers of a hidden state, F features, and {@link OF_PEERS} more: P. */
export type ProbeShape = Readonly<Record<'D' | 'F', number>>;

/** A reward about which nothing is known. */
export const MIDDLE = 0.5;
/** How far it is from the middle, for a mean of so many peers' rewards and one in the middle; 0 without any. The own reward is not in it. */
export function peersFeature(mean: number | undefined, peers = 0): number {
  return mean === undefined ? 0 : (mean * peers + MIDDLE) / (peers + 1) - MIDDLE;
}
/** What that becomes: at the start, fading, and all along. What stands for their spread: measured, it would move with the own reward. */
export const [OF_PEERS, PEERS_SD] = [3, 0.3];

/** λ of all but hidden states, standardised: of λ/2 w² beside Σ over traces of their mean cross-entropy. */
const L2 = 10;
/** Variance that hidden states give a logit beforehand: λ of each of D numbers is D over one of these, chosen on groups that were left out. */
const VARIANCES = [0.03, 0.1, 0.3, 1, 3];
/** λ where hidden states are not read. */
const UNREAD = Number.POSITIVE_INFINITY;
/** Numbers in memory at most, by the traces of which λ is chosen; and states by which the curvature is guessed that steers a search. */
const [CHOSEN_BY, GUESSED_BY] = [2 ** 25, 2 ** 13];
/** p (1 − p) of a state about which little is known. */
const CURVATURE = 0.2;
/** Of the gradient a trace: closer changed values by less than 1e-4. */
const TOLERANCE = 1e-4;

/** A regression: the folds that are left out of it, λ of hidden states, and the search for its weights (1 + P). */
type Model = { readonly left: readonly number[]; readonly l2: number; readonly search: Lbfgs };
type Pass = () => AsyncIterable<ProbeTrace>;

export type ProbeFit = Awaited<ReturnType<typeof fitProbe>>;

/** @param pass the traces, in the same order at every call: the same traces give the same bits */
export async function fitProbe(pass: Pass, shape: ProbeShape) {
  const { D, F } = shape;
  const P = D + F + OF_PEERS;
  async function* rows(): AsyncGenerator<FitTrace> {
    for await (const trace of pass()) yield { ...trace, features: probeRows(trace, shape, Float64Array) };
  }
  const { scale, rewards, ...seen } = await prescan(rows(), P);
  scale.mean.fill(0, D + F);
  scale.sd.fill(PEERS_SD, D + F);
  const all = rewardsOf(rewards);
  const others = rewards.map((fold) => rewardsOf(rewards.filter((each) => each !== fold)));
  const found = { ...seen, meanReward: all.mean, scale };
  const none = { ...found, weights: null, l2: null, withStates: null, withoutStates: null };
  const isFew = seen.groups.size < MIN_GROUPS || !others.every(({ differ }) => differ);
  if (isFew || !all.differ) {
    const why = seen.traces > 0 && !all.differ ? 'one-reward' : 'too-few-groups';
    return { ...none, uses: 'now' as const, why } as const;
  }

  const searchFor = await steering(rows(), shape, scale, seen.states);
  const zero = { l2: UNREAD, start: new Float64Array(1 + P) };
  const plain = Array.from({ length: FOLDS + 1 }, () => zero);
  const chosen = D === 0 ? [] : await chosenRidge(pass, shape, scale, searchFor, seen.states);
  const models = [...plain, ...chosen].map(({ l2, start }, n): Model => {
    return { left: [n % (FOLDS + 1)], l2, search: searchFor(start, l2, seen.traces) };
  });
  await minimise(pass, shape, scale, models);
  // as they are stored
  const weights = models.map(({ search }) => Float64Array.from(Float32Array.from(search.at)));
  const [ofFeatures, ofStates] = [weights.slice(0, FOLDS + 1), weights.slice(FOLDS + 1)];
  const judged = async (folds: readonly Float64Array[]) => {
    const ranks = openRanks(P);
    const constants = others.map(({ mean }) => mean);
    const { logLoss, reliability } = await assessed(rows(), found, folds, constants, false, ranks.see);
    return { log_loss: logLoss, reliability, auc: ranks.auc() };
  };
  const withoutStates = await judged(ofFeatures);
  const withStates = D === 0 ? null : await judged(ofStates);
  const { constant, group_mean, calibrated } = withoutStates.log_loss;
  const least = Math.min(constant, group_mean ?? constant);
  const l2 = chosen[FOLDS]?.l2 ?? null;
  const judgement = { ...found, l2, withStates, withoutStates } as const;
  if (withStates !== null && withStates.log_loss.calibrated < Math.min(least, calibrated))
    return { ...judgement, uses: 'states', why: null, weights: ofStates } as const;
  if (!(calibrated < least)) return { ...judgement, uses: 'now', why: 'no-gain', weights: null } as const;
  const why = D === 0 ? 'no-states' : 'no-gain-of-states';
  return { ...judgement, uses: 'features', why, weights: ofFeatures } as const;
}

/** ((K+1)·P) a trace's states as rows: hidden state, features, what is known of its peers. */
export function probeRows<Rows extends Float32Array | Float64Array>(
  { states, features, peers }: Pick<ProbeTrace, 'states' | 'features' | 'peers'>,
  { D, F }: ProbeShape,
  make: new (length: number) => Rows,
): Rows {
  const [K1, P] = [features.length / F, D + F + OF_PEERS];
  const rows = new make(K1 * P);
  for (let k = 0; k < K1; k++) {
    fromFloat16(states.subarray(k * D, (k + 1) * D), rows, k * P);
    rows.set(features.subarray(k * F, (k + 1) * F), k * P + D);
    rows.set([k === 0 ? peers : 0, peers / (1 + k), peers], k * P + D + F);
  }
  return rows;
}

/**
 * λ of each fold, and of the whole: that with the least loss on groups of the other folds, by weights that have seen neither these nor the
 * fold's own; of very many traces by the groups of some. And weights to begin with.
 */
async function chosenRidge(
  pass: Pass,
  shape: ProbeShape,
  scale: Standardisation,
  searchFor: SearchFor,
  states: number,
) {
  const kept: ProbeTrace[] = [];
  const share = (2 ** 32 * CHOSEN_BY) / (states * shape.D);
  for await (const trace of pass()) if (trace.place.mark < share) kept.push(trace);
  const P = scale.mean.length;
  const folds = Array.from({ length: FOLDS }, (_, f) => f);
  const pairs = folds.flatMap((f) => folds.slice(0, f).map((g) => [g, f] as const));
  const best = Array.from({ length: FOLDS + 1 }, () => {
    return { loss: Number.POSITIVE_INFINITY, l2: 0, start: new Float64Array(1 + P) };
  });
  let starts = pairs.map(() => new Float64Array(1 + P));
  for (const variance of VARIANCES) {
    const l2 = shape.D / variance;
    const models = pairs.map((left, n): Model => {
      return { left, l2, search: searchFor(starts[n] as Float64Array, l2, kept.length, 10) };
    });
    async function* again() {
      yield* kept;
    }
    await minimise(again, shape, scale, models);
    starts = models.map(({ search }) => search.at.slice());
    const losses = new Float64Array(FOLDS + 1);
    const raw = starts.map((weights) => rawWeights(weights, scale));
    for (const trace of kept) {
      const rows = probeRows(trace, shape, Float32Array);
      for (const [n, pair] of pairs.entries()) {
        if (!pair.includes(trace.place.fold)) continue;
        const { weights, bias } = raw[n] as (typeof raw)[number];
        let loss = 0;
        for (let at = 0; at < rows.length; at += P)
          loss += (crossEntropy(bias + dot(rows, at, weights, 0), trace.reward) * P) / rows.length;
        for (const fold of [...pair, FOLDS])
          if (fold !== trace.place.fold) losses[fold] = (losses[fold] as number) + loss;
      }
    }
    for (const [fold, own] of best.entries())
      if ((losses[fold] as number) < own.loss) {
        const start = starts[pairs.findIndex((pair) => fold === FOLDS || pair.some((f) => f === fold))];
        Object.assign(own, { loss: losses[fold], l2, start });
      }
  }
  return best;
}

type SearchFor = Awaited<ReturnType<typeof steering>>;

/** Guesses the curvature by some of the states, z zᵀ p (1 − p): a search takes fewer passes by it. @returns what begins one */
async function steering(
  rows: AsyncIterable<FitTrace>,
  { D, F }: ProbeShape,
  { mean, sd }: Standardisation,
  states: number,
) {
  const [P, Q] = [mean.length, 1 + mean.length];
  const sums = new Float64Array(Q * Q); // lower triangle
  const z = new Float64Array(Q);
  z[0] = 1;
  let [state, count] = [0, 0];
  for await (const { features } of rows)
    for (let from = 0; from < features.length; from += P) {
      if (state++ % Math.ceil(states / GUESSED_BY) > 0) continue;
      count++;
      // nobody looks at the peers' rewards: even the way of a search would move with the own one
      for (let i = 0; i < D + F; i++)
        z[1 + i] = ((features[from + i] as number) - (mean[i] as number)) / (sd[i] as number);
      for (let i = 0; i < Q; i++)
        for (let j = 0; j <= i; j++)
          sums[i * Q + j] = (sums[i * Q + j] as number) + (z[i] as number) * (z[j] as number);
    }
  for (let i = Q - OF_PEERS; i < Q; i++) sums[i * Q + i] = PEERS_SD * count;
  // one is kept, however many follow: of 4,096 numbers it takes 134 MB
  let last: { readonly key: string; readonly factor: Float64Array } = { key: '', factor: sums };
  return (start: Float64Array, l2: number, traces: number, rough = 1) => {
    const key = `${l2} ${traces}`;
    const scaled = () => sums.map((sum) => (CURVATURE * traces * sum) / count);
    if (last.key !== key) last = { key, factor: factorise(withRidge(scaled(), Q, D, l2), Q) };
    const { factor } = last;
    return new Lbfgs(start, rough * TOLERANCE * traces, (gradient) => solveSymmetric(factor, gradient));
  };
}

function withRidge(curvature: Float64Array, Q: number, D: number, l2: number): Float64Array {
  for (let i = 1; i < Q; i++) curvature[i * Q + i] = (curvature[i * Q + i] as number) + (i <= D ? l2 : L2);
  return curvature;
}

/** Weights of standardised numbers as those of the numbers themselves. @param all (1 + P) */
function rawWeights(all: Float64Array, { mean, sd }: Standardisation) {
  const weights = mean.map((_, i) => (all[1 + i] as number) / (sd[i] as number));
  return {
    weights,
    bias: mean.reduce((sum, own, i) => sum - own * (weights[i] as number), all[0] as number),
  };
}

/** Runs all searches side by side, each pass serving all of them; the intercept is free. */
async function minimise(
  pass: Pass,
  shape: ProbeShape,
  scale: Standardisation,
  models: readonly Model[],
): Promise<void> {
  const P = scale.mean.length;
  for (;;) {
    const active = models.flatMap((model) => {
      const first = model.l2 === UNREAD ? shape.D : 0;
      const sums = { loss: 0, errors: 0, gradient: new Float64Array(P) };
      return model.search.hasEnded
        ? []
        : [{ ...model, ...rawWeights(model.search.at, scale), first, ...sums }];
    });
    if (active.length === 0) return;
    for await (const trace of pass()) {
      const rows = probeRows(trace, shape, Float32Array);
      for (const own of active) {
        if (own.left.includes(trace.place.fold)) continue;
        for (let at = 0; at < rows.length; at += P) {
          const logit = own.bias + dot(rows, at, own.weights, own.first);
          own.loss += (crossEntropy(logit, trace.reward) * P) / rows.length;
          const error = ((sigmoid(logit) - trace.reward) * P) / rows.length;
          own.errors += error;
          addTo(own.gradient, rows, at, error, own.first);
        }
      }
    }
    for (const { search, l2, loss, errors, gradient, first } of active) {
      const full = new Float64Array(1 + P);
      full[0] = errors;
      let penalty = 0;
      for (let i = first; i < P; i++) {
        const [w, own] = [search.at[1 + i] as number, i < shape.D ? l2 : L2];
        penalty += (own / 2) * w * w;
        const ofRaw = (gradient[i] as number) - (scale.mean[i] as number) * errors;
        full[1 + i] = ofRaw / (scale.sd[i] as number) + own * w;
      }
      search.take(loss + penalty, full);
    }
  }
}

// ------ by far the most time is spent inside these two

/** Σ_i x[at + i] w[i], i from `first` on: four sums at a time do not wait for each other. */
function dot(x: Float32Array, at: number, w: Float64Array, first: number): number {
  let [a, b, c, d, i] = [0, 0, 0, 0, first];
  for (; i + 3 < w.length; i += 4) {
    a += (x[at + i] as number) * (w[i] as number);
    b += (x[at + i + 1] as number) * (w[i + 1] as number);
    c += (x[at + i + 2] as number) * (w[i + 2] as number);
    d += (x[at + i + 3] as number) * (w[i + 3] as number);
  }
  for (; i < w.length; i++) a += (x[at + i] as number) * (w[i] as number);
  return a + b + c + d;
}

/** sums[i] += by · x[at + i] */
function addTo(sums: Float64Array, x: Float32Array, at: number, by: number, first: number): void {
  for (let i = first; i < sums.length; i++) sums[i] = (sums[i] as number) + by * (x[at + i] as number);
}

/** Gathers the values of right and wrong traces at three places. @param P numbers of a row */
function openRanks(P: number) {
  const seen = { start: [], middle: [], end: [] } as Record<string, [value: number, isRight: boolean][]>;
  return {
    see(value: number, k: number, { features, reward }: FitTrace): void {
      const last = features.length / P - 1;
      for (const [name, at] of Object.entries({ start: 0, middle: Math.floor(last / 2), end: last }))
        if (at === k) seen[name]?.push([value, reward > CORRECT]);
    },
    /** how often of a right and a wrong trace the right one has the larger value there; null where all are right, or none */
    auc: () => Object.fromEntries(Object.entries(seen).map(([name, own]) => [name, areaUnder(own)])),
  };
}

/** By ranks: of equal values each counts as their mean. */
function areaUnder(seen: [value: number, isRight: boolean][]): number | null {
  seen.sort(([a], [b]) => a - b);
  let [ranks, right] = [0, 0];
  for (let from = 0, to = 0; from < seen.length; from = to) {
    while (to < seen.length && seen[to]?.[0] === seen[from]?.[0]) to++;
    const own = seen.slice(from, to).filter(([, isRight]) => isRight).length;
    ranks += (own * (from + 1 + to)) / 2;
    right += own;
  }
  const pairs = right * (seen.length - right);
  return pairs === 0 ? null : (ranks - (right * (right + 1)) / 2) / pairs;
}
