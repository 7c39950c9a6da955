// `distill`: how much likelier a teacher is to write each token than the policy that wrote it (arXiv 2605.07865).
import { TOKEN_ADVANTAGE } from '../credit/requested.js';
import { usageError } from '../errors.js';
import type { Estimator } from './estimator.js';
import type { TaughtAnswers } from './teacher.js';
import { listColumn, noReferences, summedAttributions } from './value.js';

export const distill: Estimator = {
  name: 'distill',
  scores: 'nothing',
  isAttribution: true,
  noLevel: 'sums of attributions',
  valueName: 'Σa',
  card: "no value: what the segments so far count for, each by the sum of its tokens' `token_advantage`: how much likelier a teacher (`teacher`) is to write them than the policy, less what that is in the mean",
  columns: () => [
    listColumn(
      TOKEN_ADVANTAGE,
      'log π_T − log π of each token plus KL(π ‖ π_T): 0 in the mean; no σ, not return-equivalent',
    ),
  ],
  setUp({ teacher }) {
    if (teacher === undefined)
      throw usageError(
        '--estimator distill needs a teacher, which reads what the policy wrote',
        '--teacher <policy folder>, which rredcot policy build makes of a checkpoint, or the address of a server',
      );
    return {
      open: () => ({
        ask: () => ({ atExits: [] }),
        values(_, { logprobs, segmentation: { exits, thoughtEnds }, second }) {
          const advantages = tokenAdvantages(logprobs, second as TaughtAnswers);
          return {
            values: summedAttributions(sumsWithin(advantages, thoughtEnds)),
            columns: { [TOKEN_ADVANTAGE]: advantages },
            ...noReferences(exits.length),
          };
        },
      }),
    };
  },
};

/** A_t = (log π_T(o_t) − log π(o_t)) + KL_t, as stored: its mean over what π may write is 0. @param logprobs (T) nats */
export function tokenAdvantages(
  logprobs: Float32Array,
  { logprobs: taught, kl }: Pick<TaughtAnswers, 'logprobs' | 'kl'>,
): Float32Array {
  return logprobs.map((own, t) => (taught[t] as number) - own + (kl[t] as number));
}

/** (K) Σ over the tokens of each segment, in float64; the first begins at token 0. @param ends (K) exclusive */
function sumsWithin(list: Float32Array, ends: Int32Array): Float64Array {
  return Float64Array.from(ends, (end, k) => list.subarray(ends[k - 1] ?? 0, end).reduce((a, b) => a + b, 0));
}
