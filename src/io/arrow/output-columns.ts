// A column of the output: its type, and the accessor of its cell in a row.

import type { Field } from 'apache-arrow';
import type { OutputRow } from '../../scored.js';
import type { ColumnType, PassThroughColumn } from './schema.js';

/** A column of the output. */
export interface OutputColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** what stands in it, for the dataset card and the docs; absent of the input's */
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

/** A column that is asked for beside ours, or in their place: its value stands in a row's `requested`. */
export function requestedColumn(name: string, type: ColumnType, meaning: string): OutputColumn {
  return { name, type, meaning, value: ({ requested }) => requested?.[name] ?? null };
}

/** A cell as rows have it, from what a reader gives: lists of numbers are typed arrays. @returns null for what is none of the type */
export function readCell(type: ColumnType, cell: unknown): unknown {
  switch (type.kind) {
    case 'int32':
    case 'int64':
    case 'float32':
    case 'double':
      return typeof cell === 'number' || typeof cell === 'bigint' ? Number(cell) : null;
    case 'string':
      return typeof cell === 'string' ? cell : null;
    case 'struct': {
      if (typeof cell !== 'object' || cell === null) return null;
      const found = cell as Readonly<Record<string, unknown>>;
      return Object.fromEntries(
        type.fields.map(({ name, key = name, type: own }) => [key, readCell(own, found[name])]),
      );
    }
    case 'list': {
      if (!isList(cell)) return null;
      if (type.element.kind === 'float32') return Float32Array.from(cell, Number);
      if (type.element.kind === 'int32') return Int32Array.from(cell, Number);
      return Array.from(cell, (each) => readCell(type.element, each));
    }
    default:
      return cell ?? null;
  }
}

/** Whether a cell holds a list. */
export function isList(cell: unknown): cell is ArrayLike<unknown> {
  return Array.isArray(cell) || ArrayBuffer.isView(cell);
}

/** Puts the output's columns together: the input's, then ours. */
export function outputColumns(
  passThrough: readonly PassThroughColumn[],
  ours: readonly OutputColumn[],
): OutputColumn[] {
  const ofInput: OutputColumn[] = passThrough.map(({ name, as, type, arrow, isJoined }) => ({
    name: as,
    type,
    ...(arrow === undefined ? {} : { arrow }),
    value: ({ trace: { source, joined } }) => {
      const own = isJoined ? (joined ?? {}) : source.columns;
      return Object.hasOwn(own, name) ? own[name] : undefined;
    },
  }));
  const columns = [...ofInput, ...ours];
  const double = columns.find(({ name }, n) => columns.findIndex((other) => other.name === name) < n);
  if (double !== undefined)
    throw new Error(`two output columns are called "${double.name}": resolveColumnNames first`);
  return columns;
}
