// Messages and reference answers in the forms that data sets use.

import { markedAnswer } from '../../boxed.js';
import { describeValue } from '../../printable.js';
import type { Message, Reference } from '../../trace.js';
import { asNumber, type ExactObject, exactly, standsFor } from '../arrow/json.js';
import type { Columns } from './fields.js';

/**
 * Parses a list of `{role, content}`. A content may be text, null (a message of tool calls alone), or a list of parts, whose
 * text is joined; other fields are kept as they are for the chat template.
 */
export function parseMessages(value: readonly unknown[]): readonly Message[] | { readonly problem: string } {
  if (value.length === 0) return { problem: ' is an empty list, expected messages {role, content}' };
  const messages: Message[] = [];
  for (const [n, item] of value.entries()) {
    const { role, content, ...more }: Columns = Object(item);
    if (typeof role !== 'string' || role === '')
      return { problem: `[${n}] is ${describeValue(item)}, expected a message {role, content}` };
    const text = contentText(content);
    const expected = 'expected text or a list of text parts';
    if (text === undefined) return { problem: `[${n}].content is ${describeValue(content)}, ${expected}` };
    const message = { ...more, role, content: text };
    standsFor(message, () => exactly(item) as ExactObject);
    messages.push(message);
  }
  return messages;
}

function contentText(content: unknown): string | undefined {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) return '';
  if (!Array.isArray(content)) return undefined;
  const parts = content.map((part: unknown) => {
    const { type, text }: Columns = Object(part);
    return type === 'text' && typeof text === 'string' ? text : undefined;
  });
  return parts.includes(undefined) ? undefined : parts.join('');
}

/** A list as it is, a message by itself as a list of one; nothing else holds messages. */
export function messagesIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : isDialogue([value]) ? [value] : [];
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
  const messages = parseMessages(messagesIn(value));
  if ('problem' in messages || messages.length !== 1) return null;
  const [{ role, content, reasoning_content, thinking }] = messages as [(typeof messages)[0]];
  if (role !== 'assistant') return null;
  const thought = reasoning_content ?? thinking;
  return typeof thought === 'string' && thought !== '' ? withThought(thought, content) : content;
}

/** The messages of a completion that takes more than one turn: several, or one that calls a tool. @returns undefined for anything else */
export function severalTurns(value: unknown): readonly Message[] | undefined {
  const messages = parseMessages(messagesIn(value));
  if ('problem' in messages || !messages.some(({ role }) => role === 'assistant')) return undefined;
  const calls = messages[0]?.tool_calls;
  return messages.length > 1 || (Array.isArray(calls) && calls.length > 0) ? messages : undefined;
}

export function withThought(thought: string, solution: string): string {
  return `<think>\n${thought.replace(/^\s*<think>|<\/think>\s*$/g, '').trim()}\n</think>\n\n${solution}`;
}

/**
 * Parses a string, a number, an object `{answer, solution?, utility?}`, or a list of these.
 * null and an empty list or string give no reference. A text or a solution that boxes its answer, or marks it by `####`,
 * stands for that answer, and the whole text for its solution.
 */
export function parseReferences(value: unknown): readonly Reference[] | { readonly problem: string } {
  if (value === null || value === undefined || value === '') return [];
  const references: Reference[] = [];
  for (const [n, item] of [value].flat().entries()) {
    const reference = parseReference(item);
    if (typeof reference === 'string')
      return { problem: `${Array.isArray(value) ? `[${n}]` : ''}: ${reference}` };
    references.push(reference);
  }
  return references;
}

function parseReference(value: unknown): Reference | string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const answer = answerText(value);
    return answer === null
      ? `found ${describeValue(value)}, expected an answer (text, number or {answer, solution?, utility?})`
      : { ...fromSolution(answer), utility: 1 };
  }
  const { answer: given, solution, utility: earned } = value as Columns;
  // a struct of Arrow or Parquet has all its fields in every row: null is none
  const utility = asNumber(earned ?? 1);
  if (typeof utility !== 'number' || !(utility >= 0 && utility <= 1)) {
    return `utility: found ${describeValue(earned)}, expected a number from 0 to 1`;
  }
  const hasSolution = solution !== undefined && solution !== null;
  if (hasSolution && typeof solution !== 'string')
    return `solution: found ${describeValue(solution)}, expected text`;
  if (given === undefined || given === null) {
    const marked = hasSolution ? markedAnswer(solution) : undefined;
    if (marked !== undefined) return { answer: marked, solution: solution as string, utility };
  }
  const answer = answerText(given);
  if (answer === null) {
    const marks = hasSolution ? ', or a solution that boxes its answer' : '';
    return `answer: found ${describeValue(given)}, expected text or a number${marks}`;
  }
  return { ...fromSolution(answer), ...(hasSolution ? { solution } : {}), utility };
}

/** The reference that a text stands for: the answer it marks and the text itself, or the text as it is. */
export function fromSolution(text: string): { readonly answer: string; readonly solution?: string } {
  const answer = markedAnswer(text);
  if (answer === undefined) return { answer: text };
  const bare = text.replaceAll('$', '').trim().replace(/\.$/, '');
  const isBoxAlone = bare === `\\boxed{${answer}}` || bare === `\\fbox{${answer}}`;
  return isBoxAlone ? { answer } : { answer, solution: text };
}

/** A text that is not blank, nor an answer's wrapping without one, or a number as text; null for anything else. */
export function answerText(value: unknown): string | null {
  if (typeof value === 'string') return /^(?:\s|\$|\\boxed\{\s*\})*$/.test(value) ? null : value;
  if (typeof value === 'bigint' || (typeof value === 'number' && Number.isFinite(value)))
    return String(value);
  return null;
}
