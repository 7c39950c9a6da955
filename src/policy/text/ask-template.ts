// The question that is put to a policy at an exit point, and its two answers (METHOD §3, `ask`): a file of the policy's folder, or one that is given.
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { givenOrOwn } from '../build/json.js';
import { checkSpelling } from './exit-template.js';
import type { PolicyTokenizer } from './tokenizer.js';

/** The file of a policy's folder. */
export const ASK_TEMPLATE = 'ask_template.json';

const text = z.string().min(1);
/** The question follows on the state, the tag that leaves the thought included. */
const AskTemplateSchema = z.strictObject({ question: text, yes: text, no: text });
type AskTemplate = z.infer<typeof AskTemplateSchema>;
const EXPECTED = 'a file with {"question": "…", "yes": "…", "no": "…"}, with --ask-template';

/** The question that a configuration tells; undefined where it tells none. */
export function storedAskTemplate(found: unknown): AskTemplate | undefined {
  return AskTemplateSchema.safeParse(found).data;
}

/** @param path of a file in the place of the folder's own @returns undefined where there is none @throws RredcotError (exit 2) for one that is none */
export function readAskTemplate(folder: string, path?: string): Promise<AskTemplate | undefined> {
  return givenOrOwn(AskTemplateSchema, path, folder, ASK_TEMPLATE, EXPECTED);
}

/** @throws RredcotError (exit 2) naming the file that is missing */
export function noAskTemplate(folder: string): Error {
  return usageError(`${folder}/${ASK_TEMPLATE}: --estimator ask needs a question`, EXPECTED);
}

/**
 * A question's tokens with either answer behind them, of which those from `scoredFrom` on are scored: the first in which the two differ.
 * @throws RredcotError (exit 2) where the tokenizer cannot spell them, or the tokens of one answer begin those of the other
 */
export async function askedIds(
  { question, ...answers }: AskTemplate,
  tokenizer: PolicyTokenizer,
  vocab: number,
) {
  const hint = `--ask-template <file> with another`;
  const [yes, no] = (await Promise.all(
    (['yes', 'no'] as const).map((name) =>
      checkSpelling(
        question + answers[name],
        `the question and its "${name}"`,
        `${hint} "${name}"`,
        tokenizer,
        vocab,
      ),
    ),
  )) as [Int32Array, Int32Array];
  const scoredFrom = yes.findIndex((id, t) => id !== no[t]);
  if (scoredFrom < 0 || scoredFrom >= no.length)
    throw usageError(
      `the tokens of "yes" (${JSON.stringify(answers.yes)}) and "no" (${JSON.stringify(answers.no)}) behind the question begin alike to the end of one of them: expected two that part`,
      `${hint} "yes" or "no"`,
    );
  return { yes, no, scoredFrom };
}
