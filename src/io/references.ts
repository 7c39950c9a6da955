// The reference answers of a row in any of the forms that data sets use, as the method's `Reference` list.

import type { Reference } from '../trace.js';
import { describeValue } from './describe.js';

/** The references, or what is wrong with them. */
export type ParsedReferences = readonly Reference[] | { readonly problem: string };

/**
 * Parses a string, a number, an object `{answer, solution?, utility?}`, or a list of these.
 * null and an empty list or string give no reference.
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
    return answer === null
      ? `found ${describeValue(value)}, expected an answer (text, number or {answer, solution?, utility?})`
      : { answer, utility: 1 };
  }
  const { answer: given, solution, utility = 1 } = value as Record<string, unknown>;
  const answer = answerText(given);
  if (answer === null) return `answer: found ${describeValue(given)}, expected text or a number`;
  if (typeof utility !== 'number' || !(utility >= 0 && utility <= 1)) {
    return `utility: found ${describeValue(utility)}, expected a number from 0 to 1`;
  }
  if (solution === undefined || solution === null) return { answer, utility };
  if (typeof solution !== 'string') return `solution: found ${describeValue(solution)}, expected text`;
  return { answer, solution, utility };
}

function answerText(value: unknown): string | null {
  if (typeof value === 'string') return value === '' ? null : value;
  if (typeof value === 'bigint' || (typeof value === 'number' && Number.isFinite(value)))
    return String(value);
  return null;
}
