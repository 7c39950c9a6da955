// Fits the probe: a logistic regression of a trace's reward on its states (the policy's hidden state there, what `calibrated` knows, the mean reward of the trace's peers), cross-fitted by group, over passes that keep sums alone (METHOD §3).
import { CORRECT } from '../credit/nature.js';
import { fromFloat16 } from '../model/onnx/float16.js';
import {
  assessed,
  type Fit,
  type FitTrace,
  FOLDS,
  MIN_GROUPS,
  prescan,
  type Quality,
  rewardsOf,
  type StandBack,
} from './calibration-fit.js';
import { Lbfgs } from './lbfgs.js';
import { crossEntropy, factorise, type Standardisation, sigmoid, solveSymmetric } from './logistic.js';

/** One trace of a fit: K+1 states of D numbers and F features. */
export interface ProbeTrace extends FitTrace {
  /** ((K+1)·D) float16 */
  readonly states: Uint16Array;
  /** {@link peersFeature} */
  readonly peers: number;
}

/** D numbers of a hidden state, F features, and {@link OF_PEERS} more. */
export type ProbeShape = Readonly<Record<'D' | 'F', number>>;

/** What the peers' mean becomes: at the start, fading, and all along. */
export const OF_PEERS = 3;
/** A reward about which nothing is known. */
export const MIDDLE = 0.5;
/** How far it is from the middle, for a mean of so many peers' rewards and one in the middle; 0 without any. The own reward is not in it. */
export function peersFeature(mean: number | undefined, peers = 0): number {
  return mean === undefined ? 0 : (mean * peers + MIDDLE) / (peers + 1) - MIDDLE;
}
/** What stands for its spread: measured, it would move with the own reward. */
const PEERS_SD = 0.3;

/** λ of everything but hidden states, standardised: beside Σ over traces of their mean cross-entropy. */
const L2 = 10;
/** Variance that a state's logit has beforehand: λ of each of its D numbers is D over one of these, chosen on groups that were left out. */
const VARIANCES = [0.03, 0.1, 0.3, 1, 3] as const;
/** Numbers that it is chosen by, at most: they lie in memory. */
const CHOSEN_BY = 2 ** 25;
/** Of the gradient a trace. */
const TOLERANCE = 1e-4;
/** States by which the curvature is guessed that steers the search: it is nobody's result. */
const GUESSED_BY = 8192;
/** p (1 − p) of a state about which little is known. */
const CURVATURE = 0.2;

/** A regression, and what is left out of it. */
interface Model {
  readonly left: readonly number[];
  /** of the states' numbers; null: none of these is read */
  readonly l2: number | null;
  readonly search: Lbfgs;
}

/** (1 + P) of all traces, and of each fold, fitted to the groups of the others. */
export interface ProbeWeights {
  readonly whole: Float64Array;
  readonly folds: readonly Float64Array[];
}

/** Area under the curve: how often of a right and a wrong trace the right one has the larger value there. */
export type Auc = Readonly<Record<'start' | 'middle' | 'end', number | null>>;

export interface ProbeFit extends Omit<Fit, 'weights' | 'quality' | 'standsBack'> {
  /** what its values are made of; `now`: nothing, those of `pr` stay as they are */
  readonly uses: 'states' | 'features' | 'now';
  /** why not of states */
  readonly why: StandBack | 'no-states' | 'no-gain-of-states' | null;
  /** with `states` and, where it is not these, without */
  readonly weights: ProbeWeights | null;
  readonly l2: number | null;
  readonly withStates: (Quality & { readonly auc: Auc }) | null;
  readonly withoutStates: (Quality & { readonly auc: Auc }) | null;
}

/** @param pass the traces, in the same order at every call: the same traces give the same bits */
export async function fitProbe(pass: () => AsyncIterable<ProbeTrace>, shape: ProbeShape): Promise<ProbeFit> {
  const { D } = shape;
  const rows = () => asFit(pass(), shape);
  const { scale: measured, rewards, ...seen } = await prescan(rows(), widthOf(shape));
  const all = rewardsOf(rewards);
  const others = rewards.map((fold) => rewardsOf(rewards.filter((each) => each !== fold)));
  const scale = withPeersScale(measured);
  const found = { ...seen, meanReward: all.mean, scale };
  const none = {
    ...found,
    uses: 'now',
    weights: null,
    l2: null,
    withStates: null,
    withoutStates: null,
  } as const;
  if (!all.differ && seen.traces > 0) return { ...none, why: 'one-reward' };
  // in what remains without any one fold, and without two of them
  if (seen.groups.size < MIN_GROUPS || !others.every(({ differ }) => differ))
    return { ...none, why: 'too-few-groups' };

  const searchFor = await steering(rows(), shape, scale, seen);
  const chosen = D === 0 ? undefined : await chosenRidge(pass, shape, scale, seen.states, searchFor);
  const zero = new Float64Array(1 + widthOf(shape));
  const plain = Array.from({ length: FOLDS + 1 }, (_, fold): Model => {
    return { left: [fold], l2: null, search: searchFor(zero, null, seen.traces) };
  });
  const probes =
    chosen === undefined
      ? []
      : chosen.map(({ l2, start }, fold): Model => {
          return { left: [fold], l2, search: searchFor(start, l2, seen.traces) };
        });
  await minimise(pass, shape, scale, [...plain, ...probes]);
  const [ofFeatures, ofStates] = [plain, probes].map((fitted) =>
    fitted.map(({ search }) => Float64Array.from(Float32Array.from(search.at))),
  );
  const constants = others.map(({ mean }) => mean);
  const judged = async (weights: readonly Float64Array[]) => {
    const ranks = openRanks(widthOf(shape));
    const quality = await assessed(rows(), found, weights, constants, false, ranks.see);
    return { ...quality, auc: ranks.auc() };
  };
  const withoutStates = await judged(ofFeatures as Float64Array[]);
  const withStates = chosen === undefined ? null : await judged(ofStates as Float64Array[]);
  const { constant, group_mean } = withoutStates.logLoss;
  const least = Math.min(constant, group_mean ?? constant);
  const [own, plainLoss] = [
    withStates?.logLoss.calibrated ?? Number.POSITIVE_INFINITY,
    withoutStates.logLoss.calibrated,
  ];
  const uses = own < Math.min(least, plainLoss) ? 'states' : plainLoss < least ? 'features' : 'now';
  const why =
    uses === 'states' ? null : uses === 'now' ? 'no-gain' : D === 0 ? 'no-states' : 'no-gain-of-states';
  const folds = (uses === 'states' ? ofStates : ofFeatures) as Float64Array[];
  const weights =
    uses === 'now' ? null : { whole: folds.at(-1) as Float64Array, folds: folds.slice(0, FOLDS) };
  return { ...found, uses, why, weights, l2: chosen?.[FOLDS]?.l2 ?? null, withStates, withoutStates };
}

function widthOf({ D, F }: ProbeShape): number {
  return D + F + OF_PEERS;
}

/** ((K+1)·P) the rows of a trace's states: hidden state, features, what is known of its peers. */
export function probeRows<Rows extends Float32Array | Float64Array>(
  { states, features, peers }: Pick<ProbeTrace, 'states' | 'features' | 'peers'>,
  { D, F }: ProbeShape,
  make: new (length: number) => Rows,
): Rows {
  const [K1, P] = [features.length / F, widthOf({ D, F })];
  const rows = new make(K1 * P);
  for (let k = 0; k < K1; k++) {
    fromFloat16(states.subarray(k * D, (k + 1) * D), rows, k * P);
    rows.set(features.subarray(k * F, (k + 1) * F), k * P + D);
    rows.set([k === 0 ? peers : 0, peers / (1 + k), peers], k * P + D + F);
  }
  return rows;
}

async function* asFit(traces: AsyncIterable<ProbeTrace>, shape: ProbeShape): AsyncGenerator<FitTrace> {
  for await (const trace of traces) yield { ...trace, features: probeRows(trace, shape, Float64Array) };
}

function withPeersScale({ mean, sd }: Standardisation): Standardisation {
  const from = mean.length - OF_PEERS;
  return { mean: mean.fill(0, from), sd: sd.fill(PEERS_SD, from) };
}

/**
 * The ridge of each fold, and of the whole: that with the least loss on groups of the other folds, by weights that have seen neither
 * these nor the fold's own. Where there are very many traces it is chosen by the groups of some.
 * @returns also weights to begin with
 */
async function chosenRidge(
  pass: () => AsyncIterable<ProbeTrace>,
  shape: ProbeShape,
  scale: Standardisation,
  states: number,
  searchFor: SearchFor,
) {
  const share = Math.min(1, CHOSEN_BY / (states * shape.D));
  const kept: ProbeTrace[] = [];
  for await (const trace of pass()) if (trace.place.mark < share * 2 ** 32) kept.push(trace);
  async function* again() {
    yield* kept;
  }
  const P = widthOf(shape);
  const pairs = Array.from({ length: FOLDS }, (_, f) => f).flatMap((f) =>
    Array.from({ length: f }, (_, g) => [g, f] as const),
  );
  let fitted: Float64Array[] = pairs.map(() => new Float64Array(1 + P));
  const best = Array.from({ length: FOLDS + 1 }, () => ({
    ...{ loss: Number.POSITIVE_INFINITY, l2: 0, start: new Float64Array(1 + P) as Float64Array },
  }));
  for (const variance of VARIANCES) {
    const l2 = shape.D / variance;
    const models = pairs.map((left, n): Model => {
      return { left, l2, search: searchFor(fitted[n] as Float64Array, l2, kept.length, 10) };
    });
    await minimise(again, shape, scale, models);
    fitted = models.map(({ search }) => search.at);
    const losses = new Float64Array(FOLDS + 1);
    for (const trace of kept) {
      const rows = probeRows(trace, shape, Float32Array);
      for (const [n, pair] of pairs.entries()) {
        if (!pair.includes(trace.place.fold)) continue;
        const of = { ...rawWeights(fitted[n] as Float64Array, scale), reward: trace.reward };
        const loss = lossOf(rows, P, of);
        for (const fold of [...pair.filter((f) => f !== trace.place.fold), FOLDS])
          losses[fold] = (losses[fold] as number) + loss;
      }
    }
    for (const [fold, loss] of losses.entries()) {
      if (!(loss < (best[fold] as (typeof best)[number]).loss)) continue;
      // any that has not seen the fold
      const start = fitted[pairs.findIndex((pair) => fold === FOLDS || pair.includes(fold as never))];
      best[fold] = { loss, l2, start: start as Float64Array };
    }
  }
  return best;
}

type SearchFor = Awaited<ReturnType<typeof steering>>;

/**
 * Guesses the curvature by some of the states: z zᵀ p (1 − p), z of them standardised.
 * @returns what begins a search; more exact ones take more passes
 */
async function steering(
  rows: AsyncIterable<FitTrace>,
  shape: ProbeShape,
  { mean, sd }: Standardisation,
  { states }: Pick<ProbeFit, 'states'>,
) {
  const P = widthOf(shape);
  const Q = 1 + P;
  const sums = new Float64Array(Q * Q); // lower triangle
  const z = new Float64Array(Q);
  z[0] = 1;
  const every = Math.ceil(states / GUESSED_BY);
  let [state, count] = [0, 0];
  for await (const { features } of rows)
    for (let from = 0; from < features.length; from += P) {
      if (state++ % every > 0) continue;
      count++;
      // of the peers' rewards nothing is looked at: even the search's way would move with the own one
      for (let i = 0; i < P - OF_PEERS; i++)
        z[1 + i] = ((features[from + i] as number) - (mean[i] as number)) / (sd[i] as number);
      for (let i = 0; i < Q; i++)
        for (let j = 0; j <= i; j++)
          sums[i * Q + j] = (sums[i * Q + j] as number) + (z[i] as number) * (z[j] as number);
      for (let i = Q - OF_PEERS; i < Q; i++) sums[i * Q + i] = (sums[i * Q + i] as number) + PEERS_SD;
    }
  const factors = new Map<string, Float64Array>();
  return (start: Float64Array, l2: number | null, traces: number, rough = 1) => {
    const key = `${l2} ${traces}`;
    const first = l2 === null ? 1 + shape.D : 1;
    const isRead = (i: number) => i === 0 || i >= first;
    const factor =
      factors.get(key) ??
      factorise(
        sums.map((sum, at) => {
          const [i, j] = [Math.floor(at / Q), at % Q];
          const ridge = i === j && i > 0 ? (i <= shape.D ? (l2 ?? 1) : L2) : 0;
          return (isRead(i) && isRead(j) ? (CURVATURE * traces * sum) / count : 0) + ridge;
        }),
        Q,
      );
    factors.set(key, factor);
    return new Lbfgs(start, rough * TOLERANCE * traces, (gradient) => solveSymmetric(factor, gradient));
  };
}

function lossOf(
  rows: Float32Array,
  P: number,
  { raw, bias, reward }: RawWeights & { readonly reward: number },
) {
  let loss = 0;
  for (let from = 0; from < rows.length; from += P)
    loss += crossEntropy(bias + dot(rows, from, raw, 0), reward);
  return (loss * P) / rows.length;
}

interface RawWeights {
  readonly raw: Float64Array;
  readonly bias: number;
}

/** Weights of standardised numbers as those of the numbers themselves. @param weights (1 + P) */
function rawWeights(weights: Float64Array, { mean, sd }: Standardisation): RawWeights {
  const raw = mean.map((_, i) => (weights[1 + i] as number) / (sd[i] as number));
  return { raw, bias: mean.reduce((bias, own, i) => bias - own * (raw[i] as number), weights[0] as number) };
}

/**
 * Runs all searches side by side, each pass serving all of them. The penalised sums are of
 * Σ over traces of their mean cross-entropy + Σ λ/2 w², the intercept free.
 */
async function minimise(
  pass: () => AsyncIterable<ProbeTrace>,
  shape: ProbeShape,
  scale: Standardisation,
  models: readonly Model[],
): Promise<void> {
  const P = widthOf(shape);
  for (;;) {
    const active = models
      .filter(({ search }) => !search.hasEnded)
      .map((model) => ({
        ...{ ...model, ...rawWeights(model.search.at, scale), first: model.l2 === null ? shape.D : 0 },
        ...{ loss: 0, errors: 0, gradient: new Float64Array(P) },
      }));
    if (active.length === 0) return;
    for await (const trace of pass()) {
      const rows = probeRows(trace, shape, Float32Array);
      const weight = P / rows.length;
      for (const own of active) {
        if (own.left.includes(trace.place.fold)) continue;
        for (let from = 0; from < rows.length; from += P) {
          const logit = own.bias + dot(rows, from, own.raw, own.first);
          own.loss += weight * crossEntropy(logit, trace.reward);
          const error = weight * (sigmoid(logit) - trace.reward);
          own.errors += error;
          addTo(own.gradient, rows, from, error, own.first);
        }
      }
    }
    for (const { search, l2, loss, errors, gradient, first } of active) {
      const full = new Float64Array(1 + P);
      full[0] = errors;
      let penalty = 0;
      for (let i = first; i < P; i++) {
        const [w, own] = [search.at[1 + i] as number, i < shape.D ? (l2 as number) : L2];
        penalty += (own / 2) * w * w;
        full[1 + i] =
          ((gradient[i] as number) - (scale.mean[i] as number) * errors) / (scale.sd[i] as number) + own * w;
      }
      search.take(loss + penalty, full);
    }
  }
}

// ------ by far the most time is spent inside these two

/** Σ_i x[at + i] w[i], i from `first` on: four sums at a time do not wait for each other. */
function dot(x: Float32Array, at: number, w: Float64Array, first: number): number {
  let [a, b, c, d] = [0, 0, 0, 0];
  let i = first;
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

/** Gathers the values of right and wrong traces at three places. @param P numbers of a state */
function openRanks(P: number) {
  const seen = { start: [], middle: [], end: [] } as Record<keyof Auc, [value: number, isRight: boolean][]>;
  return {
    see(value: number, k: number, { features, reward }: FitTrace): void {
      const last = features.length / P - 1;
      const places = { start: 0, middle: Math.floor(last / 2), end: last };
      for (const [name, at] of Object.entries(places))
        if (at === k) seen[name as keyof Auc].push([value, reward > CORRECT]);
    },
    auc: (): Auc => ({
      start: areaUnder(seen.start),
      middle: areaUnder(seen.middle),
      end: areaUnder(seen.end),
    }),
  };
}

/** By ranks: of equal values each counts as their mean. @returns null where all are right, or none */
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
