// `ratio`: how much likelier the policy writes a segment than an older one of its checkpoints does, by a pass of that over the trace.
import { isDeepStrictEqual } from 'node:util';
import { usageError } from '../errors.js';
import type { PolicyFolder } from '../model/onnx/folder.js';
import type { ReaderAnswers } from '../question.js';
import type { Estimator, LoadContext, OpenEstimator } from './estimator.js';
import { listColumn, noReferences, summedAttributions } from './value.js';

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
    listColumn('ref_logprobs', 'log-probability of each completion token under the older policy, nats'),
  ],
  setUp({ refPolicy: folder }) {
    if (typeof folder !== 'string')
      throw usageError(
        '--estimator ratio needs an older policy, which its tokens are compared with',
        '--ref-policy <folder>; rredcot policy build makes one of a checkpoint',
      );
    return {
      async open(context): Promise<OpenEstimator> {
        const { secondConfig } = await import('./second-policy.js');
        const older = await openOlder(folder, context);
        return {
          config: { refPolicy: secondConfig(older) },
          second: { model: older, name: OLDER.name },
          ask(trace) {
            older.check(trace, []);
            return { atExits: [], second: {} };
          },
          values(_, { logprobs, segmentation, second }) {
            const reference = (second as ReaderAnswers).logprobs;
            return {
              values: ratioValues(logprobs, reference, segmentation.thoughtEnds),
              columns: { ref_logprobs: reference },
              ...noReferences(segmentation.exits.length),
            };
          },
          [Symbol.asyncDispose]: () => older[Symbol.asyncDispose](),
        };
      },
    };
  },
};

const OLDER = { name: 'older policy', code: 'ref', flag: '--ref-policy' } as const;

/**
 * Opens the folder of an older checkpoint.
 * @throws RredcotError as `openSecond`; exit 2 also for the policy's own weights, and for a token that the two spell otherwise
 */
async function openOlder(path: string, context: LoadContext) {
  const { openSecond, tokenText } = await import('./second-policy.js');
  const older = await openSecond(path, context, OLDER);
  const refuse = (what: string) =>
    usageError(`${OLDER.flag} ${path}: ${what}`, `${OLDER.flag} <an older checkpoint of the same policy>`);
  if (isDeepStrictEqual(weightsOf(context.policy), weightsOf(older.policy)))
    throw refuse('has the weights of the policy itself (sha256), so every value would be 0');
  const both = Math.min(context.policy.architecture.vocab, older.policy.architecture.vocab);
  for (let id = 0; id < both; id++) {
    const [own, its] = [tokenText(context.tokenizer, id), tokenText(older.tokenizer, id)];
    if (own !== its) throw refuse(`token ${id} is ${own} for the policy and ${its} for the older one`);
  }
  return older;
}

/** Hashes of its weights, whatever their files are called. */
function weightsOf({ files }: Pick<PolicyFolder, 'files'>): string[] {
  const weights = Object.entries(files).filter(([name]) => /\.(safetensors|onnx\.data)$/.test(name));
  return weights.map(([, sha256]) => sha256).sort();
}

/**
 * a_k = Σ_{t in segment k} log π(o_t) − log π_ref(o_t), summed in float64; segment 1 begins at token 0.
 * @param logprobs (T) nats
 * @param reference (T) nats, by the older policy
 * @param ends (K) of the thought segments, exclusive
 * @returns (K+1) nats, as they are stored
 */
function ratioValues(logprobs: Float32Array, reference: Float32Array, ends: Int32Array): Float32Array {
  let t = 0;
  const attributions = Float64Array.from(ends, (end) => {
    let sum = 0;
    for (; t < end; t++) sum += (logprobs[t] as number) - (reference[t] as number);
    return sum;
  });
  return summedAttributions(attributions);
}
