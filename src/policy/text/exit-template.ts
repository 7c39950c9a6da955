// The exit template of a policy: what is put between a state and a reference answer (METHOD §3), given or derived.
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { foreignText } from '../../io/files/foreign-files.js';
import { THOUGHT_TAGS } from '../../segment/span.js';
import { givenOrOwn } from '../build/json.js';
import type { PolicyTokenizer } from './tokenizer.js';

/** close {u} open {y} closer */
export type ExitTemplate = Readonly<z.infer<typeof ExitTemplateSchema>>;

export const ExitTemplateSchema = z.strictObject({ close: z.string(), open: z.string(), closer: z.string() });

const FORM = 'expected a file with {"close": …, "open": …, "closer": …}';

/** The file of a checkpoint that is taken where no flag names another. */
const OWN_FILE = 'exit_template.json';

/** A part that is left out is the checkpoint's. */
const Parts = z.strictObject({
  close: z.string().exactOptional(),
  open: z.string().exactOptional(),
  closer: z.string().exactOptional(),
});

/** The parts of a file that a flag names, else those that the checkpoint brings; undefined where it brings none. @throws RredcotError (exit 2) */
export function readExitTemplate(
  checkpoint: string,
  file?: string,
): Promise<Partial<ExitTemplate> | undefined> {
  return givenOrOwn(Parts, file, checkpoint, OWN_FILE, FORM);
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

/** Chat templates of a checkpoint, all of them in one text; empty where it has none. */
export async function readChatTemplate(folder: string): Promise<string> {
  const config = (await foreignText(folder, 'tokenizer_config.json')) ?? '{}';
  const named = (JSON.parse(config) as { chat_template?: unknown } | null)?.chat_template;
  const file = (await foreignText(folder, 'chat_template.jinja')) ?? '';
  // one template, or a list of {name, template}; JSON escapes nothing that a tag is made of
  return `${named === undefined ? '' : JSON.stringify(named)}${file}`;
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
