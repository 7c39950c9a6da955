// Column types in, the `features` of a Hugging Face dataset card out, as YAML lines.

import type { ColumnType } from './schema.js';

/** A column of the files that the card describes. */
export interface CardColumn {
  readonly name: string;
  /** null for one that has the type of a columnar input */
  readonly type: ColumnType | null;
}

/** Our flat types by the names that `datasets` has for them; JSON text is text there. */
const DTYPES: Partial<Record<ColumnType['kind'], string>> = {
  bool: 'bool',
  int32: 'int32',
  int64: 'int64',
  float32: 'float32',
  double: 'float64',
  string: 'string',
  json: 'string',
};

/** The lines under `features:`; null where a column has a type without a name there, and the reader has to look. */
export function featureLines(columns: readonly CardColumn[], indent: string): string[] | null {
  const lines: string[] = [];
  for (const { name, type } of columns) {
    const body = type && typeLines(type, `${indent}  `);
    if (body === null) return null;
    lines.push(`${indent}- name: ${yamlText(name)}`, ...body);
  }
  return lines;
}

function typeLines(type: ColumnType, indent: string): string[] | null {
  if (type.kind === 'struct') return under(`${indent}struct:`, featureLines(type.fields, indent));
  if (type.kind !== 'list') {
    const dtype = DTYPES[type.kind];
    return dtype === undefined ? null : [`${indent}dtype: ${dtype}`];
  }
  const { element } = type;
  if (element.kind === 'struct') return under(`${indent}list:`, featureLines(element.fields, indent));
  if (element.kind === 'list') return under(`${indent}list:`, typeLines(element, `${indent}  `));
  const dtype = DTYPES[element.kind];
  return dtype === undefined ? null : [`${indent}list: ${dtype}`];
}

function under(head: string, lines: string[] | null): string[] | null {
  return lines === null ? null : [head, ...lines];
}

/** A JSON string is a YAML string; quoted always, since `no`, `1` and `null` are none. */
export function yamlText(text: string): string {
  return JSON.stringify(text);
}
