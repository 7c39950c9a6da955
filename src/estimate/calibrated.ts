// `calibrated`: the probability of winning by going on, fitted to rewards by `rredcot calibrate`: V(s) in the place of v̂(s).

import { isDeepStrictEqual } from 'node:util';
import type { Nature } from '../credit/nature.js';
import { usageError } from '../errors.js';
import type { Flag } from '../flag-values.js';
import type { Config } from '../io/write/output.js';
import type { Answers } from '../question.js';
import { isIdle, OWN_KEYS } from '../segment/segmenters.js';
import { compact, ownBefore } from '../trace.js';
import { ask, askedValues } from './ask.js';
import { type Calibration, readCalibration, type ScoredWith, storedModel } from './calibration.js';
import type { Estimator, EstimatorCall, EstimatorSetup, LoadContext, ValueJob } from './estimator.js';
import { type Known, peersFeature } from './fit/fit.js';
import { pr, prGeo } from './one-pass.js';
import { type FitKind, stateFeatures } from './states.js';
import { stateValues, type TraceValues, utilitiesOf } from './value.js';

/** Of the estimators whose values are put on the reward's scale. */
export const CALIBRATION: Flag = [
  '--calibration <file>',
  'what rredcot calibrate has written, for calibrated and siblings, which need it, and for mc and probe; of siblings `none`: values from outcomes alone',
];

/** @throws RredcotError (exit 2) where none is named, or it is none; 65 where it was edited */
export async function givenCalibration(
  name: string,
  calibration: unknown,
  isProbe = false,
): Promise<Calibration> {
  if (calibration !== undefined) return readCalibration(String(calibration), isProbe);
  throw usageError(
    `--estimator ${name} needs a calibration`,
    `rredcot calibrate ${isProbe ? '--probe ' : ''}scored.parquet -o calibration.json, then --calibration calibration.json`,
  );
}

export const calibrated: Estimator = {
  name: 'calibrated',
  scores: 'answers',
  onRewardScale: true,
  card: 'the probability of winning by going on, from the probability of the reference answer there and the surprise of the thought so far, fitted to rewards',
  creditFlags: [CALIBRATION],
  stored({ calibration }) {
    const model = storedModel(calibration);
    return model && (model.uses === 'now' ? NOW[model.estimator] : ofBase(calibrated, model));
  },
  async setUp(values, call) {
    const calibration = await givenCalibration(calibrated.name, values.calibration);
    const { open, ...facts } = calibrationFacts(calibration, calibrated, call);
    return {
      ...facts,
      nature: (calibration.standsBack && NOW[calibration.model.estimator]) || facts.nature,
      open: async (context) => ({
        ...(await open(context)),
        values: (trace, answers) => calibratedValues(trace, answers, calibration),
      }),
    };
  },
};

/** Whose values are calibrated; where nothing was scored a calibration that stands back leaves none. */
const NOW: Readonly<Record<FitKind, Estimator | undefined>> = { pr, ask, none: undefined, probe: pr };

/** An estimator's facts, with what a model needs scored. */
export function ofBase<T extends Nature>(own: T, { estimator }: { readonly estimator: FitKind }): T {
  return { ...own, scores: NOW[estimator]?.scores ?? 'nothing' };
}

/** Status that says what a value was made of, where no reference was. */
const MADE_OF = { pr: [], ask: ['value:asked'], none: ['value:thought'], probe: [] } as const;

/**
 * What an estimator has to say of its calibration; where that stands back, values are as they are.
 * @returns open: what is asked at exit points, where the calibrated values are those of `ask`: the question that these were fitted with
 * @throws RredcotError (exit 2) where it stands back from nothing
 */
export function calibrationFacts(calibration: Calibration, own: Estimator, call: EstimatorCall) {
  const { model, standsBack, file } = calibration;
  const base = model.estimator;
  const askTemplate = file.scored_with?.askTemplate;
  if (standsBack && base === 'none')
    throw usageError(
      `--calibration stands back (${file.why}), and without a reference or a question there is no value to leave as it is`,
      'rredcot calibrate more traces, or --estimator siblings --calibration none',
    );
  return {
    nature: ofBase(own, model),
    status: [...MADE_OF[base], ...(standsBack ? [UNCALIBRATED] : [])],
    warning: (policy, config) => calibrationWarning(calibration, policy, { ...config, askTemplate }),
    async open(context: LoadContext) {
      const setUp = base === 'ask' ? await ask.setUp?.({ askTemplate }, call, ask) : undefined;
      const { referenceSetOf, config } = (await setUp?.open(context)) ?? {};
      return { config: { ...config, calibration: model }, ...(referenceSetOf && { referenceSetOf }) };
    },
  } satisfies Omit<EstimatorSetup, 'open'> & { readonly open: unknown };
}

/** Status where a calibration stands back: the values are those of `pr`, or `ask`. */
export const UNCALIBRATED = 'value:uncalibrated';

/** What of a run's configuration decides where states are, and what their v̂ and ζ mean. */
const SCORED_WITH = ['segmenter', 'maxSegments', ...OWN_KEYS, 'references', 'rewardRange', 'askTemplate'];

/** How a run scores, as far as φ depends on it. @param config the resolved configuration */
export function scoredWith(config: Config): ScoredWith['scored_with'] {
  const keys = isIdle(config.segmenter, 'fixedLength') ? SCORED_WITH : [...SCORED_WITH, 'fixedLength'];
  const all = keys.map((key) => [key, config[key]] as const);
  return Object.fromEntries(all.filter(([, value]) => value !== undefined));
}

/** Why the values that a calibration gives these traces are not to be trusted as they are, as a warning; undefined: they are. */
export function calibrationWarning(
  { file }: Calibration,
  policy: ScoredWith['policy'],
  config: Config,
): string | undefined {
  const what = file.estimator === 'probe' ? 'the probe' : 'the calibration';
  if (file.uses === 'now')
    return `${what} stands back (${file.why}): the values of ${NOW[file.estimator]?.name} stay as they are, status ${UNCALIBRATED}`;
  const warnings = [
    ...(isDeepStrictEqual(file.policy, policy) ? [] : ['by another policy']),
    ...(isDeepStrictEqual(file.scored_with, scoredWith(config)) ? [] : ['with other segments or flags']),
  ];
  if (warnings.length === 0) return undefined;
  return `${what} was fitted to traces that were scored ${warnings.join(' and ')}, or that do not say how: values are off its scale as far as these differ`;
}

/** Values, and whether they are made of anything: where one needs a reference, a trace without has no v̂, and its values stay 0. */
type CalibratedValues = TraceValues & { readonly isMade: boolean };

/** V(s_0..K); v̂ where there is no calibration, or it stands back. @param kind of the calibration that there will be */
export function calibratedValues(
  job: Omit<ValueJob, 'references'>,
  answers: Answers,
  calibration: Calibration | undefined,
  kind = calibration?.file.estimator ?? 'probe',
): CalibratedValues {
  const { branches } = answers;
  const utilities = utilitiesOf(job);
  const nature = NOW[kind];
  const found: TraceValues =
    nature === ask
      ? askedValues(branches, utilities)
      : { values: nature ? stateValues(branches, utilities, nature) : new Float32Array(branches.length) };
  // hidden states need no reference, and a thought tells by itself
  const isMade = kind === 'probe' || kind === 'none' || utilities.length > 0;
  if (calibration === undefined || calibration.standsBack || !isMade) return { ...found, isMade };
  const values = calibration.values(job.trace, knownOf(job, { ...answers, ...found }, kind));
  return { ...found, values, isMade };
}

/** What is known of a trace's states: of the policy's own tokens, what was scored there, and of its peers. */
export function knownOf(
  job: Omit<ValueJob, 'references'>,
  { values, branches, segmentation, logprobs, entropies, states }: Answers & TraceValues,
  kind: FitKind,
): Known {
  const { own } = job.tokens;
  const before = own && ownBefore(own);
  const seen = {
    ...{ values, geoValues: stateValues(branches, utilitiesOf(job), prGeo) },
    ends: segmentation.thoughtEnds.map((end) => before?.[end] ?? end),
    ...{ logprobs: compact(logprobs, own), entropies: compact(entropies, own) },
  };
  const peers = peersFeature(job.peersMean, job.peersCount);
  return { features: stateFeatures(seen, kind), peers, ...(states && { states }) };
}
