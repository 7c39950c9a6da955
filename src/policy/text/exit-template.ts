// The exit template of a policy: what is put between a state and a reference answer (METHOD §3), given or derived.
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { foreignText } from '../../io/files/foreign-files.js';
import type { PolicyTokenizer } from './tokenizer.js';

/** close {u} open {y} closer */
export interface ExitTemplate {
  readonly close: string;
  readonly open: string;
  readonly closer: string;
}

export const ExitTemplateSchema = z.strictObject({ close: z.string(), open: z.string(), closer: z.string() });

/** Reads an exit template given as a JSON file {close, open, closer}. */
export async function readExitTemplate(path: string): Promise<ExitTemplate> {
  const fail = (reason: string, cause?: unknown): never => {
    throw new RredcotError(`${path}: ${reason}`, {
      exitCode: EXIT.usage,
      hint: 'expected a file with {"close": …, "open": …, "closer": …}',
      cause,
    });
  };
  const text = await readFile(path, 'utf8').catch((cause) => fail('exit template cannot be read', cause));
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    return fail(`not JSON (${(cause as Error).message})`, cause);
  }
  const parsed = ExitTemplateSchema.safeParse(value);
  return parsed.success ? parsed.data : fail(z.prettifyError(parsed.error).replaceAll(/\s*\n\s*/g, ' '));
}

const THINK_END = '</think>';

/**
 * A policy that thinks between tags has </think> as a token or writes it in its chat template, as one token or as
 * several; it leaves its thoughts by the tag, any other by an empty line. Both then give a boxed answer.
 */
export async function deriveExitTemplate(
  tokenizer: PolicyTokenizer,
  chatTemplate: string,
): Promise<ExitTemplate> {
  const ids = await tokenizer.encode(THINK_END);
  const isToken = ids.length === 1 && tokenizer.decode(ids).toString('utf8') === THINK_END; // not <unk>
  const thinks = isToken || chatTemplate.includes(THINK_END);
  return {
    close: thinks ? `\n${THINK_END}\n\n` : '\n\n',
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

/** Tokens of each part; every part is tokenised on its own, as it is when references are scored. */
export async function templateTokens(
  template: ExitTemplate,
  tokenizer: PolicyTokenizer,
): Promise<Record<keyof ExitTemplate, number>> {
  return {
    close: (await tokenizer.encode(template.close)).length,
    open: (await tokenizer.encode(template.open)).length,
    closer: (await tokenizer.encode(template.closer)).length,
  };
}

/** @throws RredcotError (exit 2) where the policy's tokenizer cannot spell the template */
export async function checkExitTemplate(
  template: ExitTemplate,
  tokenizer: PolicyTokenizer,
  vocab: number,
): Promise<void> {
  for (const [part, text] of Object.entries(template) as [keyof ExitTemplate, string][]) {
    const ids = await tokenizer.encode(text);
    const spelled = tokenizer.decode(ids).toString('utf8');
    const hint = `--exit-${part} <text>`;
    if (spelled !== text)
      throw new RredcotError(
        `the tokenizer spells the exit template's ${part} ${JSON.stringify(text)} as ${JSON.stringify(spelled)}`,
        { exitCode: EXIT.usage, hint },
      );
    const beyond = ids.find((id) => id >= vocab);
    if (beyond !== undefined)
      throw usageError(
        `the tokenizer gives the exit template's ${part} the id ${beyond}, config.json has a vocabulary of ${vocab}`,
        'config.json and tokenizer.json must be of the same checkpoint',
      );
  }
  const { close, open } = await templateTokens(template, tokenizer);
  if (close + open === 0)
    throw usageError(
      'the exit template is empty before the answer',
      'give --exit-close or --exit-open a text',
    );
}
