// What stands in the output: our columns, the input's without `--drop`, the joined file's, and the traces' texts; and under which names.

import { usageError } from '../errors.js';
import { didYouMean } from '../flag-values.js';
import type { PassThroughColumn } from '../io/arrow/schema.js';
import { type Columns, explodes, type FieldMap } from '../io/map/fields.js';
import { isDialogue } from '../io/map/messages.js';
import { TEXT_KEY } from '../io/write/output.js';
import {
  columnName,
  declared,
  isTextColumn,
  TEXT_COLUMNS,
  type TextColumn,
  type WrittenColumn,
} from './columns.js';

export interface LayoutOptions {
  /** ours that are written whatever the input has */
  readonly columns: readonly WrittenColumn[];
  /** texts that are written where no column of the input, or of the joined file, holds them */
  readonly texts: readonly TextColumn[];
  readonly drop: readonly string[];
  readonly partition: string | undefined;
  readonly rewardAsIs: boolean;
  /** whether the output has column types, and metadata */
  readonly typed: boolean;
}

/**
 * Puts the output's columns together.
 * @param input columns of the input; none where the output has no types, and the first row's count
 * @throws RredcotError (exit 2) for a name in `--drop` or `--partition` that no column has
 */
export function outputLayout(
  input: readonly PassThroughColumn[],
  { map, first }: { readonly map: FieldMap; readonly first: Columns },
  { columns, texts, drop, partition, rewardAsIs, typed }: LayoutOptions,
) {
  refuseUnknown('--drop', drop, typed ? input.map(({ name }) => name) : Object.keys(first));
  const joined = map.join?.written ?? [];
  const written = input.filter(({ name }) => !drop.includes(name));
  const isText = (column: TextColumn, name: string, isJoined: boolean) =>
    typed || isJoined
      ? isTextType(column, (isJoined ? joined : written).find((each) => each.name === name)?.type)
      : isTextValue(column, !drop.includes(name) && Object.hasOwn(first, name) ? first[name] : undefined);
  const held = TEXT_COLUMNS.map((column) => heldBy(column, map, isText)).filter((each) => each !== undefined);
  // a file without metadata (JSONL) cannot say that another column holds it: there only one of its own name counts
  const counting = held.filter(({ column, name }) => typed || name === column);
  const lacking = texts.filter((text) => !counting.some(({ column }) => column === text));
  const ourColumns = [...columns, ...lacking];
  const passThrough = resolveColumnNames([...written, ...joined], ourColumns, map, rewardAsIs);
  const others = passThrough.map(({ as }) => as);
  if (written.some(({ name }) => name === partition) && !others.includes(partition as string))
    throw usageError(
      `--partition ${partition}: is a column of the output, which every file keeps, expected one that only the input has`,
      `--partition <another column>, such as a copy of ${partition} under another name`,
    );
  refuseUnknown('--partition', [partition ?? []].flat(), others);
  const places = Object.fromEntries([
    ...held.map(({ column, name, isJoined }) => {
      const own = passThrough.find((each) => each.name === name && (each.isJoined ?? false) === isJoined);
      return [column, own?.as] as const;
    }),
    ...ourColumns.filter(isTextColumn).map((name) => [name, name] as const),
  ]);
  const text = JSON.stringify(places);
  return {
    ourColumns: declared(ourColumns),
    /** the input's and the joined file's, with their names in the output; of JSONL the latter alone */
    passThrough,
    /** which columns hold the texts */
    metadata: (text === '{}' ? {} : { [TEXT_KEY]: text }) as Readonly<Record<string, string>>,
  };
}

/** What is dropped by mistake is noticed when the run is over. @throws RredcotError (exit 2) */
export function refuseUnknown(flag: string, asked: readonly string[], names: readonly string[]): void {
  const unknown = asked.find((name) => !names.includes(name));
  if (unknown === undefined || names.length === 0) return;
  throw usageError(
    `${flag} ${unknown}: the input has no such column (${names.slice(0, 20).join(', ')})`,
    `${flag} ${didYouMean(unknown, names) ?? '<a,b>'}`,
  );
}

/** How paths into the joined file begin. */
const JOINED = 'join.';

/** The column of the input, or of the joined file, that holds a text; undefined where none does, in every row. */
function heldBy(
  column: TextColumn,
  map: FieldMap,
  isText: (column: TextColumn, name: string, isJoined: boolean) => boolean,
) {
  const [source, ...others] = map.mapped.get(column) ?? map.defaults.get(column) ?? [];
  const path = source?.text ?? '';
  // every trace has a partner; of several places in a row it is not always the same one
  const isJoined = path.startsWith(JOINED);
  const name = isJoined ? path.slice(JOINED.length) : path;
  const isIn = (isJoined || others.length === 0) && isText(column, name, isJoined);
  return isIn ? { column, name, isJoined } : undefined;
}

/** Whether a column of such a type holds a text; a prompt may be messages. */
function isTextType(column: TextColumn, type: PassThroughColumn['type'] | undefined): boolean {
  const element = type?.kind === 'list' ? type.element : undefined;
  const hasRole = element?.kind === 'struct' && element.fields.some(({ name }) => name === 'role');
  return type?.kind === 'string' || (column === 'prompt' && hasRole);
}

/** The same of a value. */
function isTextValue(column: TextColumn, value: unknown): boolean {
  return typeof value === 'string' || (column === 'prompt' && isDialogue(value));
}

/**
 * Finds output names for the input's columns where some are ours. A column that ours repeats (the trace's
 * own `id`, `group`, `prompt_ids`, `completion_ids`, `reward`, taken from there) is left out; any other becomes
 * `input_<name>`.
 * @param rewardAsIs the output's reward is the input's, on the same scale
 */
export function resolveColumnNames(
  passThrough: readonly PassThroughColumn[],
  ourColumns: readonly WrittenColumn[],
  map: FieldMap,
  rewardAsIs: boolean,
): PassThroughColumn[] {
  const ours: ReadonlySet<string> = new Set(ourColumns.map(columnName));
  const own = new Set(passThrough.filter(({ isJoined }) => !isJoined).map(({ name }) => name));
  const taken = new Set([...ours, ...passThrough.map(({ name }) => name)]);
  return passThrough.flatMap((column) => {
    const { name, isJoined = false } = column;
    if (!ours.has(name) && !(isJoined && own.has(name))) return [column];
    if (!isJoined && isRepeated(column, map, rewardAsIs, ours)) return [];
    const prefix = isJoined ? 'join_' : 'input_';
    let as = `${prefix}${name}`;
    while (taken.has(as)) as = `${prefix}${as}`;
    taken.add(as);
    return [{ ...column, as }];
  });
}

/** What is said of a column that has another name in the output. */
export function renamedText({ name, as, isJoined }: PassThroughColumn): string {
  return `${isJoined ? 'joined' : 'input'} column "${name}" has the name of an output column: written as "${as}"`;
}

const KEPT = ['id', 'group', 'prompt', 'prompt_ids', 'completion_ids', 'completion_mask', 'reward'] as const;

function isRepeated(
  { name: column, type, arrow }: PassThroughColumn,
  map: FieldMap,
  rewardAsIs: boolean,
  ours: ReadonlySet<string>,
): boolean {
  const name = KEPT.find((each) => each === column);
  if (name === undefined) return false;
  const [source] = map.mapped.get(name) ?? map.defaults.get(name) ?? [];
  // others stand behind it for inputs that lack it
  if (source !== undefined && source.text !== name) return false;
  // in an exploded row ids get a number appended, so the row's own id is another value
  if (name === 'id') return type.kind === 'string' && !explodes(map);
  // our text of a prompt is what the policy read, which the row's own need not be
  if (name === 'prompt' && ours.has('prompt')) return false;
  if (name === 'group' || name === 'prompt') return type.kind === 'string';
  // whole numbers up to 2^24 are the same as float32; a missing one may be filled in by comparing answers, which the status tells
  if (name === 'reward')
    return rewardAsIs && (type.kind === 'int64' || /^Float(16|32)$/.test(String(arrow?.type)));
  return type.kind === 'list' && type.element.kind === 'int64';
}
