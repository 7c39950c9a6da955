// What stands in the output: our columns, the input's with `--keep` and `--drop`, the joined file's, and the traces' texts;
// and under which names.

import { usageError } from '../errors.js';
import { didYouMean } from '../flag-values.js';
import { type ColumnChoice, isWritten } from '../io/arrow/output-columns.js';
import type { PassThroughColumn } from '../io/arrow/schema.js';
import { type Columns, explodes, type FieldMap } from '../io/map/fields.js';
import { isDialogue } from '../io/map/messages.js';
import { TEXT_KEY } from '../io/write/output.js';
import {
  columnName,
  declared,
  isTextColumn,
  type OurColumn,
  TEXT_COLUMNS,
  type TextColumn,
  type WrittenColumn,
} from './columns.js';

export interface LayoutOptions {
  /** ours that are written whatever the input has */
  readonly columns: readonly WrittenColumn[];
  /** texts that may be written besides */
  readonly texts: readonly TextColumn[];
  readonly text: TextChoice;
  readonly choice: ColumnChoice;
  readonly rewardAsIs: boolean;
  readonly isSampled?: boolean;
  /** whether the output has column types, and metadata */
  readonly typed: boolean;
}

/**
 * Puts the output's columns together.
 * @param input columns of the input; none where the output has no types, and the first row's count
 * @throws RredcotError (exit 2) for a name in `--keep` or `--drop` that no column has
 */
export function outputLayout(
  input: readonly PassThroughColumn[],
  { map, first }: { readonly map: FieldMap; readonly first: Columns },
  { columns, texts: possible, text, choice, rewardAsIs, isSampled, typed }: LayoutOptions,
) {
  refuseUnknown(choice, typed ? input.map(({ name }) => name) : Object.keys(first));
  const joined = map.join?.written ?? [];
  const written = input.filter(({ name }) => isWritten(choice, name));
  const values = Object.fromEntries(Object.entries(first).filter(([name]) => isWritten(choice, name)));
  const ofInput = typed ? holdingOfTypes(written) : holdingOfValues(values);
  const ofJoined = holdingOfTypes(joined);
  const holding = (name: string, isJoined: boolean) => (isJoined ? ofJoined(name) : ofInput(name));
  const texts = chooseTexts(possible, text, map, holding, typed);
  const ourColumns = [...columns, ...texts.ours];
  const passThrough = resolveColumnNames([...written, ...joined], ourColumns, map, rewardAsIs, isSampled);
  return {
    ourColumns: declared(ourColumns),
    /** the input's and the joined file's, with their names in the output; of JSONL the latter alone */
    passThrough,
    /** which columns hold the texts */
    metadata: textMetadata(texts, ourColumns, passThrough),
  };
}

function textMetadata(
  { held }: ReturnType<typeof chooseTexts>,
  ourColumns: readonly WrittenColumn[],
  passThrough: readonly PassThroughColumn[],
): Record<string, string> {
  const ours = ourColumns.filter(isTextColumn);
  const places: Partial<Record<TextColumn, string>> = Object.fromEntries(ours.map((name) => [name, name]));
  for (const [text, { name, isJoined }] of Object.entries(held)) {
    const column = passThrough.find((each) => each.name === name && (each.isJoined ?? false) === isJoined);
    if (column !== undefined) places[text as TextColumn] ??= column.as;
  }
  return Object.keys(places).length === 0 ? {} : { [TEXT_KEY]: JSON.stringify(places) };
}

/** What is kept or dropped by mistake is noticed when the run is over. */
export function refuseUnknown({ keep, drop }: ColumnChoice, names: readonly string[]): void {
  const flag = keep === undefined ? '--drop' : '--keep';
  const unknown = (keep ?? drop ?? []).find((name) => !names.includes(name));
  if (unknown === undefined || names.length === 0) return;
  throw usageError(
    `${flag} ${unknown}: the input has no such column (${names.slice(0, 20).join(', ')})`,
    `${flag} ${didYouMean(unknown, names) ?? '<a,b>'}`,
  );
}

/** `--text`, `--no-text`; undefined: only a text that no written column of the input holds. */
export type TextChoice = boolean | undefined;

/** What a written column of the input holds, as far as a reader of texts cares. */
type Holding = 'text' | 'messages' | undefined;

/** How paths into the joined file begin. */
const JOINED = 'join.';

/**
 * Decides for each text that may be written. A file without metadata (JSONL) cannot say that another column holds it, so there only a column
 * of the text's own name counts. A prompt of messages counts as there, unless `--text` asks for what they were rendered to.
 * @param holding what the written columns of the input, or of the joined file, hold
 * @returns those of ours that are written, and the columns of the input, or of the joined file, that hold a text
 */
function chooseTexts(
  possible: readonly TextColumn[],
  choice: TextChoice,
  map: FieldMap,
  holding: (column: string, isJoined: boolean) => Holding,
  hasMetadata: boolean,
) {
  const held: { -readonly [column in TextColumn]?: { name: string; isJoined: boolean } } = {};
  const ours = TEXT_COLUMNS.filter((column) => {
    const [source, ...others] = map.mapped.get(column) ?? map.defaults.get(column) ?? [];
    const path = source?.text ?? '';
    // every trace has a partner; of several places in a row it is not always the same one
    const isJoined = path.startsWith(JOINED);
    const name = isJoined ? path.slice(JOINED.length) : path;
    const found = isJoined || others.length === 0 ? holding(name, isJoined) : undefined;
    const isHeld = found === 'text' || (found === 'messages' && column === 'prompt' && choice !== true);
    if (isHeld) held[column] = { name, isJoined };
    if (choice === false || !possible.includes(column)) return false;
    const isNamed = name === column || (hasMetadata && choice !== true);
    return !(isHeld && isNamed);
  });
  return { ours, held };
}

/** What columns with types hold. */
function holdingOfTypes(columns: readonly PassThroughColumn[]): (column: string) => Holding {
  const types = new Map(columns.map(({ name, type }) => [name, type]));
  return (column) => {
    const type = types.get(column);
    if (type?.kind === 'string') return 'text';
    const element = type?.kind === 'list' ? type.element : undefined;
    const hasRole = element?.kind === 'struct' && element.fields.some(({ name }) => name === 'role');
    return hasRole ? 'messages' : undefined;
  };
}

/** The same of columns without types, by their values in the first row. */
function holdingOfValues(columns: Readonly<Record<string, unknown>>): (column: string) => Holding {
  return (column) => {
    const value = Object.hasOwn(columns, column) ? columns[column] : undefined;
    return typeof value === 'string' ? 'text' : isDialogue(value) ? 'messages' : undefined;
  };
}

/**
 * Finds output names for the input's columns where some are ours. A column that ours repeats (the trace's
 * own `id`, `group`, `prompt_ids`, `completion_ids`, `reward`, taken from there) is left out; any other becomes
 * `input_<name>`.
 * @param rewardAsIs the output's reward is the input's, on the same scale
 * @param isSampled completions, and with them the traces' ids, are not the input's
 */
export function resolveColumnNames(
  passThrough: readonly PassThroughColumn[],
  ourColumns: readonly WrittenColumn[],
  map: FieldMap,
  rewardAsIs: boolean,
  isSampled = false,
): PassThroughColumn[] {
  const ours: ReadonlySet<string> = new Set(ourColumns.map(columnName));
  const own = new Set(passThrough.filter(({ isJoined }) => !isJoined).map(({ name }) => name));
  const taken = new Set([...ours, ...passThrough.map(({ name }) => name)]);
  const columns: PassThroughColumn[] = [];
  for (const column of passThrough) {
    const { name, isJoined = false } = column;
    if (!ours.has(name) && !(isJoined && own.has(name))) {
      columns.push(column);
      continue;
    }
    const isNew = isSampled && SAMPLED.includes(name);
    if (!isJoined && !isNew && isRepeated(column, map, rewardAsIs, ourColumns)) continue;
    const prefix = isJoined ? 'join_' : 'input_';
    let as = `${prefix}${name}`;
    while (taken.has(as)) as = `${prefix}${as}`;
    taken.add(as);
    columns.push({ ...column, as });
  }
  return columns;
}

/** What is said of a column that has another name in the output. */
export function renamedText({ name, as, isJoined }: PassThroughColumn): string {
  return `${isJoined ? 'joined' : 'input'} column "${name}" has the name of an output column: written as "${as}"`;
}

const REPEATABLE = [
  ...(['id', 'group', 'prompt', 'prompt_ids', 'completion_ids', 'completion_mask', 'reward'] as const),
] as const satisfies (OurColumn | 'prompt')[];

const SAMPLED: readonly string[] = ['id', 'completion_ids', 'reward'];

function isRepeated(
  { name: column, type, arrow }: PassThroughColumn,
  map: FieldMap,
  rewardAsIs: boolean,
  ourColumns: readonly WrittenColumn[],
): boolean {
  const name = REPEATABLE.find((ours) => ours === column);
  if (name === undefined) return false;
  const sources = map.mapped.get(name) ?? map.defaults.get(name) ?? [];
  // others stand behind it for inputs that lack it
  if (sources[0] !== undefined && sources[0].text !== name) return false;
  // in an exploded row ids get a number appended, so the row's own id is another value
  if (name === 'id') return type.kind === 'string' && !explodes(map);
  // our text of a prompt is what the policy read, which the row's own need not be
  if (name === 'prompt' && ourColumns.includes('prompt')) return false;
  if (name === 'group' || name === 'prompt') return type.kind === 'string';
  // whole numbers up to 2^24 are the same as float32; a missing one may be filled in by comparing answers, which the status tells
  if (name === 'reward')
    return rewardAsIs && (type.kind === 'int64' || /^Float(16|32)$/.test(String(arrow?.type)));
  return type.kind === 'list' && type.element.kind === 'int64';
}
