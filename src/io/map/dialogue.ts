// Completions, and whole dialogues, given as messages.

import { parseMessages } from './messages.js';

/** Whether a value is a list that begins like a dialogue. */
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

/** A thought and the text after it as one completion. */
export function withThought(thought: string, solution: string): string {
  return `<think>\n${thought.trim()}\n</think>\n\n${solution}`;
}
