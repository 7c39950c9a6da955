// The output's columns: the input's that pass through, then ours (DESIGN §4), each with type and accessor.

import type { Field } from 'apache-arrow';
import { type OutputRow, ownTokens } from '../../scored.js';
import type { ColumnType, PassThroughColumn } from './schema.js';

/** A column of the output. */
export interface OutputColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** what stands in it, for a dataset card; absent of the input's, and of ours that every run may have */
  readonly meaning?: string;
  /** its value in a row; undefined where the input row has no such key */
  readonly value: (row: OutputRow) => unknown;
  /** of a columnar input: the column to copy, by its name there, and its type */
  readonly arrow?: Field;
}

export const STRING: ColumnType = { kind: 'string' };
export const INT32: ColumnType = { kind: 'int32' };
export const FLOAT32: ColumnType = { kind: 'float32' };
export const INT32_LIST: ColumnType = { kind: 'list', element: INT32 };
export const FLOAT32_LIST: ColumnType = { kind: 'list', element: FLOAT32 };

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
  // null where it is messages that nobody has rendered
  {
    name: 'prompt',
    type: STRING,
    value: ({ trace: { prompt } }) => (typeof prompt === 'string' ? prompt : null),
  },
  { name: 'completion', type: STRING, value: (row) => row.trace.completion },
  { name: 'prompt_ids', type: INT32_LIST, value: (row) => row.promptIds },
  { name: 'completion_ids', type: INT32_LIST, value: (row) => row.completionIds },
  // of runs with traces of several turns alone
  {
    name: 'completion_mask',
    type: INT32_LIST,
    value: (row) => {
      const own = ownTokens(row) ?? new Uint8Array(row.segments.at(-1)?.end ?? 0).fill(1);
      return own.length === 0 ? null : Int32Array.from(own);
    },
  },
  { name: 'logprobs', type: FLOAT32_LIST, value: (row) => row.logprobs },
  { name: 'finish_reason', type: STRING, value: (row) => row.finish ?? null },
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
  { name: 'reference_tokens', type: INT32_LIST, value: (row) => row.referenceTokens },
  { name: 'source_file', type: STRING, value: (row) => row.trace.source.file },
  { name: 'source_row', type: { kind: 'int64' }, value: (row) => row.trace.source.row },
  { name: 'source_item', type: INT32, value: (row) => row.trace.item ?? null },
  { name: 'sigma_ess', type: FLOAT32, value: (row) => row.sigmaEss },
  { name: 'sigma_max_weight', type: FLOAT32, value: (row) => row.sigmaMaxWeight },
  { name: 'sigma_gain', type: FLOAT32, value: (row) => row.sigmaGain },
  { name: 'status', type: STRING, value: (row) => statusText(row.status) },
] as const satisfies readonly OutputColumn[];

/** A column that is asked for beside ours, or in their place: its value stands in a row's `requested`. */
export function requestedColumn(name: string, type: ColumnType, meaning?: string): OutputColumn {
  return { name, type, ...(meaning && { meaning }), value: ({ requested }) => requested?.[name] ?? null };
}

/** A cell of such a column as rows have it, from what a reader gives: lists of numbers are typed arrays. @param cell null where there is none */
export function readCell(type: ColumnType, cell: unknown): unknown {
  if (type.kind === 'struct' && typeof cell === 'object' && cell !== null) {
    const found = cell as Readonly<Record<string, unknown>>;
    return Object.fromEntries(
      type.fields.map(({ name, key = name, type: own }) => [key, readCell(own, found[name] ?? null)]),
    );
  }
  if (type.kind !== 'list' || !Array.isArray(cell)) return cell;
  if (type.element.kind === 'float32') return Float32Array.from(cell as number[]);
  return type.element.kind === 'struct' ? cell.map((each) => readCell(type.element, each)) : cell;
}

/** Name of one of our columns. */
export type OurColumn = (typeof OURS)[number]['name'];

/** One of our columns by its name, or an export's column. */
export type WrittenColumn = OurColumn | OutputColumn;

/** All our columns, in the order in which they are written. */
export const OUR_COLUMNS: readonly OurColumn[] = OURS.map(({ name }) => name);

/** The columns of a run whose traces have one turn each. */
export function withoutMask(columns: readonly WrittenColumn[]): readonly WrittenColumn[] {
  return columns.filter((column) => columnName(column) !== 'completion_mask');
}

/** Those of our columns that are written where no column of the input holds the same text. */
export const TEXT_COLUMNS = ['prompt', 'completion'] as const satisfies readonly OurColumn[];
export type TextColumn = (typeof TEXT_COLUMNS)[number];

export function isTextColumn(column: WrittenColumn): column is TextColumn {
  return TEXT_COLUMNS.some((name) => name === column);
}

/** A written column's name. */
export function columnName(column: WrittenColumn): string {
  return typeof column === 'string' ? column : column.name;
}

/** `--keep` and `--drop`: names of input columns; at most one of the lists is there. */
export interface ColumnChoice {
  readonly keep?: readonly string[] | undefined;
  readonly drop?: readonly string[] | undefined;
}

/** Whether an input column is written. */
export function isWritten({ keep, drop }: ColumnChoice, name: string): boolean {
  return keep === undefined ? !drop?.includes(name) : keep.includes(name);
}

/** Puts the output's columns together: the input's, then ours in their fixed order. */
export function outputColumns(
  passThrough: readonly PassThroughColumn[],
  ourColumns: readonly WrittenColumn[],
): OutputColumn[] {
  const columns: OutputColumn[] = passThrough.map(({ name, as, type, arrow, isJoined }) => ({
    name: as,
    type,
    ...(arrow === undefined ? {} : { arrow }),
    value: ({ trace: { source, joined } }) => {
      const own = isJoined ? (joined ?? {}) : source.columns;
      return Object.hasOwn(own, name) ? own[name] : undefined;
    },
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
