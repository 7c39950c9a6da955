// Prompts, completions and whole dialogues given as messages, in the forms that data sets use.

import { describeValue } from '../../printable.js';
import type { Message } from '../../trace.js';

/** The messages, or what is wrong with them. */
export type ParsedMessages = readonly Message[] | { readonly problem: string };

/**
 * Parses a list of `{role, content}`. A content may be text, null (a message of tool calls alone), or a list of parts, whose
 * text is joined; other fields are kept as they are for the chat template.
 */
export function parseMessages(value: readonly unknown[]): ParsedMessages {
  if (value.length === 0) return { problem: ' is an empty list, expected messages {role, content}' };
  const messages: Message[] = [];
  for (const [n, item] of value.entries()) {
    const { role, content, ...more } = (typeof item === 'object' && item !== null ? item : {}) as Record<
      string,
      unknown
    >;
    if (typeof role !== 'string' || role === '')
      return { problem: `[${n}] is ${describeValue(item)}, expected a message {role, content}` };
    const text = contentText(content);
    if (text === undefined)
      return {
        problem: `[${n}].content is ${describeValue(content)}, expected text or a list of text parts`,
      };
    messages.push({ ...more, role, content: text });
  }
  return messages;
}

function contentText(content: unknown): string | undefined {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) return '';
  if (!Array.isArray(content)) return undefined;
  const parts = content.map((part: unknown) => {
    const { type, text } = (part ?? {}) as Record<string, unknown>;
    return type === 'text' && typeof text === 'string' ? text : undefined;
  });
  return parts.includes(undefined) ? undefined : parts.join('');
}

export function isDialogue(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && typeof (value[0] as { role?: unknown } | null)?.role === 'string';
}

/** What the last message of the user says; undefined where there is none. */
export function lastQuestion(value: unknown): string | undefined {
  const messages = Array.isArray(value) ? parseMessages(value) : [];
  return 'problem' in messages ? undefined : messages.findLast(({ role }) => role === 'user')?.content;
}

/**
 * The text of a completion given as one message of the assistant. What the model thought may stand in a key of its own,
 * under one of two names; it comes first, between the tags.
 * @returns null where the value is anything else
 */
export function completionText(value: unknown): string | null {
  const messages = Array.isArray(value) ? parseMessages(value) : [];
  if ('problem' in messages || messages.length !== 1) return null;
  const [{ role, content, reasoning_content, thinking }] = messages as [(typeof messages)[0]];
  if (role !== 'assistant') return null;
  const thought = reasoning_content ?? thinking;
  return typeof thought === 'string' && thought !== '' ? withThought(thought, content) : content;
}

/** The messages of a completion that takes more than one turn: several, or one that calls a tool. @returns undefined for anything else */
export function severalTurns(value: unknown): readonly Message[] | undefined {
  const messages = Array.isArray(value) ? parseMessages(value) : [];
  if ('problem' in messages || !messages.some(({ role }) => role === 'assistant')) return undefined;
  const calls = messages[0]?.tool_calls;
  return messages.length > 1 || (Array.isArray(calls) && calls.length > 0) ? messages : undefined;
}

export function withThought(thought: string, solution: string): string {
  return `<think>\n${thought.trim()}\n</think>\n\n${solution}`;
}
