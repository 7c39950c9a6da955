// The columns of an export: what `OutputRow.exported` holds under their names.

import type { OutputColumn } from '../columns.js';
import type { ColumnType } from '../schema.js';

export const INT32_LIST: ColumnType = { kind: 'list', element: { kind: 'int32' } };
export const FLOAT32_LIST: ColumnType = { kind: 'list', element: { kind: 'float32' } };

/** A column that an export's row function fills. */
export function exportColumn(name: string, type: ColumnType): OutputColumn {
  return { name, type, value: ({ exported }) => exported?.[name] ?? null };
}
