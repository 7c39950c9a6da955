// The output's columns: the input's that pass through, then ours (DESIGN §4), each with type and accessor.

import type { Field } from 'apache-arrow';
import type { Trace } from '../trace.js';
import { explodes, type FieldMap } from './map.js';
import type { ColumnType, PassThroughColumn } from './schema.js';

/** A segment as it is written; token indices are null without a tokenizer. */
export interface SegmentRow {
  /** token indices, end exclusive */
  readonly start: number | null;
  readonly end: number | null;
  /** code points of `completion`, end exclusive */
  readonly charStart: number | null;
  readonly charEnd: number | null;
  readonly kind: 'thought' | 'answer';
  /** nats, summed over the segment's tokens */
  readonly entropy: number | null;
  /** v̂ after the segment */
  readonly value: number | null;
  readonly delta: number | null;
  /** summed over the segment's tokens */
  readonly sigma: number | null;
}

/** A scored trace; T tokens, K exits after the one before any thought, N references. */
export interface OutputRow {
  readonly trace: Trace;
  readonly promptIds: Int32Array | null;
  readonly completionIds: Int32Array | null; // (T)
  readonly logprobs: Float32Array | null; // (T)
  readonly entropies: Float32Array | null; // (T)
  readonly sigma: Float32Array | null; // (T)
  readonly segments: readonly SegmentRow[]; // (K) or (K+1)
  readonly valueStart: number | null;
  readonly referenceLogprobs: readonly Float32Array[] | null; // (K+1) of (N)
  readonly reward: number | null;
  /** b of R* = ζ − b; null where the trace has none */
  readonly baseline: number | null;
  readonly referenceUtilities: Float32Array | null; // (N)
  readonly sigmaEss: number | null;
  readonly sigmaMaxWeight: number | null;
  /** codes, written sorted; none means `ok` */
  readonly status: readonly string[];
  /** what an export's columns hold, by name; absent where ours are written */
  readonly exported?: Readonly<Record<string, unknown>>;
}

/** A column of the output. */
export interface OutputColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** its value in a row; undefined where the input row has no such key */
  readonly value: (row: OutputRow) => unknown;
  /** of a columnar input: the column to copy, by its name there, and its type */
  readonly arrow?: Field;
}

const STRING: ColumnType = { kind: 'string' };
const INT32: ColumnType = { kind: 'int32' };
const FLOAT32: ColumnType = { kind: 'float32' };
const INT32_LIST: ColumnType = { kind: 'list', element: INT32 };
const FLOAT32_LIST: ColumnType = { kind: 'list', element: FLOAT32 };

const SEGMENT: ColumnType = {
  kind: 'struct',
  fields: [
    { name: 'start', type: INT32 },
    { name: 'end', type: INT32 },
    { name: 'char_start', key: 'charStart', type: INT32 },
    { name: 'char_end', key: 'charEnd', type: INT32 },
    { name: 'kind', type: STRING },
    { name: 'entropy', type: FLOAT32 },
    { name: 'value', type: FLOAT32 },
    { name: 'delta', type: FLOAT32 },
    { name: 'sigma', type: FLOAT32 },
  ],
};

function statusText(codes: readonly string[]): string {
  return codes.length === 0 ? 'ok' : [...new Set(codes)].sort().join(';');
}

const OURS = [
  { name: 'id', type: STRING, value: (row) => row.trace.id },
  { name: 'group', type: STRING, value: (row) => row.trace.group ?? null },
  { name: 'prompt_ids', type: INT32_LIST, value: (row) => row.promptIds },
  { name: 'completion_ids', type: INT32_LIST, value: (row) => row.completionIds },
  { name: 'logprobs', type: FLOAT32_LIST, value: (row) => row.logprobs },
  { name: 'entropies', type: FLOAT32_LIST, value: (row) => row.entropies },
  { name: 'sigma', type: FLOAT32_LIST, value: (row) => row.sigma },
  {
    name: 'segments',
    type: { kind: 'list', element: SEGMENT },
    value: (row) => row.segments,
  },
  { name: 'value_start', type: FLOAT32, value: (row) => row.valueStart },
  {
    name: 'reference_logprobs',
    type: { kind: 'list', element: FLOAT32_LIST },
    value: (row) => row.referenceLogprobs,
  },
  { name: 'reward', type: FLOAT32, value: (row) => row.reward },
  { name: 'baseline', type: FLOAT32, value: (row) => row.baseline },
  { name: 'reference_utilities', type: FLOAT32_LIST, value: (row) => row.referenceUtilities },
  { name: 'source_row', type: { kind: 'int64' }, value: (row) => row.trace.source.row },
  { name: 'sigma_ess', type: FLOAT32, value: (row) => row.sigmaEss },
  { name: 'sigma_max_weight', type: FLOAT32, value: (row) => row.sigmaMaxWeight },
  { name: 'status', type: STRING, value: (row) => statusText(row.status) },
] as const satisfies readonly OutputColumn[];

/** Name of one of our columns. */
export type OurColumn = (typeof OURS)[number]['name'];

/** One of our columns by its name, or an export's column. */
export type WrittenColumn = OurColumn | OutputColumn;

/** All our columns, in the order in which they are written. */
export const OUR_COLUMNS: readonly OurColumn[] = OURS.map(({ name }) => name);

/**
 * Finds output names for the input's columns where some are ours. A column that ours repeats (the trace's
 * own `id`, `group`, `prompt_ids`, `completion_ids`, `reward`, taken from there) is left out; any other becomes
 * `input_<name>`, with a warning.
 * @param rewardAsIs the output's reward is the input's, on the same scale
 */
export function resolveColumnNames(
  passThrough: readonly PassThroughColumn[],
  ourColumns: readonly WrittenColumn[],
  map: FieldMap,
  rewardAsIs: boolean,
): { columns: PassThroughColumn[]; warnings: string[] } {
  const ours: ReadonlySet<string> = new Set(ourColumns.map(columnName));
  const taken = new Set([...ours, ...passThrough.map(({ name }) => name)]);
  const columns: PassThroughColumn[] = [];
  const warnings: string[] = [];
  for (const column of passThrough) {
    if (!ours.has(column.name)) {
      columns.push(column);
      continue;
    }
    if (isRepeated(column, map, rewardAsIs)) continue;
    let as = `input_${column.name}`;
    while (taken.has(as)) as = `input_${as}`;
    taken.add(as);
    columns.push({ ...column, as });
    warnings.push(`input column "${column.name}" has the name of an output column: written as "${as}"`);
  }
  return { columns, warnings };
}

const REPEATABLE = ['id', 'group', 'prompt', 'prompt_ids', 'completion_ids', 'reward'] as const satisfies (
  | OurColumn
  | 'prompt'
)[];

function isRepeated(
  { name: column, type, arrow }: PassThroughColumn,
  map: FieldMap,
  rewardAsIs: boolean,
): boolean {
  const name = REPEATABLE.find((ours) => ours === column);
  if (name === undefined) return false;
  const sources = map.mapped.get(name) ?? map.defaults.get(name) ?? [];
  if (sources.some((source) => source.text !== name)) return false;
  // in an exploded row ids get a number appended, so the row's own id is another value
  if (name === 'id') return type.kind === 'string' && !explodes(map);
  if (name === 'group' || name === 'prompt') return type.kind === 'string';
  // whole numbers up to 2^24 are the same as float32; a missing one may be filled in by comparing answers, which the status tells
  if (name === 'reward')
    return rewardAsIs && (type.kind === 'int64' || /^Float(16|32)$/.test(String(arrow?.type)));
  return type.kind === 'list' && type.element.kind === 'int64';
}

/** A written column's name. */
export function columnName(column: WrittenColumn): string {
  return typeof column === 'string' ? column : column.name;
}

/** Puts the output's columns together: the input's, then ours in their fixed order. */
export function outputColumns(
  passThrough: readonly PassThroughColumn[],
  ourColumns: readonly WrittenColumn[],
): OutputColumn[] {
  const columns: OutputColumn[] = passThrough.map(({ name, as, type, arrow }) => ({
    name: as,
    type,
    ...(arrow === undefined ? {} : { arrow }),
    value: ({ trace: { source } }) =>
      Object.hasOwn(source.columns, name) ? source.columns[name] : undefined,
  }));
  columns.push(...OURS.filter(({ name }) => ourColumns.includes(name)));
  for (const column of ourColumns) if (typeof column !== 'string') columns.push(column);
  const names = new Set<string>();
  for (const { name } of columns) {
    if (names.has(name)) throw new Error(`two output columns are called "${name}": resolveColumnNames first`);
    names.add(name);
  }
  return columns;
}
