// `ratio`: how much likelier the policy writes a segment than an older one of its checkpoints does, by a pass of that over the trace.
import { usageError } from '../errors.js';
import { FLOAT32_LIST, requestedColumn } from '../io/arrow/output-columns.js';
import { type Estimator, secondModel } from './estimator.js';
import { noReferences, ratioValues } from './value.js';

export const ratio: Estimator = {
  name: 'ratio',
  scores: 'nothing',
  isAttribution: true,
  noLevel: 'sums of attributions',
  valueName: 'Σa',
  card: 'no value: what the segments so far count for, each by the sum of its log-probabilities less those under an older policy (`refPolicy`)',
  flags: [
    [
      '--ref-policy <folder>',
      'of ratio, which needs it: folder of an older checkpoint of the policy, with the same tokenizer (default: none)',
    ],
  ],
  configKeys: ['refPolicy'],
  columns: () => [
    requestedColumn(
      'ref_logprobs',
      FLOAT32_LIST,
      'log-probability of each completion token under the older policy, nats',
    ),
  ],
  ask({ refPolicy: folder }) {
    if (typeof folder !== 'string')
      throw usageError(
        '--estimator ratio needs an older policy, which its tokens are held against',
        '--ref-policy <folder>; rredcot policy build makes one of a checkpoint',
      );
    return {
      async open({ tokenizer, policy: own, choice, signal }) {
        const { openOlder, proverConfig, readAgain } = await import('./prover.js');
        const older = await openOlder(folder, { policy: own, tokenizer }, { device: choice, signal });
        return {
          config: { refPolicy: proverConfig(older) },
          prepare({ tokens }) {
            older.check(tokens, []);
            return {};
          },
          ...secondModel(older, 'older policy', (pass) => (scored) => {
            return readAgain(scored, pass, 'the older policy', ({ logprobs, segmentation }, found) => ({
              values: ratioValues(logprobs, found.logprobs, segmentation.thoughtEnds),
              columns: { ref_logprobs: found.logprobs },
              ...noReferences(segmentation.exits.length),
            }));
          }),
        };
      },
    };
  },
};
