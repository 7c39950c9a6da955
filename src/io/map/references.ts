// The reference answers of a row in any of the forms that data sets use, as the method's `Reference` list.

import { markedAnswer } from '../../boxed.js';
import { describeValue } from '../../printable.js';
import type { Reference } from '../../trace.js';
import { asNumber } from '../arrow/json.js';

export type ParsedReferences = readonly Reference[] | { readonly problem: string };

/**
 * Parses a string, a number, an object `{answer, solution?, utility?}`, or a list of these.
 * null and an empty list or string give no reference. A text or a solution that boxes its answer, or marks it by `####`,
 * stands for that answer, and the whole text for its solution.
 */
export function parseReferences(value: unknown): ParsedReferences {
  if (value === null || value === undefined || value === '') return [];
  if (!Array.isArray(value)) {
    const reference = parseReference(value);
    return typeof reference === 'string' ? { problem: reference } : [reference];
  }
  const references: Reference[] = [];
  for (const [n, item] of value.entries()) {
    const reference = parseReference(item);
    if (typeof reference === 'string') return { problem: `[${n}]: ${reference}` };
    references.push(reference);
  }
  return references;
}

function parseReference(value: unknown): Reference | string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const answer = answerText(value);
    if (answer === null)
      return `found ${describeValue(value)}, expected an answer (text, number or {answer, solution?, utility?})`;
    return { ...fromSolution(answer), utility: 1 };
  }
  const { answer: given, solution, utility: earned } = value as Record<string, unknown>;
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

function answerText(value: unknown): string | null {
  if (typeof value === 'string') return value === '' ? null : value;
  if (typeof value === 'bigint' || (typeof value === 'number' && Number.isFinite(value)))
    return String(value);
  return null;
}
