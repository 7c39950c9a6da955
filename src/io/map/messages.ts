// A prompt given as a conversation, in the forms that data sets use, as the method's `Message` list.
import type { Message } from '../../trace.js';
import { describeValue } from '../arrow/describe.js';

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
