// The rows of another file (`--join`), indexed so that each input row finds its partner: by a text that it has, or that its own ends with,
// whatever stands before and shortly behind it; and the kinds of such files.

import { createHash } from 'node:crypto';
import { usageError } from '../../errors.js';
import { describeKeys, describeValue } from '../../printable.js';
import type { BadRow, InputRow } from '../../rows.js';
import { stringifyJson } from '../arrow/json.js';
import { inferColumns } from '../arrow/schema.js';
import { type Columns, type FieldTable, type Join, Mismatch } from './fields.js';
import { lastQuestion } from './messages.js';

/** The index is kept in memory: so many characters of columns at most. */
const MAX_KEPT_CHARACTERS = 2 ** 30;

export interface JoinKey {
  /** for people: `problem = question` */
  readonly text: string;
  /** the key of a row of the joined file, undefined where it has none */
  readonly ofPartner: (columns: Columns) => string | undefined;
  /** the text in an input row, undefined where it has none */
  readonly ofRow: (row: InputRow) => string | undefined;
  /** whether the input row's text may hold more than the key: what a chat template puts around it */
  readonly isWithin: boolean;
}

export interface JoinOptions {
  /** the joined file's name for messages */
  readonly file: string;
  readonly key: JoinKey;
  readonly keep: ReadonlySet<string>;
  /** columns that are written; they are kept too */
  readonly written: readonly string[];
}

interface Partner {
  readonly columns: Columns;
  readonly text: string;
  /** another row with this key holds something else */
  isAmbiguous: boolean;
}

/** Reads a file's rows into an index, and hashes what is in it. @throws RredcotError for a row without a key, and a file too large for memory */
export async function openJoin(
  rows: AsyncIterable<InputRow | BadRow>,
  { file, key, keep, written }: JoinOptions,
): Promise<{ join: Join; sha256: string }> {
  const index = textIndex<Partner>();
  const hash = createHash('sha256');
  const inference = inferColumns();
  let kept = 0;
  for await (const row of rows) {
    const where = `${file}:${row.row}`;
    if (row.kind === 'bad')
      throw usageError(`${where}: ${row.rejection.reason}`, 'correct the file given to --join');
    const name = key.ofPartner(row.columns);
    if (name === undefined || name.trim() === '')
      throw usageError(
        `${where}: no key ${key.text} in the row (${describeKeys(row.columns)})`,
        '--join-on field=field',
      );
    const columns = Object.fromEntries(Object.entries(row.columns).filter(([column]) => keep.has(column)));
    inference.add(pick(columns, written));
    const text = stringifyJson(columns);
    hash.update(stringifyJson([name, text]));
    const known = index.get(name);
    if (known !== undefined) {
      if (known.text !== text) known.isAmbiguous = true;
      continue;
    }
    index.add(name, { columns, text, isAmbiguous: false });
    kept += text.length;
    if (kept > MAX_KEPT_CHARACTERS)
      throw usageError(
        `${file}: ${[...keep].join(', ')} hold more than ${MAX_KEPT_CHARACTERS} characters, too much for memory`,
        'give --join the rows that are needed',
      );
  }

  function partnerOf(row: InputRow): Columns {
    const fail = (why: string): never => {
      throw new Mismatch('join', `join: ${why} (${key.text}): --join-on field=field`);
    };
    const text = key.ofRow(row) ?? fail('no text to look for');
    const found = key.isWithin ? index.within(text) : index.get(text);
    if (found === undefined) return fail(`no row of ${file} for ${describeValue(text)}`);
    return found.isAmbiguous ? fail(`rows of ${file} for ${describeValue(text)} differ`) : found.columns;
  }
  const types = inference.finish().map((column) => ({ ...column, isJoined: true }));
  return { join: { partnerOf, written: types }, sha256: hash.digest('hex') };
}

export function pick(columns: Columns, names: readonly string[]): Columns {
  return Object.fromEntries(
    names.flatMap((name) => (Object.hasOwn(columns, name) ? [[name, columns[name]]] : [])),
  );
}

/** A kind of file for `--join`. */
export interface JoinPreset {
  readonly name: string;
  readonly what: string;
  readonly columns: readonly string[];
  /** for people: which text has to stand in a trace's prompt */
  readonly keyText: string;
  readonly key: (columns: Columns) => string | undefined;
  /** of its own rows */
  readonly fields: FieldTable;
}

/** The columns of a partner stand under this name beside the row's own. */
export const PREFIX = 'join';

export const JOINS: readonly JoinPreset[] = [
  {
    name: 'verl-parquet',
    what: "verl's train.parquet",
    columns: ['prompt', 'reward_model', 'data_source'],
    keyText: "prompt's last question",
    key: ({ prompt }) => lastQuestion(prompt),
    fields: { prompt: 'prompt', reference: 'reward_model.ground_truth' },
  },
  {
    name: 'open-rs',
    what: 'knoveleng/open-rs, MATH-500 and others of their form',
    columns: ['problem', 'solution', 'answer'],
    keyText: 'problem',
    key: ({ problem }) => (typeof problem === 'string' ? problem : undefined),
    fields: { reference: 'answer', solution: 'solution' },
  },
];

/** What any other file gives; `--map field=join.<column>` takes more. */
export const NAMED_FIELDS: FieldTable = {
  reference: ['reference', 'references', 'answer'],
  solution: 'solution',
};

/** The columns of the joined file that a field map reads. */
export function joinedColumns(sources: readonly { readonly text: string }[]): Set<string> {
  const column = new RegExp(`^${PREFIX}\\.([^.[]+)`);
  return new Set(sources.flatMap(({ text }) => column.exec(text)?.[1] ?? []));
}

/** A key is looked up by its first and its last characters, so many of them, before it is compared as a whole. */
const ANCHOR_UNITS = 32;
/** What may follow the key: what a chat template adds behind a question, and instructions. */
const MAX_TAIL_UNITS = 512;
/** A shorter key has to be the whole text: `7` ends many. */
const MIN_WITHIN_UNITS = 8;

/** Two characters between which a key cannot begin. */
const INSIDE_A_WORD = /^[\p{L}\p{N}]{2}$/u;

/** Opens an index; the texts themselves are not kept, white space around them does not count. */
export function textIndex<T>() {
  const values = new Map<string, T>(); // by the keys' hashes
  // a key's last characters → its length → its first ones: instructions that end every key alike cost a look at each
  // length, not at each key
  const ends = new Map<string, Map<number, Set<string>>>();
  const endLengths = new Set<number>();

  /** The longest key between `least` characters and `end` that ends there. */
  function longest(text: string, end: number, least: number): { length: number; value: T } | undefined {
    let best: { length: number; value: T } | undefined;
    for (const size of endLengths) {
      if (size > end) continue;
      for (const [length, starts] of ends.get(text.slice(end - size, end)) ?? []) {
        const start = end - length;
        if (start < 0 || length <= (best?.length ?? least)) continue;
        if (!starts.has(text.slice(start, Math.min(end, start + ANCHOR_UNITS)))) continue;
        if (INSIDE_A_WORD.test(text.slice(Math.max(0, start - 1), start + 1))) continue;
        const value = values.get(digestOf(text.slice(start, end)));
        if (value !== undefined) best = { length, value };
      }
    }
    return best;
  }

  return {
    add(key: string, value: T): void {
      const text = key.trim();
      values.set(digestOf(text), value);
      const end = text.slice(-ANCHOR_UNITS);
      endLengths.add(end.length);
      const lengths = ends.get(end) ?? new Map<number, Set<string>>();
      ends.set(end, lengths);
      lengths.set(text.length, (lengths.get(text.length) ?? new Set()).add(text.slice(0, ANCHOR_UNITS)));
    },
    get: (key: string): T | undefined => values.get(digestOf(key.trim())),
    /** The value of the longest key that `text` ends with, up to {@link MAX_TAIL_UNITS}; before a key's letter or digit none stands. */
    within(text: string): T | undefined {
      let best: { length: number; value: T } | undefined;
      for (let end = text.length; end > 0 && end >= text.length - MAX_TAIL_UNITS; end--)
        best = longest(text, end, best?.length ?? 0) ?? best;
      const isWhole = best?.length === text.trim().length;
      return isWhole || (best?.length ?? 0) >= MIN_WITHIN_UNITS ? best?.value : undefined;
    },
  };
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64').slice(0, 22);
}
