// `ask`: the probability of yes against no, where the policy is asked at every exit point whether all is right so far.

import { askedIds, askTemplateOf } from '../model/text/templates.js';
import type { Answers } from '../question.js';
import type { Estimator, OpenEstimator } from './estimator.js';
import { contrast, logSumExp, scoredReferences, stateValues, utilitiesOf } from './value.js';

export const ask: Estimator = {
  name: 'ask',
  scores: 'questions',
  // p(yes) / (p(yes) + p(no))
  fromStored: contrast,
  valueName: 'P(yes)',
  card: 'the probability of yes against no, where the policy is asked there whether all is right so far (`askTemplate`): its own opinion, fitted to no reward',
  flags: [
    [
      '--ask-template <file>',
      'of ask: JSON file {"question", "yes", "no"}, what is asked at an exit and the two answers (default: the policy\'s own)',
    ],
  ],
  // a flag's file, or the question that a calibration was fitted with
  setUp: ({ askTemplate: given }) => ({
    async open({ policy, tokenizer }): Promise<OpenEstimator> {
      const path = typeof given === 'string' ? given : undefined;
      const template = await askTemplateOf(given, policy.path, path);
      const { yes, no, scoredFrom } = await askedIds(template, tokenizer, policy.architecture.vocab);
      const last = scoredFrom + 1;
      // answers of one token are read off one branch
      const also = yes.length === last && no.length === last ? no[scoredFrom] : undefined;
      const referenceSet = {
        referenceSet: [
          { answer: template.yes, utility: 1 },
          { answer: template.no, utility: 0 },
        ],
        continuations:
          also === undefined
            ? [yes, no].map((ids) => ({ ids, scoredFrom }))
            : [{ ids: yes, scoredFrom, also }],
        status: [],
      };
      return {
        config: { askTemplate: template },
        referenceSetOf: async () => referenceSet,
        values: (trace, { branches }) => askedValues(branches, utilitiesOf(trace)),
      };
    },
  }),
};

/** Status where at no exit both answers together are as likely as this: what the policy holds of them is noise. */
const UNANSWERED = { code: 'ask:unanswered', below: Math.log(0.01) };

/** P(yes) at every exit. @param said (K+1) of both answers' log-probabilities, where one branch may have had both */
export function askedValues(said: Answers['branches'], utilities: Float32Array) {
  const branches = said.map((both) => {
    const [own] = both;
    return own === undefined || both.length > 1 ? both : [own.subarray(0, 1), own.subarray(1)];
  });
  const { referenceLogprobs } = scoredReferences(branches);
  const isUnanswered = referenceLogprobs.every((each) => logSumExp([...each]) < UNANSWERED.below);
  const status = isUnanswered ? [UNANSWERED.code] : [];
  return { values: stateValues(branches, utilities, ask), branches, status };
}
