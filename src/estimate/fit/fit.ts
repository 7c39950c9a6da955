// Fits a logistic regression of a trace's reward on what is known of its states (METHOD §3): the values scored there and the thought so far; of a probe also the policy's hidden state and the rewards of the trace's peers. Cross-fitted by group.
import { setImmediate } from 'node:timers/promises';
import { fromFloat16 } from '../../model/onnx/float16.js';
import { FEATURES_OF, type FitKind } from '../states.js';
import { type FitTrace, minimise, openFit, type Ridge, type Sample, STANDS_BACK } from './cross-fit.js';
import { FOLDS } from './groups.js';
import { crossEntropy, logitOf } from './logistic.js';

/** What is known of a trace's states. */
export interface Known {
  /** ((K+1)·F) */
  readonly features: Float64Array;
  /** ((K+1)·D) float16; of a probe */
  readonly states?: Uint16Array;
  /** {@link peersFeature}; of a probe */
  readonly peers?: number;
}

/** What is done before each pass over the traces. */
export type Between = () => Promise<void>;

/** One trace of a fit. */
export type KnownTrace = FitTrace & Known;

/** A reward about which nothing is known. */
export const MIDDLE = 0.5;
/** How far it is from the middle, for a mean of so many peers' rewards and one in the middle; 0 without any. The own reward is not in it. */
export function peersFeature(mean: number | undefined, peers = 0): number {
  return mean === undefined ? 0 : (mean * peers + MIDDLE) / (peers + 1) - MIDDLE;
}
/** What that becomes: at the start, fading, and all along. What stands for their spread. */
export const [OF_PEERS, PEERS_SD] = [3, 0.3];

/** λ of all but hidden states; the largest entry of the gradient, a trace, at which a search ends; spreads that are not measured. */
const OF_VALUES = { l2: 1, tolerance: 1e-11, given: [] };
// closer changed values by less than 1e-4
const OF_PROBE = { l2: 10, tolerance: 1e-4, given: Array<number>(OF_PEERS).fill(PEERS_SD) };

/** Variance that hidden states give a logit beforehand: λ of each of D numbers is D over one of these, chosen on groups that were left out. */
const VARIANCES = [0.03, 0.1, 0.3, 1, 3];
/** Numbers in memory at most, by the traces of which λ is chosen. */
const CHOSEN_BY = 2 ** 25;
/** How much earlier than the others these searches may end. */
const ROUGH = 10;

/** Why values are not made of a fit, or not of hidden states. */
export const WHY = {
  ...STANDS_BACK,
  'no-states': 'nobody gave hidden states',
  'no-gain-of-states': 'hidden states say nothing more of groups that it has not seen',
} as const;

/** What was fitted, and how good it is. */
export type Fit = Awaited<ReturnType<typeof fitStates>>;

/**
 * @param pass the traces, in the same order at every call
 * @param D numbers of a hidden state; 0: without
 * @param between is awaited before each pass, and may end the fit by an error
 * @returns uses: what values are made of; `now`: they stay as they are
 */
export async function fitStates(
  pass: () => AsyncIterable<KnownTrace>,
  kind: FitKind,
  D: number,
  between: Between = async () => {},
) {
  const plain = await openRows(pass, kind, 0, between);
  const { seen, standsBack, width } = plain;
  const none = {
    seen,
    /** numbers of a hidden state that are read */
    hidden: 0,
    /** of each fold, and of all traces; λ of the first number of a state; null where there was nothing to fit */
    ...{ weights: null, l2: null, quality: null },
    /** nats a trace, of folds that were left out */
    ...{ withStates: null, withoutStates: null },
  };
  if (standsBack !== null) return { ...none, uses: 'now', why: standsBack } as const;
  const ridge = { l2: new Float64Array(width).fill(settingsOf(kind).l2) };
  const ofFeatures = await judged(plain, Array(FOLDS + 1).fill(ridge));
  const { calibrated, constant, group_mean, value } = ofFeatures.quality.log_loss;
  const others = [constant, value, kind === 'probe' ? group_mean : null].filter((loss) => loss !== null);
  const least = Math.min(...others);
  const full = D === 0 ? undefined : await openRows(pass, kind, D, between);
  const ofStates = full && (await judged(full, await chosenRidges(full, D, between)));
  const withStates = ofStates?.quality.log_loss.calibrated ?? null;
  const compared = { ...none, withStates, withoutStates: calibrated };
  if (ofStates && (withStates as number) < Math.min(least, calibrated))
    return { ...compared, ...ofStates, hidden: D, uses: 'states', why: null } as const;
  if (!(calibrated < least)) return { ...compared, ...ofFeatures, uses: 'now', why: 'no-gain' } as const;
  const why = D === 0 ? 'no-states' : 'no-gain-of-states';
  return { ...compared, ...ofFeatures, uses: 'features', why: kind === 'probe' ? why : null } as const;
}

const settingsOf = (kind: FitKind) => (kind === 'probe' ? OF_PROBE : OF_VALUES);

type RowFit = Awaited<ReturnType<typeof openRows>>;

/** A fit to rows of D numbers and what is beside them. */
async function openRows(pass: () => AsyncIterable<KnownTrace>, kind: FitKind, D: number, between: Between) {
  async function* rows(): AsyncGenerator<FitTrace> {
    await between();
    let n = 0;
    for await (const trace of pass()) {
      // others have a turn: states may take long where they are read
      if (++n % 64 === 0) await setImmediate();
      yield { ...trace, features: fitRows(trace, kind, D) };
    }
  }
  const settings = settingsOf(kind);
  const width = D + FEATURES_OF[kind].length + settings.given.length;
  return { ...(await openFit(rows, width, settings)), width, valueAt: kind === 'none' ? undefined : D + 1 };
}

/** Weights, and how good these are. */
async function judged({ weights: weightsOf, assessed, seen, valueAt }: RowFit, ridges: readonly Ridge[]) {
  const weights = await weightsOf(ridges);
  return { seen, weights, l2: ridges[FOLDS]?.l2[0] ?? null, quality: await assessed(weights, valueAt) };
}

const NONE = new Uint16Array(0);

/** ((K+1)·P) a trace's states as rows: hidden state, features, what is known of its peers. @param D of a hidden state as far as it is read: 0 or all of it */
export function fitRows(
  { states = NONE, features, peers = 0 }: Known,
  kind: FitKind,
  D: number,
): Float64Array {
  if (kind !== 'probe') return features;
  const F = FEATURES_OF[kind].length;
  const [K1, P] = [features.length / F, D + F + OF_PEERS];
  const rows = new Float64Array(K1 * P);
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
async function chosenRidges(
  { samples, search, seen, width: P }: RowFit,
  D: number,
  between: Between,
): Promise<readonly Ridge[]> {
  const kept: Sample[] = [];
  const share = (2 ** 32 * CHOSEN_BY) / (seen.states * D);
  for await (const sample of samples()) if (sample.place.mark < share) kept.push(sample);
  async function* again() {
    await between();
    yield* kept;
  }
  const folds = Array.from({ length: FOLDS }, (_, f) => f);
  const pairs = folds.flatMap((f) => folds.slice(0, f).map((g) => [g, f] as const));
  const none: Ridge = { l2: new Float64Array(P).fill(OF_PROBE.l2) };
  const best = [...folds, FOLDS].map(() => ({ loss: Number.POSITIVE_INFINITY, ridge: none }));
  let starts: Float64Array[] = [];
  for (const variance of VARIANCES) {
    const l2 = new Float64Array(P).fill(D / variance, 0, D).fill(OF_PROBE.l2, D);
    const begun = pairs.map((_, n) =>
      search({ l2, ...(starts[n] && { start: starts[n] }) }, kept.length, ROUGH),
    );
    const searches = await Promise.all(begun);
    await minimise(
      again,
      searches.map((search, n) => ({ left: pairs[n] ?? [], l2, search })),
    );
    starts = searches.map(({ at }) => at);
    const losses = new Float64Array(FOLDS + 1);
    for (const { z, reward, place } of kept)
      for (const [n, pair] of pairs.entries()) {
        if (!pair.includes(place.fold)) continue;
        let loss = 0;
        for (let from = 0; from < z.length; from += P)
          loss += (crossEntropy(logitOf(starts[n] as Float64Array, z, from), reward) * P) / z.length;
        for (const fold of [...pair, FOLDS])
          if (fold !== place.fold) losses[fold] = (losses[fold] as number) + loss;
      }
    for (const [fold, own] of best.entries())
      if ((losses[fold] as number) < own.loss) {
        const start = starts[pairs.findIndex((pair) => fold === FOLDS || pair.some((f) => f === fold))];
        Object.assign(own, { loss: losses[fold], ridge: { l2, start } });
      }
  }
  return best.map(({ ridge }) => ridge);
}
