// `prm`: the probability that a step is right, by a reward model that reads the segments as steps, or scores what was read.
import { usageError } from '../errors.js';
import { type Estimator, secondModel } from './estimator.js';

export const prm: Estimator = {
  name: 'prm',
  scores: 'nothing',
  noLevel: "a reward model's judgements of steps",
  valueName: 'P(right)',
  card: 'the probability that the step before the exit is right, by a process reward model (`prm`); 1 before the first step. Of an outcome reward model (`score` in `prm`) the logistic of its score at every exit',
  flags: [
    [
      '--prm <folder>',
      'of --estimator prm: folder of the process reward model that judges segments as steps, which it needs; rredcot policy build makes one (default: none)',
    ],
    [
      '--prm-reference',
      "of --estimator prm: the model's prompt has the reference answer in it, by the folder's template",
    ],
  ],
  configKeys: ['prm', 'prmReference'],
  ask({ prm: folder, prmReference: reference = false }) {
    if (typeof folder !== 'string')
      throw usageError(
        '--estimator prm needs a process reward model',
        '--prm <folder>; rredcot policy build makes one of a checkpoint whose head classifies or scores',
      );
    return {
      readsReferences: reference === true,
      async open({ tokenizer, log, choice, signal }) {
        const { openPrm, prmConfig, prmValues } = await import('./reward-model.js');
        const opts = { folder, reference: reference === true };
        const model = await openPrm(opts, tokenizer, { device: choice, signal }, log);
        return {
          config: { prmReference: opts.reference, prm: prmConfig(model) },
          prepare: async ({ given }) => ({ promptIds: await model.promptIds(given) }),
          ...secondModel(model, 'prm', (pass) => (scored) => prmValues(scored, { ...model, ...pass })),
        };
      },
    };
  },
};
