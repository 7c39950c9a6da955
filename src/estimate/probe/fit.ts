// Fits the probe: a logistic regression of a trace's reward on its states (the policy's hidden state there, what `calibrated` knows, the mean reward of its peers), cross-fitted by group (METHOD §3).
import { fromFloat16 } from '../../model/onnx/float16.js';
import { type FitTrace, minimise, openFit, type Ridge, type Sample } from '../fit/cross-fit.js';
import { FOLDS } from '../fit/groups.js';
import { crossEntropy, logitOf } from '../fit/logistic.js';
import { FEATURES_OF } from '../states.js';

/** One trace of a fit: K+1 states of D numbers and F features. */
export interface ProbeTrace extends FitTrace {
  /** ((K+1)·D) float16 */
  readonly states: Uint16Array;
  /** {@link peersFeature} */
  readonly peers: number;
}

const F = FEATURES_OF.probe.length;

/** A reward about which nothing is known. */
export const MIDDLE = 0.5;
/** How far it is from the middle, for a mean of so many peers' rewards and one in the middle; 0 without any. The own reward is not in it. */
export function peersFeature(mean: number | undefined, peers = 0): number {
  return mean === undefined ? 0 : (mean * peers + MIDDLE) / (peers + 1) - MIDDLE;
}
/** What that becomes: at the start, fading, and all along. What stands for their spread. */
export const [OF_PEERS, PEERS_SD] = [3, 0.3];

/** λ of all but hidden states. */
const L2 = 10;
/** Variance that hidden states give a logit beforehand: λ of each of D numbers is D over one of these, chosen on groups that were left out. */
const VARIANCES = [0.03, 0.1, 0.3, 1, 3];
/** Numbers in memory at most, by the traces of which λ is chosen. */
const CHOSEN_BY = 2 ** 25;
/** How much earlier than the others these searches may end. */
const ROUGH = 10;
const OPTIONS = {
  // closer changed values by less than 1e-4
  tolerance: 1e-4,
  given: Array<number>(OF_PEERS).fill(PEERS_SD),
};

export type ProbeFit = Awaited<ReturnType<typeof fitProbe>>;

/** @param pass the traces, in the same order at every call @param D numbers of a hidden state; 0: without */
export async function fitProbe(pass: () => AsyncIterable<ProbeTrace>, D: number) {
  const plain = await openRows(pass, 0);
  const none = { ...{ hidden: 0, seen: plain.seen, weights: null, l2: null }, withStates: null };
  if (plain.standsBack !== null)
    return { ...none, withoutStates: null, uses: 'now' as const, why: plain.standsBack };
  const ridge = { l2: new Float64Array(F + OF_PEERS).fill(L2) };
  const ofFeatures = await judged(plain, Array(FOLDS + 1).fill(ridge));
  const withoutStates = ofFeatures.quality;
  const { constant, group_mean, calibrated } = withoutStates.log_loss;
  const least = Math.min(constant, group_mean ?? constant);
  const full = D === 0 ? undefined : await openRows(pass, D);
  const ridges = full && (await chosenRidges(full, D));
  const ofStates = ridges && (await judged(full, ridges));
  const judgement = { ...none, withoutStates, withStates: ofStates?.quality ?? null };
  if (ofStates && ofStates.quality.log_loss.calibrated < Math.min(least, calibrated)) {
    const { seen } = full;
    const l2 = ridges[FOLDS]?.l2[0] ?? null;
    return {
      ...judgement,
      weights: ofStates.weights,
      uses: 'states' as const,
      why: null,
      hidden: D,
      seen,
      l2,
    };
  }
  if (!(calibrated < least)) return { ...judgement, uses: 'now' as const, why: 'no-gain' as const };
  const why = D === 0 ? ('no-states' as const) : ('no-gain-of-states' as const);
  return { ...judgement, weights: ofFeatures.weights, uses: 'features' as const, why };
}

type RowFit = Awaited<ReturnType<typeof openRows>>;

/** A fit to rows of D numbers and what is beside them. */
function openRows(pass: () => AsyncIterable<ProbeTrace>, D: number) {
  async function* rows(): AsyncGenerator<FitTrace> {
    for await (const trace of pass()) yield { ...trace, features: probeRows(trace, D) };
  }
  return openFit(rows, D + F + OF_PEERS, OPTIONS);
}

/** Weights as they are stored, and how good these are. */
async function judged(fit: RowFit, ridges: readonly Ridge[]) {
  const found = await fit.weights(ridges);
  const weights = found.map((own) => Float64Array.from(Float32Array.from(own)));
  return { weights, quality: await fit.assessed(weights, false) };
}

/** ((K+1)·P) a trace's states as rows: hidden state, features, what is known of its peers. @param D of a hidden state as far as it is read: 0 or all of it */
export function probeRows(
  { states, features, peers }: Pick<ProbeTrace, 'states' | 'features' | 'peers'>,
  D: number,
): Float64Array {
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
async function chosenRidges({ samples, search, seen }: RowFit, D: number): Promise<readonly Ridge[]> {
  const kept: Sample[] = [];
  const share = (2 ** 32 * CHOSEN_BY) / (seen.states * D);
  for await (const sample of samples()) if (sample.place.mark < share) kept.push(sample);
  async function* again() {
    yield* kept;
  }
  const P = D + F + OF_PEERS;
  const folds = Array.from({ length: FOLDS }, (_, f) => f);
  const pairs = folds.flatMap((f) => folds.slice(0, f).map((g) => [g, f] as const));
  const none: Ridge = { l2: new Float64Array(P).fill(L2) };
  const best = [...folds, FOLDS].map(() => ({ loss: Number.POSITIVE_INFINITY, ridge: none }));
  let starts: Float64Array[] = [];
  for (const variance of VARIANCES) {
    const l2 = new Float64Array(P).fill(D / variance, 0, D).fill(L2, D);
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
