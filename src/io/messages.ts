// Dialogues in the forms that data sets use, as the `Message` list that chat templates take.

import type { Message } from '../trace.js';
import { describeValue } from './describe.js';

/** The messages, or what is wrong with them. */
export type ParsedMessages = readonly Message[] | { readonly problem: string };

/** Parses a list of `{role, content}`; other keys (`name`, `tool_calls`) are not kept. */
export function parseMessages(value: unknown): ParsedMessages {
  if (!Array.isArray(value) || value.length === 0)
    return { problem: `${describeValue(value)}, expected text or a list of {role, content}` };
  const messages: Message[] = [];
  for (const [n, item] of value.entries()) {
    if (!isMessage(item))
      return { problem: `[${n}] ${describeValue(item)}, expected {role, content} as text` };
    messages.push({ role: item.role, content: item.content });
  }
  return messages;
}

/** Whether a value is one message whose content is text. */
export function isMessage(value: unknown): value is Message {
  const { role, content } = (value ?? {}) as Partial<Record<keyof Message, unknown>>;
  return typeof role === 'string' && typeof content === 'string';
}

/** Whether a value is a list that begins like a dialogue. */
export function isDialogue(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && isMessage(value[0]);
}

/**
 * The text of a completion given as one message of the assistant. What the model thought may stand in a key of its own,
 * under one of two names; it comes first, between the tags.
 * @returns null where the value is anything else
 */
export function completionText(value: unknown): string | null {
  if (!Array.isArray(value) || value.length !== 1) return null;
  const [message] = value as readonly unknown[];
  if (!isMessage(message) || message.role !== 'assistant') return null;
  const { reasoning_content, thinking } = message as unknown as Record<string, unknown>;
  const thought = reasoning_content ?? thinking;
  return typeof thought === 'string' && thought !== ''
    ? withThought(thought, message.content)
    : message.content;
}

/** A thought and the text after it as one completion. */
export function withThought(thought: string, solution: string): string {
  return `<think>\n${thought.trim()}\n</think>\n\n${solution}`;
}
