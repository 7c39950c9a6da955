// `calibrated`: the probability of winning by going on, fitted to rewards by `rredcot calibrate`.
import { storedModel } from '../estimate/calibrated/calibration.js';
import { calibratedValues } from '../estimate/calibrated.js';
import { traceValues } from '../estimate/value.js';
import { CALIBRATION, calibrationFacts, givenCalibration } from './calibration-flag.js';
import type { Estimator } from './estimator.js';
import { ofReferences, perTrace, utilitiesOf } from './one-pass.js';
import { pr } from './pr.js';

export const calibrated: Estimator = {
  name: 'calibrated',
  scores: 'answers',
  onRewardScale: true,
  card: 'the probability of winning by going on, from the probability of the reference answer there and the surprise of the thought so far, fitted to rewards',
  creditFlags: [CALIBRATION],
  configKeys: ['calibration'],
  stored({ calibration }) {
    const model = storedModel(calibration);
    return model && (model.stands_back === null ? calibrated : pr);
  },
  async ask(values) {
    const calibration = await givenCalibration(calibrated.name, values);
    const { model, ...facts } = calibrationFacts(calibration);
    if (calibration.standsBack) {
      const { open } = ofReferences(pr);
      return { ...facts, nature: pr, open: async (scene) => ({ ...(await open(scene)), config: model }) };
    }
    return {
      ...facts,
      open: () => ({
        config: model,
        start: () => ({
          values: perTrace((job, result) => {
            const utilities = utilitiesOf(job);
            const found = traceValues(result.branches, utilities, pr);
            return calibratedValues(found, job.trace, result, utilities, calibration);
          }),
        }),
      }),
    };
  },
};
