// Decides under which names the input's columns are written beside ours.

import { columnName, type OurColumn, type WrittenColumn } from '../arrow/output-columns.js';
import type { PassThroughColumn } from '../arrow/schema.js';
import { explodes } from '../map/field-map.js';
import type { FieldMap } from '../map/sources.js';

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
): { columns: PassThroughColumn[]; renamed: PassThroughColumn[] } {
  const ours: ReadonlySet<string> = new Set(ourColumns.map(columnName));
  const own = new Set(passThrough.filter(({ isJoined }) => !isJoined).map(({ name }) => name));
  const taken = new Set([...ours, ...passThrough.map(({ name }) => name)]);
  const columns: PassThroughColumn[] = [];
  const renamed: PassThroughColumn[] = [];
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
    renamed.push({ ...column, as });
  }
  return { columns, renamed };
}

/** What is said of a renamed column. */
export function renamedText({ name, as, isJoined }: PassThroughColumn): string {
  return `${isJoined ? 'joined' : 'input'} column "${name}" has the name of an output column: written as "${as}"`;
}

const REPEATABLE = ['id', 'group', 'prompt', 'prompt_ids', 'completion_ids', 'reward'] as const satisfies (
  | OurColumn
  | 'prompt'
)[];

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
  if (sources.some((source) => source.text !== name)) return false;
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
