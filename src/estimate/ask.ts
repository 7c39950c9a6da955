// `ask`: the probability of yes against no, where the policy is asked at every exit point whether all is right so far.

import { askedIds, noAskTemplate, readAskTemplate, storedAskTemplate } from '../model/text/templates.js';
import type { Estimator, Opened } from './estimator.js';
import { contrast, perTrace, utilitiesOf } from './one-pass.js';
import { logSumExp, type TraceResult, type TraceValues, traceValues } from './value.js';

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
  configKeys: ['askTemplate'],
  // a flag's file, or the question that a calibration was fitted with
  ask: ({ askTemplate: given }) => ({
    async open({ policy, tokenizer }): Promise<Opened> {
      const path = typeof given === 'string' ? given : undefined;
      const template = storedAskTemplate(given) ?? (await readAskTemplate(policy.path, path));
      if (template === undefined) throw noAskTemplate(policy.path);
      const { yes, no, scoredFrom } = await askedIds(template, tokenizer, policy.architecture.vocab);
      const of = (ids: Int32Array, utility: number) => ({ ids, scoredFrom, utility });
      const last = scoredFrom + 1;
      // answers of one token are read off one branch
      const also = yes.length === last && no.length === last ? no[scoredFrom] : undefined;
      return {
        config: { askTemplate: template },
        question: {
          exitTemplate: { close: '', open: template.question, closer: '' },
          bank: {
            bank: [
              { answer: template.yes, utility: 1 },
              { answer: template.no, utility: 0 },
            ],
            continuations: also === undefined ? [of(yes, 1), of(no, 0)] : [{ ...of(yes, 1), also }],
            status: [],
          },
        },
        start: () => ({
          values: perTrace((job, { branches }) => askedValues(branches, utilitiesOf(job))),
        }),
      };
    },
  }),
};

/** Status where at no exit both answers together are as likely as this: what the policy holds of them is noise. */
const UNANSWERED = { code: 'ask:unanswered', below: Math.log(0.01) };

/** P(yes) at every exit. @param branches (K+1) of both answers' log-probabilities, where one branch may have had both */
export function askedValues(branches: TraceResult['branches'], utilities: Float32Array): TraceValues {
  const answers = branches.map((both) => {
    const [own] = both;
    return own === undefined || both.length > 1 ? both : [own.subarray(0, 1), own.subarray(1)];
  });
  const found = traceValues(answers, utilities, ask);
  return { ...found, status: isUnanswered(found.referenceLogprobs) ? [UNANSWERED.code] : [] };
}

function isUnanswered(exits: readonly Float32Array[]): boolean {
  return exits.every((both) => logSumExp([...both]) < UNANSWERED.below);
}
