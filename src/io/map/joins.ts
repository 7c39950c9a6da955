// Data sets of prompts and answers without traces: what `--join` takes from them, and how their rows are found.

import { lastQuestion } from './dialogue.js';
import { type Columns, parsePath } from './path.js';
import { at } from './rules.js';
import type { Field, FieldSources } from './sources.js';

/** A kind of file for `--join`. */
export interface JoinPreset {
  readonly name: string;
  readonly what: string;
  /** the columns that tell it */
  readonly columns: readonly string[];
  /** for people: which text has to stand in a trace's prompt */
  readonly keyText: string;
  readonly key: (columns: Columns) => string | undefined;
  /** fields that it gives */
  readonly fields: FieldSources;
}

/** The columns of a partner stand under this name beside the row's own. */
const PREFIX = 'join';

function joinFields(fields: Partial<Record<Field, readonly string[]>>): FieldSources {
  const entries = Object.entries(fields) as [Field, readonly string[]][];
  return new Map(
    entries.map(([field, paths]) => [field, paths.map((path) => parsePath(`${PREFIX}.${path}`))]),
  );
}

function textOrNothing(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

const verlParquet: JoinPreset = {
  name: 'verl-parquet',
  what: "verl's train.parquet",
  columns: ['prompt', 'reward_model', 'data_source'],
  keyText: "prompt's last question",
  key: ({ prompt }) => lastQuestion(prompt),
  fields: joinFields({ prompt: ['prompt'], reference: ['reward_model.ground_truth'] }),
};

const openRs: JoinPreset = {
  name: 'open-rs',
  what: 'knoveleng/open-rs, MATH-500 and others of their form',
  columns: ['problem', 'solution', 'answer'],
  keyText: 'problem',
  key: (columns) => textOrNothing(at(columns, 'problem')),
  fields: joinFields({ reference: ['answer'], solution: ['solution'] }),
};

export const JOINS: readonly JoinPreset[] = [verlParquet, openRs];

/** What any other file gives; `--map field=join.<column>` takes more. */
export const NAMED_FIELDS = joinFields({
  reference: ['reference', 'references', 'answer'],
  solution: ['solution'],
});

/** The columns of the joined file that a field map reads. */
export function joinedColumns(sources: Iterable<{ readonly text: string }>): Set<string> {
  const columns = new Set<string>();
  for (const { text } of sources) {
    const [, column] = new RegExp(`^${PREFIX}\\.([^.[]+)`).exec(text) ?? [];
    if (column !== undefined) columns.add(column);
  }
  return columns;
}
