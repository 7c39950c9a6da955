// Presets of the plain formats that trainers read: texts, messages, thoughts beside answers.

import type { Columns } from './fields.js';
import { completionText, isDialogue, parseMessages, severalTurns, withThought } from './messages.js';
import { listAt, mismatch, type Preset, rule } from './preset.js';

const THOUGHTS = ['reasoning', 'reasoning_content', 'thinking', 'thought', 'reasoning_trace'];
const ANSWERS = ['completion', 'response', 'content', 'output', 'final_response', 'model_response'];
const QUESTIONS = ['prompt', 'question', 'problem', 'instruction', 'query', 'input'];

/** A thought, and the answer that came behind it, in columns of their own. */
function thoughtAndAnswer(columns: Columns): string | undefined {
  const [thought, answer] = [THOUGHTS, ANSWERS].map((names) =>
    names.map((name) => columns[name]).find((value) => value != null),
  );
  const isPair = typeof thought === 'string' && typeof answer === 'string' && thought.trim() !== '';
  // an answer may repeat it
  return isPair && !answer.includes(thought.trim()) && !answer.includes('</think>')
    ? withThought(thought, answer)
    : undefined;
}

/** The messages up to the assistant's last, which is the completion; of several turns up to the user's last. */
function lastTurn(columns: Columns) {
  const messages = listAt(columns, 'messages', 'messages');
  const parsed = parseMessages(messages);
  if ('problem' in parsed) return mismatch(`messages${parsed.problem}`);
  const behindUser = parsed.findLastIndex(({ role }) => role === 'user') + 1;
  const own = messages.slice(behindUser);
  if (behindUser > 0 && severalTurns(own)) return { prompt: messages.slice(0, behindUser), completion: own };
  const completion = completionText(messages.slice(-1));
  return completion === null
    ? mismatch(`the last of messages is of the ${parsed.at(-1)?.role}, expected the assistant's`)
    : { prompt: messages.slice(0, -1), completion };
}

const CHAT = { name: 'chat', what: 'dialogues of {role, content}' };

/** Formats that others may look like: recognised last. */
export const PLAIN_ROWS: readonly Preset[] = [
  {
    name: 'reasoning',
    what: 'thoughts and answers in two columns',
    columns: [],
    fits: (columns) =>
      thoughtAndAnswer(columns) !== undefined && QUESTIONS.some((name) => Object.hasOwn(columns, name)),
    fields: () => ({
      prompt: QUESTIONS,
      completion: [rule('a thought and its answer', thoughtAndAnswer), ...ANSWERS],
    }),
  },
  {
    ...CHAT,
    columns: ['prompt', 'completion'],
    fits: ({ prompt }) => isDialogue(prompt),
    fields: () => ({ prompt: 'prompt', completion: 'completion' }),
  },
  {
    ...CHAT,
    columns: ['messages'],
    fits: ({ messages, completion }) => isDialogue(messages) && completion === undefined,
    fields: () => ({
      prompt: rule('messages, all but the last', (columns) => lastTurn(columns).prompt),
      completion: rule('the last of messages', (columns) => lastTurn(columns).completion),
    }),
  },
  {
    name: 'prompt-completion',
    what: 'prompts and completions as text',
    columns: ['prompt', 'completion'],
    fits: ({ prompt, completion }) => typeof prompt === 'string' && typeof completion === 'string',
    fields: () => ({ prompt: 'prompt', completion: 'completion' }),
  },
];
