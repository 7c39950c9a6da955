// What a preset is: how a dump is recognised, and where a trace's fields are in its rows.

import type { InputRow } from '../../rows.js';
import { Mismatch } from './mismatch.js';
import { type Columns, parsePath } from './path.js';
import type { Field, FieldSources, Rule } from './sources.js';

/** A kind of dump. Several may share a name: a data set and its copies. */
export interface Preset {
  readonly name: string;
  /** what is in such a file, in a few words */
  readonly what: string;
  /** the columns that tell it */
  readonly columns: readonly string[];
  /** what the columns must be like, where their names are not enough */
  readonly fits?: (columns: Columns) => boolean;
  readonly fields: FieldSources;
  /** what a user has to know before trusting the numbers */
  readonly notes: readonly string[];
}

/** A preset as its table spells it. */
interface PresetTable extends Omit<Preset, 'fields' | 'notes'> {
  readonly fields: Partial<Record<Field, PlaceText | Rule | readonly (PlaceText | Rule)[]>>;
  readonly notes?: readonly string[];
}

/** A path as `--map` takes it. */
type PlaceText = string;

/** Makes a preset of its table. */
export function preset({ fields, notes = [], ...rest }: PresetTable): Preset {
  const entries = Object.entries(fields) as [Field, PresetTable['fields'][Field]][];
  const sources = entries.map(([field, places]) => {
    const list = [places ?? []].flat() as (PlaceText | Rule)[];
    return [field, list.map((place) => (typeof place === 'string' ? parsePath(place) : place))] as const;
  });
  return { ...rest, notes, fields: new Map(sources) };
}

/** A rule that gives one value for all traces of the row. */
export function rule(text: string, value: (columns: Columns, row: InputRow) => unknown): Rule {
  return { text, each: false, value: (row) => value(row.columns, row) };
}

/** A rule that gives a value for each trace of the row. */
export function ruleForEach(text: string, value: (columns: Columns) => readonly unknown[]): Rule {
  return { text, each: true, value: (row) => value(row.columns) };
}

/** Turns a row down because it is not as the preset says. */
export function mismatch(reason: string): never {
  throw new Mismatch('map', `${reason}: --preset none takes fields by their names, --map field=<path>`);
}
