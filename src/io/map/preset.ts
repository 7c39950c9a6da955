// What a preset is: how a dump is recognised, and where a trace's fields are in its rows; with the rules that several share.

import { createHash } from 'node:crypto';
import { lastBoxed } from '../../boxed.js';
import { describeValue } from '../../printable.js';
import type { InputRow } from '../../rows.js';
import { codePoints } from '../../scored.js';
import { stringifyJson } from '../arrow/json.js';
import {
  type Columns,
  type Field,
  type FieldRule,
  type FieldTable,
  Mismatch,
  parsePath,
  valueAt,
} from './fields.js';

/** A kind of dump. Several may share a name: a data set and its copies. */
export interface Preset {
  readonly name: string;
  /** what is in such a file, in a few words */
  readonly what: string;
  /** the columns that tell it */
  readonly columns: readonly string[];
  /** what the columns must be like, where their names are not enough */
  readonly fits?: (columns: Columns) => boolean;
  /** made for the preset that is chosen */
  readonly fields: () => FieldTable;
  /** what a user has to know before trusting the numbers */
  readonly notes?: readonly string[];
}

/** A rule that gives one value for all traces of the row. */
export function rule(text: string, value: (columns: Columns, row: InputRow) => unknown): FieldRule {
  return { text, each: false, value: (row) => value(row.columns, row) };
}

/** A rule that gives a value for each trace of the row. */
export function ruleForEach(
  text: string,
  value: (columns: Columns, row: InputRow) => readonly unknown[],
): FieldRule {
  return { text, each: true, value: (row) => value(row.columns, row) };
}

/** Rejects a row that is not as the preset says. */
export function mismatch(reason: string): never {
  throw new Mismatch('map', `${reason}: --preset none takes fields by their names, --map field=<path>`);
}

export function at(columns: Columns, path: string): unknown {
  return valueAt(columns, parsePath(path));
}

/** Text at a path. @throws Mismatch for anything else */
export function textAt(columns: Columns, path: string): string {
  const value = at(columns, path);
  return typeof value === 'string' ? value : mismatch(`${path} is ${describeValue(value)}, expected text`);
}

/** A list at a path. @throws Mismatch for anything else */
export function listAt(columns: Columns, path: string, expected = 'a list') {
  const value = at(columns, path);
  return Array.isArray(value) ? value : mismatch(`${path} is ${describeValue(value)}, expected ${expected}`);
}

/** A list of texts at a path. @throws Mismatch for anything else */
export function textsAt(columns: Columns, path: string): readonly string[] {
  const value = listAt(columns, path, 'a list of texts');
  const wrong = value.findIndex((item) => typeof item !== 'string');
  return wrong < 0 ? value : mismatch(`${path}[${wrong}] is ${describeValue(value[wrong])}, expected text`);
}

/** A completion made of steps, each with its separator one given segment. */
export function joinedSteps(
  text: string,
  separator: string,
  steps: (columns: Columns) => readonly string[],
): Pick<Record<Field, FieldRule>, 'completion' | 'segment_char_ends'> {
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

export function boxedIn(path: string): FieldRule {
  return rule(`the last \\boxed{} of ${path}`, (columns) => {
    const solution = at(columns, path);
    return typeof solution === 'string' ? lastBoxed(solution) || undefined : undefined;
  });
}

/** One group for each value of `path` within a value of `within`. */
export function groupBy(within: string, path: string): FieldRule {
  return rule(`${within} and a hash of ${path}`, (columns) => {
    const value = at(columns, path);
    return value === undefined ? undefined : `${String(at(columns, within))}/${shortHash(value)}`;
  });
}

export function shortHash(value: unknown): string {
  return createHash('sha256').update(stringifyJson(value)).digest('hex').slice(0, 16);
}
