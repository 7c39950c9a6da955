// The rules that several presets share: joined steps, the boxed answer, groups named by a hash.

import { createHash } from 'node:crypto';
import { lastBoxed } from '../../boxed.js';
import { codePoints } from '../../code-points.js';
import { describeValue } from '../arrow/describe.js';
import { stringifyJson } from '../arrow/json.js';
import { type Columns, parsePath, resolvePath } from './path.js';
import { mismatch, rule } from './preset.js';
import type { Field, Rule } from './sources.js';

/** The value at a path, undefined where there is none. */
export function at(columns: Columns, path: string): unknown {
  const found = resolvePath(columns, parsePath(path));
  return found.kind === 'one' ? found.value : undefined;
}

/** Text at a path. @throws Mismatch for anything else */
export function textAt(columns: Columns, path: string): string {
  const value = at(columns, path);
  return typeof value === 'string' ? value : mismatch(`${path} is ${describeValue(value)}, expected text`);
}

/** A list of texts at a path. @throws Mismatch for anything else */
export function textsAt(columns: Columns, path: string): readonly string[] {
  const value = at(columns, path);
  if (!Array.isArray(value)) return mismatch(`${path} is ${describeValue(value)}, expected a list of texts`);
  const wrong = value.findIndex((item) => typeof item !== 'string');
  return wrong < 0
    ? (value as readonly string[])
    : mismatch(`${path}[${wrong}] is ${describeValue(value[wrong])}, expected text`);
}

/** A completion made of steps, each with its separator one given segment. */
export function joinedSteps(
  text: string,
  separator: string,
  steps: (columns: Columns) => readonly string[],
): Pick<Record<Field, Rule>, 'completion' | 'segment_char_ends'> {
  return {
    completion: rule(`${text}, joined by ${JSON.stringify(separator)}`, (columns) =>
      steps(columns).join(separator),
    ),
    segment_char_ends: rule(`the ends of ${text}`, (columns) => stepEnds(steps(columns), separator)),
  };
}

/** Ends of joined steps in code points; a step without text is no segment. */
function stepEnds(steps: readonly string[], separator: string): number[] {
  let end = 0;
  const ends = steps.map((step, k) => {
    end += codePoints(step) + (k < steps.length - 1 ? codePoints(separator) : 0);
    return end;
  });
  return ends.filter((at, k) => at > (k === 0 ? 0 : (ends[k - 1] as number)));
}

/** The answer in the last box of a solution. */
export function boxedIn(path: string): Rule {
  return rule(`the last \\boxed{} of ${path}`, (columns) => {
    const solution = at(columns, path);
    return typeof solution === 'string' ? lastBoxed(solution) || undefined : undefined;
  });
}

/** One group for each value of `path` within a value of `within`. */
export function groupBy(within: string, path: string): Rule {
  return rule(`${within} and a hash of ${path}`, (columns) => {
    const value = at(columns, path);
    return value === undefined ? undefined : `${String(at(columns, within))}/${shortHash(value)}`;
  });
}

/** 16 hexadecimal digits of a value's SHA-256. */
export function shortHash(value: unknown): string {
  return createHash('sha256').update(stringifyJson(value)).digest('hex').slice(0, 16);
}
