// Where the fields of a trace are in a row: paths and rules, tried in turn.

import type { InputRow } from '../../rows.js';
import type { Join } from './join.js';
import type { FieldPath } from './path.js';

/** The fields that `--map` can point at a path of the row. */
export const FIELDS = [
  'id',
  'group',
  'prompt',
  'completion',
  'prompt_ids',
  'completion_ids',
  'reference',
  'solution',
  'reward',
  'segment_ends',
  'segment_char_ends',
  'values',
] as const;

export type Field = (typeof FIELDS)[number];

/** Where each field is in a row. */
export interface FieldMap {
  /** the fields that `--map` named: one of the places has to be there */
  readonly mapped: ReadonlyMap<Field, readonly FieldPath[]>;
  /** all others: where the join, the preset or their own names say that they may be */
  readonly defaults: FieldSources;
  /** the rows of another file, each as `join` beside the columns of the row that it belongs to */
  readonly join?: Join | undefined;
}

/** What a command cannot do without. */
export interface Needs {
  readonly prompt: boolean;
  readonly references: boolean;
  /** false where the command writes completions itself: a row's own are not looked at */
  readonly completion?: boolean;
}

/** A field that no single path leads to. */
export interface Rule {
  /** where it comes from, for people */
  readonly text: string;
  /** whether the value is a list with an item for each trace of the row, as `[]` makes it */
  readonly each: boolean;
  /**
   * null or undefined where the row has none.
   * @throws Mismatch where the row is not as the preset says
   */
  value(row: InputRow): unknown;
}

/** A place to look for a field. */
export type FieldSource = FieldPath | Rule;

/** Where fields are; several places are looked at in turn, the first that is not null counts. */
export type FieldSources = ReadonlyMap<Field, readonly FieldSource[]>;

/** Whether a source makes several traces of a row. */
export function isEach(source: FieldSource): boolean {
  return 'head' in source ? source.tail !== undefined : source.each;
}
