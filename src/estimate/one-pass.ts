// Estimators that ask for nothing but the one pass of the policy: the references' log-probabilities read in several ways, the tokens' own, and values of the row.

import type { Nature, StoredReferences } from '../credit/nature.js';
import { TraceRejected, usageError } from '../errors.js';
import type { Estimator, EstimatorSetup, FlagValues } from './estimator.js';
import { atOnce } from './module-place.js';
import { contrast, logSumExp, stateValues, summedAttributions, utilitiesOf, weighted } from './value.js';

/** Σ_n ζ_n · exp(Σ_i log p(y_n,i)): METHOD eq. (3) with u empty. */
function rightNow(referenceSet: StoredReferences): number {
  return weighted(referenceSet).reduce((total, logWeight) => total + Math.exp(logWeight), 0);
}

/** `pr`, the default: the probability of giving a reference answer if the policy had to answer there. */
export const pr: Estimator = {
  name: 'pr',
  scores: 'answers',
  fromStored: rightNow,
  card: 'the probability of the reference answer, if the policy had to answer there',
};

/** max_n ζ_n · mean_i p(y_n,i): RLPR's reading. @param logprobs (N) of each reference's tokens */
function arithmeticMean(logprobs: readonly Float32Array[], utilities: Float32Array): number {
  const means = logprobs.map((own) => own.reduce((total, lp) => total + Math.exp(lp), 0) / own.length);
  return means.reduce((best, mean, n) => Math.max(best, (utilities[n] as number) * mean), 0);
}

export const prMean: Estimator = {
  name: 'pr-mean',
  scores: 'answers',
  // the mean of token probabilities does not follow from their product, which is what a row stores
  fromTokens: arithmeticMean,
  card: 'the mean token probability of the reference answer, if the policy had to answer there',
};

/** max_n ζ_n · exp(mean_i log p(y_n,i)) */
function geometricMean({ logprobs, tokens, utilities }: StoredReferences): number {
  return logprobs.reduce(
    (best, lp, n) => Math.max(best, (utilities[n] as number) * Math.exp(lp / (tokens[n] as number))),
    0,
  );
}

export const prGeo: Estimator = {
  name: 'pr-geo',
  scores: 'answers',
  fromStored: geometricMean,
  card: 'the geometric mean of the token probabilities of the reference answer, if the policy had to answer there',
};

const joint: Estimator = {
  name: 'joint',
  scores: 'continuations',
  // log Σ_n ζ_n · p(u_n, y_n | s): METHOD eq. (3) in full
  fromStored: (referenceSet) => logSumExp(weighted(referenceSet)),
  isLog: true,
  hasOwnScale: true,
  noLevel: 'logarithms',
  valueName: 'log v̂',
  card: 'the log-probability of the reference solution and answer as the continuation',
};

const { hasOwnScale: _, ...ofJoint } = joint;

const jointLog: Estimator = {
  ...ofJoint,
  name: 'joint-log',
  card: 'the log-probability of the reference solution and answer as the continuation; differences are of the logarithm',
};

export const snis: Estimator = {
  name: 'snis',
  scores: 'answers',
  isContrast: true,
  fromStored: contrast,
  card: 'the share of right answers in the probability of all in the reference set, if the policy had to answer there',
};

/** Those that read the references' log-probabilities, the default first. */
export const OF_REFERENCES: readonly Estimator[] = [pr, prMean, prGeo, joint, jointLog, snis];

export const given: Estimator = {
  name: 'given',
  scores: 'nothing',
  onRewardScale: true,
  isOfRow: true,
  card: 'values that the input brought along',
  of({ trace: { values }, exits }) {
    const refuse = (what: string) => new TraceRejected('values', what);
    if (values === undefined)
      throw refuse(
        'no list of finite numbers in the row, expected one for every exit point, for --estimator given: --map values=<path> takes it from another column, or tells what is wrong with this one',
      );
    if (values.length !== exits.length)
      throw refuse(
        `values has ${values.length} entries, the trace has ${exits.length} exit points, expected as many: --segmenter given cuts it where the values were taken (--map segment_ends=<path>)`,
      );
    // on another scale V(s_0) as the baseline would turn the sign of R* round
    const outside = values.findIndex((value) => !(value >= 0 && value <= 1));
    if (outside >= 0)
      throw refuse(
        `values[${outside}] is ${values[outside]}, expected 0 to 1, an expected reward on the scale onto which --reward-range maps rewards`,
      );
    return values;
  },
};

/**
 * a_k = −min log π(o_t) over the tokens of segment k, and 0 where that is below: a log-probability may be above 0 by rounding.
 * @param logprobs (T) nats
 * @param ends (K) of the thought segments, exclusive
 * @returns (K+1) nats, as they are stored
 */
export function surpriseValues(logprobs: Float32Array, ends: Int32Array): Float32Array {
  const attributions = Float64Array.from(ends, (end, k) => {
    const own = logprobs.subarray(k === 0 ? 0 : ends[k - 1], end);
    return -own.reduce((least, logprob) => Math.min(least, logprob), 0);
  });
  return summedAttributions(attributions);
}

export const surprise: Estimator = {
  name: 'surprise',
  scores: 'nothing',
  isAttribution: true,
  isMagnitude: true,
  noLevel: 'sums of attributions',
  valueName: 'Σa',
  fromLogprobs: surpriseValues,
  card: 'no value: what the segments so far count for, each by the negative log-probability of its least likely token',
  of: ({ logprobs, ends }) => surpriseValues(logprobs, ends),
};

/** Values that follow from the references' log-probabilities alone. */
export function ofReferences(nature: Nature): EstimatorSetup {
  return {
    open: () => ({
      values: (trace, { branches }) => ({ values: stateValues(branches, utilitiesOf(trace), nature) }),
    }),
  };
}

/** Values that an estimator makes of what the pass has seen. @throws RredcotError (exit 2) where it makes not one for each exit */
export function ofSeen(
  name: string,
  of: NonNullable<Estimator['of']>,
  flags: FlagValues,
): Pick<EstimatorSetup, 'open'> {
  return {
    open: () => ({
      values(job, { logprobs, entropies, segmentation, branches }) {
        const { exits, thoughtEnds: ends } = segmentation;
        const { trace } = job;
        const read = { trace, logprobs, entropies, exits, ends, branches, utilities: utilitiesOf(job) };
        const values = Float32Array.from(atOnce(`--estimator ${name}: of`, of(read, flags)) ?? []);
        if (values.length !== exits.length || values.some(Number.isNaN))
          throw usageError(
            `--estimator ${name} gave ${values.length} values (${values.join(', ')}) for the trace ${JSON.stringify(trace.id)}, expected ${exits.length} numbers`,
            'one for each exit point',
          );
        return { values };
      },
    }),
  };
}
