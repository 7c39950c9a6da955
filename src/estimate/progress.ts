// `progress`: values under another policy, the prover, whose answers at the same exits say how far each step gets it (the second framework).
import type { Nature, StoredReferences } from '../credit/nature.js';
import { usageError } from '../errors.js';
import { oneOf, positiveInteger } from '../flag-values.js';
import type { ReaderAnswers } from '../question.js';
import type { Estimator, OpenEstimator } from './estimator.js';
import { pr, prGeo, prMean, snis } from './one-pass.js';
import { referenceSetMaker } from './references.js';
import { stateValues, utilitiesOf } from './value.js';

/** How a prover values a state: as those do that score answers. */
const READINGS: readonly Nature[] = [pr, prMean, prGeo, snis];
const NAMES = READINGS.map(({ name }) => name);
/** Those whose values are probabilities, so that the best of K answers has one too. */
const OF_BEST: readonly Nature[] = [pr, snis];

export const progress: Estimator = {
  name: 'progress',
  scores: 'answers',
  isOfProver: true,
  fromStored: pr.fromStored,
  config: { proverEstimator: pr.name },
  card: 'the probability of the reference answer if another policy, the prover, had to answer there (`proverEstimator` says how that is read, `bestOf` of how many answers one has to be right)',
  creditFlags: [
    [
      '--prover-estimator <name>',
      `of --estimator progress, how the prover values a state: ${NAMES.join('|')} (default: pr)`,
    ],
    [
      '--best-of <k>',
      `of --estimator progress: the best of k answers of the prover, for ${OF_BEST.map(({ name }) => name).join(' and ')} (default: 1)`,
    ],
  ],
  flags: [
    [
      '--prover <folder>',
      'of --estimator progress, which needs it: the policy folder under which states are valued (default: none)',
    ],
  ],
  withFlags({ proverEstimator = 'pr', bestOf = '1' }) {
    const name = oneOf('--prover-estimator', String(proverEstimator), NAMES);
    const reading = READINGS.find((each) => each.name === name) as Nature;
    const best = positiveInteger('--best-of', String(bestOf), 4);
    if (best > 1 && !OF_BEST.includes(reading))
      throw usageError(
        `--best-of ${best}: the values of --prover-estimator ${name} are no probabilities`,
        `--prover-estimator ${OF_BEST.map((each) => each.name).join('|')}, or leave it out`,
      );
    return { ...progress, ...facts(reading, best) };
  },
  stored({ proverEstimator, bestOf = 1 }) {
    const reading = READINGS.find(({ name }) => name === proverEstimator);
    return reading && typeof bestOf === 'number' ? { ...progress, ...facts(reading, bestOf) } : undefined;
  },
  setUp({ prover: folder }, _, nature) {
    if (typeof folder !== 'string')
      throw usageError(
        '--estimator progress needs a prover, another policy under which states are valued',
        '--prover <policy folder>; rredcot policy build makes one of a checkpoint',
      );
    return {
      async open(context): Promise<OpenEstimator> {
        const { openSecond, secondConfig } = await import('./second-policy.js');
        const prover = await openSecond(folder, context, PROVER);
        const { policy, tokenizer } = prover;
        return {
          config: { prover: secondConfig(prover) },
          referenceSetOf: await referenceSetMaker(policy.exitTemplate, nature, tokenizer.encode),
          second: { model: prover, name: PROVER.name },
          ask(trace) {
            prover.check(trace, trace.continuations);
            return { atExits: [], second: { atExits: trace.continuations } };
          },
          values(trace, { second }) {
            const { branches } = second as ReaderAnswers;
            return { values: stateValues(branches, utilitiesOf(trace), nature), branches };
          },
          [Symbol.asyncDispose]: () => prover[Symbol.asyncDispose](),
        };
      },
    };
  },
};

const PROVER = { name: 'prover', code: 'prover', flag: '--prover' } as const;

/** What a reading makes of it. @param bestOf K: values are the probability that one of K answers is right, 1 − (1 − v)^K */
function facts({ name, isContrast, fromStored, fromTokens }: Nature, bestOf: number) {
  const best =
    fromStored &&
    ((referenceSet: StoredReferences) => 1 - Math.max(0, 1 - fromStored(referenceSet)) ** bestOf); // rounding may have taken a probability beyond 1
  return {
    ...(isContrast && { isContrast }),
    ...(fromTokens && { fromTokens }),
    fromStored: bestOf === 1 ? fromStored : best,
    config: { proverEstimator: name, ...(bestOf > 1 && { bestOf }) },
  };
}
