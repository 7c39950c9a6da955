// `loo`: what a segment counts for in the answer, by what its log-probability loses without it; the policy reads the rest of the thought again.
import { oneOf } from '../flag-values.js';
import { joinIds } from '../model/text/encode.js';
import type { Answer, Question } from '../question.js';
import type { Estimator, ValueJob } from './estimator.js';
import { logSumExp, summedAttributions } from './value.js';

/**
 * What a trace is without a segment, the first by default:
 * - `deleted`: what follows moves up, as if the segment had never been written
 * - `masked`: it stays where it is and nothing after it sees the segment
 */
const LOO = ['deleted', 'masked'] as const;
type Loo = (typeof LOO)[number];

export const loo: Estimator = {
  name: 'loo',
  scores: 'answers',
  isAttribution: true,
  noLevel: 'sums of attributions',
  valueName: 'Σa',
  card: 'no value: what the segments so far count for, each by how much less likely the reference answer is without it, as a logarithm',
  flags: [
    [
      '--loo <how>',
      `of loo: a segment is ${LOO.join('|')} (what follows moves up, or stays and does not see it; default: ${LOO[0]})`,
    ],
  ],
  setUp({ loo: how = LOO[0] }) {
    const own = oneOf('--loo', String(how), LOO);
    return {
      config: { loo: own },
      open: () => ({
        ask(trace) {
          const atExits = trace.continuations;
          // where no reference earns anything, no segment counts for anything
          if (!trace.referenceSet.some(({ utility }) => utility > 0)) return { atExits };
          return { atExits, whenCut: (exits) => withoutSegments(trace, exits, own) };
        },
        values({ referenceSet }, { branches, segmentation: { exits }, whenCut = [] }) {
          // a_k = φ(all) − φ(without u_k), at the end of the thought
          const attributions = new Float64Array(exits.length - 1);
          const all = answerLogprob(branches.at(-1) ?? [], referenceSet);
          const N = referenceSet.length;
          for (const [n, k] of whenCut.length === 0 ? [] : segmentsOf(exits).entries())
            attributions[k - 1] = all - answerLogprob(whenCut.slice(n * N, (n + 1) * N), referenceSet);
          return { values: summedAttributions(attributions) };
        },
      }),
    };
  },
};

/** Segments k from 1; one of nothing but an end token has nothing to leave out. */
function segmentsOf(exits: Int32Array): number[] {
  return Array.from(exits.keys()).filter((k) => k > 0 && exits[k] !== exits[k - 1]);
}

/** The thought behind each segment, the exit template and each reference, right after what stands before the segment. */
function withoutSegments(
  { completionIds, continuations }: Pick<ValueJob, 'completionIds' | 'continuations'>,
  exits: Int32Array,
  how: Loo,
): Question[] {
  return segmentsOf(exits).flatMap((k) => {
    const [after, end] = [exits[k - 1] as number, exits[k] as number];
    const rest = completionIds.subarray(end, exits[exits.length - 1]);
    return continuations.map(({ ids, scoredFrom }) => ({
      ...{ after, ids: joinIds(rest, ids), scoredFrom: rest.length + scoredFrom },
      ...(how === 'masked' && { hidden: end - after }),
    }));
  });
}

/** φ = log Σ_n ζ_n p(y_n). @param logprobs (N) of each reference's scored tokens */
function answerLogprob(logprobs: readonly Answer[], referenceSet: ValueJob['referenceSet']): number {
  return logSumExp(
    logprobs.map((own, n) => own.reduce((all, lp) => all + lp, Math.log(referenceSet[n]?.utility ?? 0))),
  );
}
