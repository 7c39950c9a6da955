// `distill`: how much likelier a teacher is to write each token than the policy that wrote it (arXiv 2605.07865).
import { TOKEN_ADVANTAGE } from '../credit/requested.js';
import { sum } from '../credit/rules.js';
import { usageError } from '../errors.js';
import type { Estimator } from './estimator.js';
import type { TaughtAnswers } from './teacher.js';
import { listColumn, summedAttributions } from './value.js';

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
        values(_, { logprobs, segmentation: { thoughtEnds }, second }) {
          const { logprobs: taught, kl } = second as TaughtAnswers;
          // A_t, whose mean over what π may write is 0
          const advantages = logprobs.map((own, t) => (taught[t] as number) - own + (kl[t] as number));
          const sums = Float64Array.from(thoughtEnds, (end, k) =>
            sum(advantages.subarray(thoughtEnds[k - 1] ?? 0, end)),
          );
          return { values: summedAttributions(sums), columns: { [TOKEN_ADVANTAGE]: advantages } };
        },
      }),
    };
  },
};
