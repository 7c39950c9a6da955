// Finds the types of the input columns that pass through from the values of many rows, and the rows that do not fit them.

import type { Field } from 'apache-arrow';
import { dataError } from '../../errors.js';
import { describeValue } from '../../printable.js';
import { type BadRow, type InputRow, rejectRow } from '../../rows.js';

/** The types that we write; every one nullable, `json` is a string column that holds JSON text. */
export type ColumnType =
  | { readonly kind: 'bool' | 'int32' | 'int64' | 'float32' | 'double' | 'string' | 'json' }
  | { readonly kind: 'list'; readonly element: ColumnType }
  | {
      readonly kind: 'struct';
      /** `key`: under which the values have it, where that is not its name */
      readonly fields: readonly { readonly name: string; readonly type: ColumnType; readonly key?: string }[];
    };

export interface PassThroughColumn {
  /** its name in the input */
  readonly name: string;
  /** its name in the output: another one where the name is ours */
  readonly as: string;
  /** of a columnar input, the nearest of our types */
  readonly type: ColumnType;
  /** of a columnar input, its name and type as they are written */
  readonly arrow?: Field;
  /** a column of the joined file */
  readonly isJoined?: boolean;
}

/** Deeper values are written as JSON text: readers' own limits are not far above. */
const MAX_NESTING = 24;
/** An object with more keys than this is a dictionary, not a record, and is written as JSON text. */
const MAX_STRUCT_FIELDS = 256;

// what was seen at one place of the columns' tree, a bit each; null leaves no mark
const BOOL = 1;
const INTEGER = 2;
const LONG = 4; // an integer for int64 that a double does not hold
const HUGE = 8; // an integer beyond int64
const FRACTION = 16;
const TEXT = 32;
const LIST = 64;
const STRUCT = 128;

interface Seen {
  kinds: number;
  element?: Seen;
  fields?: Map<string, Seen>;
}

/** Collects rows and tells the columns' types; the order in which rows come does not change a type. */
export function inferColumns() {
  const row: Seen = { kinds: STRUCT, fields: new Map() };
  return {
    add: (columns: Readonly<Record<string, unknown>>) => see(row, columns, MAX_NESTING),
    /** the columns in the order first seen */
    finish: (): PassThroughColumn[] =>
      Array.from(row.fields ?? [], ([name, seen]) => ({ name, as: name, type: typeOf(seen) })),
  };
}

function see(seen: Seen, value: unknown, levels: number): void {
  if (typeof value === 'string') seen.kinds |= TEXT;
  else if (typeof value === 'number') seen.kinds |= Number.isSafeInteger(value) ? INTEGER : FRACTION;
  else if (typeof value === 'boolean') seen.kinds |= BOOL;
  else if (typeof value === 'bigint') seen.kinds |= BigInt.asIntN(64, value) === value ? LONG : HUGE;
  if (typeof value !== 'object' || value === null) return;
  if (levels === 0) {
    seen.kinds |= LIST | STRUCT; // both: JSON text
  } else if (Array.isArray(value)) {
    seen.kinds |= LIST;
    seen.element ??= { kinds: 0 };
    const { element } = seen;
    for (let i = 0; i < value.length; i++) {
      const item: unknown = value[i];
      // 25k numbers a trace, of which the first tells all there is to tell
      if (typeof item === 'number' && element.kinds & (Number.isSafeInteger(item) ? INTEGER : FRACTION))
        continue;
      see(element, item, levels - 1);
    }
  } else {
    seen.kinds |= STRUCT;
    seen.fields ??= new Map();
    for (const key of Object.keys(value)) {
      let field = seen.fields.get(key);
      if (field === undefined) {
        // past the limit the type is settled, so the tree need not grow; the row itself has no limit
        if (levels < MAX_NESTING && seen.fields.size > MAX_STRUCT_FIELDS) continue;
        field = { kinds: 0 };
        seen.fields.set(key, field);
      }
      see(field, (value as Record<string, unknown>)[key], levels - 1);
    }
  }
}

/** What was seen of values without parts, and their type. */
const PLAIN_KINDS = new Map([
  [BOOL, 'bool'],
  [INTEGER, 'int64'],
  [LONG, 'int64'],
  [INTEGER | LONG, 'int64'],
  [FRACTION, 'double'],
  [INTEGER | FRACTION, 'double'],
  [TEXT, 'string'],
] as const);

function typeOf({ kinds, element = { kinds: 0 }, fields: found = new Map() }: Seen): ColumnType {
  const kind = PLAIN_KINDS.get(kinds);
  if (kind !== undefined) return { kind };
  if (kinds === LIST) return { kind: 'list', element: typeOf(element) };
  // mixed kinds; nothing but null, where JSON text leaves a later row free to hold anything; Parquet has no struct without fields
  if (kinds !== STRUCT || found.size === 0 || found.size > MAX_STRUCT_FIELDS) return { kind: 'json' };
  return { kind: 'struct', fields: Array.from(found, ([name, field]) => ({ name, type: typeOf(field) })) };
}

/** A value that its column's type cannot hold. */
export interface Misfit {
  /** column and path inside it, e.g. `metadata.tags[3]` */
  readonly path: string;
  readonly found: string;
  readonly expected: string;
}

/** Finds the first value of a row that its column's type cannot hold; null where all fit. */
export function findMisfit(
  columns: Readonly<Record<string, unknown>>,
  types: readonly PassThroughColumn[],
): Misfit | null {
  for (const { name, type, arrow } of types) {
    // a columnar input's types are its own
    if (arrow !== undefined) continue;
    const found = Object.hasOwn(columns, name) ? misfit(columns[name], type, name) : null;
    if (found !== null) return found;
  }
  return null;
}

/** Whether a type without parts can hold a value. */
const HOLDS: Readonly<Record<Exclude<ColumnType['kind'], 'list' | 'struct'>, (value: unknown) => boolean>> = {
  json: () => true,
  bool: (value) => typeof value === 'boolean',
  string: (value) => typeof value === 'string',
  double: (value) => typeof value === 'number',
  float32: (value) => typeof value === 'number',
  int32: (value) => typeof value === 'number' && (value | 0) === value,
  int64: (value) =>
    typeof value === 'bigint' ? BigInt.asIntN(64, value) === value : Number.isSafeInteger(value),
};

function misfit(value: unknown, type: ColumnType, path: string): Misfit | null {
  if (value === null || value === undefined) return null;
  switch (type.kind) {
    case 'list': {
      if (!Array.isArray(value)) break;
      const { element } = type;
      for (let i = 0; i < value.length; i++) {
        const item: unknown = value[i];
        // 25k numbers a trace: no path is made for one that fits
        if (typeof item === 'number' && element.kind === 'double') continue;
        if (element.kind === 'int64' && Number.isSafeInteger(item)) continue;
        const found = misfit(item, element, `${path}[${i}]`);
        if (found !== null) return found;
      }
      return null;
    }
    case 'struct': {
      if (typeof value !== 'object' || Array.isArray(value)) break;
      for (const key of Object.keys(value)) {
        const item = (value as Record<string, unknown>)[key];
        const field = type.fields.find(({ name }) => name === key);
        const at = `${path}.${key}`;
        if (field === undefined) {
          if (item === null) continue;
          return { path: at, found: describeValue(item), expected: 'no such key' };
        }
        const found = misfit(item, field.type, at);
        if (found !== null) return found;
      }
      return null;
    }
    default:
      if (HOLDS[type.kind](value)) return null;
  }
  return { path, found: describeValue(value), expected: describeType(type) };
}

/** A type in the notation of DuckDB and Hugging Face: `list<struct<role: string, content: string>>`. */
export function describeType(type: ColumnType): string {
  if (type.kind === 'list') return `list<${describeType(type.element)}>`;
  if (type.kind !== 'struct') return type.kind;
  return `struct<${type.fields.map(({ name, type: field }) => `${name}: ${describeType(field)}`).join(', ')}>`;
}

// ------ rows of an output with column types: those of a stream, whose first rows tell the types, and the check that later rows fit them

const FIRST_ROWS = 1024;
const FIRST_BYTES = 16 * 2 ** 20;

/**
 * Infers the columns of a stream that can be read only once from its first rows (1,024, or 16 MiB of them),
 * then hands on all rows. A later row that does not fit comes out as a `BadRow` with code `column_type`.
 * @param typed whether the output has types; where it has none there is nothing to infer, and rows of any kind fit
 */
export async function inferFromWindow(
  rows: AsyncGenerator<InputRow | BadRow>,
  typed: boolean,
): Promise<{ columns: PassThroughColumn[]; rows: AsyncGenerator<InputRow | BadRow> }> {
  if (!typed) return { columns: [], rows };
  const inference = inferColumns();
  const window: (InputRow | BadRow)[] = [];
  let bytes = 0;
  while (window.length < FIRST_ROWS && bytes < FIRST_BYTES) {
    const next = await rows.next();
    if (next.done) break;
    window.push(next.value);
    bytes += next.value.raw.length;
    if (next.value.kind === 'row') inference.add(next.value.columns);
  }
  const columns = inference.finish();

  async function* all(): AsyncGenerator<InputRow | BadRow> {
    try {
      yield* window.splice(0);
      for await (const row of rows) yield row.kind === 'row' ? fitted(row, columns) : row;
    } finally {
      await rows.return(undefined);
    }
  }
  return { columns, rows: all() };
}

function fitted(row: InputRow, columns: readonly PassThroughColumn[]): InputRow | BadRow {
  const rejected = (why: string) =>
    rejectRow(row, { code: 'column_type', reason: `column ${why}: read a file instead of stdin` });
  const misfit = findMisfit(row.columns, columns);
  if (misfit !== null)
    return rejected(`${misfit.path} is ${misfit.found}, the first rows had ${misfit.expected}`);
  const known = new Set(columns.map(({ name }) => name));
  const unknown = Object.keys(row.columns).find((name) => !known.has(name) && row.columns[name] !== null);
  if (unknown === undefined) return row;
  const types = columns.map(({ name, type }) => `${name}: ${describeType(type)}`).join(', ');
  const found = describeValue(row.columns[unknown]);
  return rejected(`${unknown} is ${found}, the first rows had no such column (${types.slice(0, 200)})`);
}

/** @throws RredcotError for a value that another one was at the first pass */
export function assertFits(row: InputRow, columns: readonly PassThroughColumn[]): void {
  const misfit = findMisfit(row.columns, columns);
  if (misfit === null) return;
  throw dataError(
    `${row.file}:${row.row}: column ${misfit.path} is ${misfit.found}, expected ${misfit.expected}`,
    'it was that when first read: did the file change?',
  );
}
