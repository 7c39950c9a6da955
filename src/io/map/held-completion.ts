// Tells rows whose prompt already holds the completion, and completions that begin with their prompt.
import type { Message, Trace } from '../../trace.js';
import { Mismatch } from './sources.js';

/** Shorter texts, and fewer ids, may stand in a prompt by chance, such as one of its choices. */
const TELLS = { characters: 24, ids: 8 };

type Texts = Pick<Trace, 'prompt' | 'completion' | 'promptIds' | 'completionIds'>;

/**
 * A prompt in which the policy would find what it is to be asked for: the whole text, or the whole dialogue.
 * @throws Mismatch (`prompt_holds_completion`)
 */
export function checkPrompt(
  { prompt, completion, promptIds, completionIds }: Texts,
  path: string,
  field = promptIds === undefined ? 'prompt' : 'prompt_ids',
): void {
  const fail = (found: string): never => {
    throw new Mismatch(
      'prompt_holds_completion',
      `${field}: ${path} ${found}, expected what the policy was asked and nothing of its answer: --map ${field}=<path>`,
    );
  };
  if (promptIds !== undefined) {
    if (completionIds !== undefined && holdsIds(promptIds, completionIds)) fail('holds the completion_ids');
    return;
  }
  const last: Message | undefined = typeof prompt === 'string' ? undefined : prompt.at(-1);
  if (last?.role === 'assistant') fail("ends with the assistant's turn");
  const own = completion.trim();
  if (own.length < TELLS.characters) return;
  const texts = typeof prompt === 'string' ? [prompt] : prompt.map(({ content }) => content);
  if (texts.some((text) => text.includes(own))) fail('holds the completion');
}

/** Whether a completion is the whole text: what was asked, and then what was answered. */
export function beginsWithPrompt({ prompt, completion, promptIds, completionIds }: Texts): boolean {
  if (promptIds !== undefined && completionIds !== undefined)
    return promptIds.length >= TELLS.ids && promptIds.every((id, n) => id === completionIds[n]);
  const asked = (typeof prompt === 'string' ? prompt : (prompt.at(-1)?.content ?? '')).trim();
  return asked.length >= TELLS.characters && completion.trimStart().startsWith(asked);
}

function holdsIds(ids: Int32Array, part: Int32Array): boolean {
  if (part.length < TELLS.ids) return false;
  const [first = 0] = part;
  for (let from = ids.indexOf(first); from >= 0; from = ids.indexOf(first, from + 1))
    if (part.every((id, n) => ids[from + n] === id)) return true;
  return false;
}
