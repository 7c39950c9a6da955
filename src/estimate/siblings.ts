// `siblings`: the probability of winning by going on, from the outcomes of the trace's mates, weighed by how well their tails fit its states.
import { positiveInteger } from '../flag-values.js';
import {
  CALIBRATION,
  calibratedValues,
  calibrationFacts,
  givenCalibration,
  noValues,
  ofBase,
} from './calibrated.js';
import { storedModel } from './calibration.js';
import type { Estimator } from './estimator.js';
import { farMates } from './far-mates.js';
import type { WithMates } from './mates.js';
import { perTrace } from './one-pass.js';
import { SIBLING_COLUMNS, siblingConfig, siblingValues } from './sibling-values.js';
import { refuseLate, refuseStream, withMates } from './with-mates.js';

/** Measured: docs/fidelity.md. */
const DEFAULTS = { mates: 3, mateTokens: 40 };

export const siblings: Estimator = {
  name: 'siblings',
  scores: 'answers',
  onRewardScale: true,
  hasOutcome: true,
  card: "the probability of winning by going on, from the outcomes of the trace and of its group's most similar completions, weighted by how likely their next tokens are there",
  creditFlags: [CALIBRATION],
  flags: [
    ['--mates <n>', `of siblings: mates a trace, the most similar of its group (default: ${DEFAULTS.mates})`],
    [
      '--mate-tokens <n>',
      `of siblings: tokens of a mate's tail that are scored (default: ${DEFAULTS.mateTokens})`,
    ],
  ],
  configKeys: [...Object.keys(siblingConfig(DEFAULTS)), 'calibration'],
  columns: () => SIBLING_COLUMNS,
  withFlags: ({ calibration }) => (calibration === NO_CALIBRATION ? FROM_OUTCOMES.nature : siblings),
  stored({ calibration }) {
    if (calibration === NO_CALIBRATION) return ofBase(UNFITTED, { estimator: 'none' });
    const model = storedModel(calibration);
    return model && ofBase(model.stands_back === null ? siblings : UNFITTED, model);
  },
  async ask(values, call) {
    const calibration =
      values.calibration === NO_CALIBRATION ? undefined : await givenCalibration(siblings.name, values);
    const { open, ...facts } = calibration ? calibrationFacts(calibration, siblings, call) : FROM_OUTCOMES;
    refuseLate('--estimator siblings', call.segments);
    refuseStream(siblings.name, call.inputs);
    const count = (name: keyof typeof DEFAULTS, flag: string): number =>
      positiveInteger(flag, String(values[name] ?? DEFAULTS[name]), DEFAULTS[name]);
    const opts = { mates: count('mates', '--mates'), mateTokens: count('mateTokens', '--mate-tokens') };
    return {
      ...facts,
      ...(calibration?.standsBack && { nature: ofBase(UNFITTED, calibration.model) }),
      config: siblingConfig(opts),
      readsMates: true,
      open: async (scene) => ({
        ...(await open(scene)),
        async start({ window, whole }) {
          const { policy, log, signal } = scene;
          const far = await farMates(whole, window, log, signal);
          return {
            together: (windows) => withMates(windows, far?.mates, opts, policy.architecture.maxTokens),
            values: perTrace((job, result, needed) => {
              const prior = calibration
                ? calibratedValues(job, result, calibration)
                : noValues(result.segmentation.exits.length);
              const mated = job as typeof job & Partial<WithMates>;
              // what is made of the thought alone is always there
              const hasPrior = calibration?.model.estimator === 'none' || prior.referenceTokens.length > 0;
              return siblingValues(prior, result, mated, needed, opts, hasPrior);
            }),
            [Symbol.asyncDispose]: async () => far?.[Symbol.asyncDispose](),
          };
        },
      }),
    };
  },
};

/** In the place of a calibration: values from outcomes alone, which no reference and no fit has a say in. */
const NO_CALIBRATION = 'none';

/** Its facts where no calibration counts: nothing has put values on the reward's scale. */
const { onRewardScale: _, ...UNFITTED } = siblings;

const FROM_OUTCOMES = {
  nature: ofBase(UNFITTED, { estimator: 'none' }),
  status: ['value:outcomes'],
  open: async () => ({ config: { calibration: NO_CALIBRATION } }),
};
