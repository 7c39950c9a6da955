// What is put between a state and an answer: the exit template of a policy (METHOD §3), given or derived, and the question of `ask` with its two answers.
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { THOUGHT_TAGS } from '../../segment/span.js';
import { givenOrOwn } from './checked-json.js';
import type { PolicyTokenizer } from './tokenizer.js';

/** close {u} open {y} closer */
export type ExitTemplate = Readonly<z.infer<typeof ExitTemplateSchema>>;

export const ExitTemplateSchema = z.strictObject({ close: z.string(), open: z.string(), closer: z.string() });

const FORM = 'expected a file with {"close": …, "open": …, "closer": …}';

/** The file of a checkpoint that is taken where no flag names another. */
const OWN_FILE = 'exit_template.json';

/** A part that is left out is the checkpoint's. */
const part = z.string().exactOptional();
const Parts = z.strictObject({ close: part, open: part, closer: part });

/** The parts of a file that a flag names, else those that the checkpoint brings; undefined where it brings none. @throws RredcotError (exit 2) */
export function readExitTemplate(folder: string, file?: string): Promise<Partial<ExitTemplate> | undefined> {
  return givenOrOwn(Parts, file, folder, OWN_FILE, FORM);
}

/**
 * A policy that thinks between tags has the closing one as a token or writes it in its chat template, as one token or as
 * several; it leaves its thoughts by the tag, any other by an empty line. Both then give a boxed answer.
 */
export async function deriveExitTemplate(
  tokenizer: PolicyTokenizer,
  chatTemplate: string,
): Promise<ExitTemplate> {
  let found: string | undefined;
  for (const [, tag] of THOUGHT_TAGS) {
    const ids = await tokenizer.encode(tag);
    const isToken = ids.length === 1 && tokenizer.decode(ids).toString('utf8') === tag; // not <unk>
    if (isToken || chatTemplate.includes(tag)) found ??= tag;
  }
  return {
    close: found === undefined ? '\n\n' : `\n${found}\n\n`,
    open: '**Final Answer**\n\\boxed{',
    closer: '}',
  };
}

/** Ids of a text that is put behind a state. @param what for the error @throws RredcotError (exit 2) where the tokenizer cannot spell it */
export async function checkSpelling(
  text: string,
  what: string,
  hint: string,
  tokenizer: PolicyTokenizer,
  vocab: number,
): Promise<Int32Array> {
  const ids = await tokenizer.encode(text);
  const spelled = tokenizer.decode(ids).toString('utf8');
  if (spelled !== text)
    throw usageError(
      `the tokenizer spells ${what} ${JSON.stringify(text)} as ${JSON.stringify(spelled)}`,
      hint,
    );
  const beyond = ids.find((id) => id >= vocab);
  if (beyond !== undefined)
    throw usageError(
      `the tokenizer gives ${what} the id ${beyond}, config.json has a vocabulary of ${vocab}`,
      'config.json and tokenizer.json must be of the same checkpoint',
    );
  return ids;
}

/** @throws RredcotError (exit 2) where the policy's tokenizer cannot spell the template */
export async function checkExitTemplate(
  template: ExitTemplate,
  tokenizer: PolicyTokenizer,
  vocab: number,
): Promise<void> {
  for (const [part, text] of Object.entries(template) as [keyof ExitTemplate, string][]) {
    const hint = `--exit-template <file> with another "${part}"`;
    await checkSpelling(text, `the exit template's ${part}`, hint, tokenizer, vocab);
  }
  if (template.close + template.open === '')
    throw usageError(
      'the exit template is empty before the answer',
      '--exit-template <file> with a text for "close" or "open"',
    );
}

export const ASK_TEMPLATE = 'ask_template.json';

const text = z.string().min(1);
/** The question follows on the state, the tag that leaves the thought included. */
const AskTemplateSchema = z.strictObject({ question: text, yes: text, no: text });
type AskTemplate = z.infer<typeof AskTemplateSchema>;
const EXPECTED = 'a file with {"question": "…", "yes": "…", "no": "…"}, with --ask-template';

/** @param path of a file in the place of the folder's own @returns undefined where there is none @throws RredcotError (exit 2) for one that is none */
export function readAskTemplate(folder: string, path?: string): Promise<AskTemplate | undefined> {
  return givenOrOwn(AskTemplateSchema, path, folder, ASK_TEMPLATE, EXPECTED);
}

/** That of a configuration, where it tells one, or of a file. @throws RredcotError (exit 2) as {@link readAskTemplate}, and where there is none */
export async function askTemplateOf(told: unknown, folder: string, path?: string): Promise<AskTemplate> {
  const found = AskTemplateSchema.safeParse(told).data ?? (await readAskTemplate(folder, path));
  if (found) return found;
  throw usageError(`${folder}/${ASK_TEMPLATE}: --estimator ask needs a question`, EXPECTED);
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
  const spelled = (name: 'yes' | 'no') => {
    const [text, what] = [question + answers[name], `the question and its "${name}"`];
    return checkSpelling(text, what, `${hint} "${name}"`, tokenizer, vocab);
  };
  const [yes, no] = await Promise.all([spelled('yes'), spelled('no')]);
  const scoredFrom = yes.findIndex((id, t) => id !== no[t]);
  if (scoredFrom < 0 || scoredFrom >= no.length)
    throw usageError(
      `the tokens of "yes" (${JSON.stringify(answers.yes)}) and "no" (${JSON.stringify(answers.no)}) behind the question begin alike to the end of one of them: expected two that part`,
      `${hint} "yes" or "no"`,
    );
  return { yes, no, scoredFrom };
}
