// Output rows in, JSONL bytes out: floats in the fewest digits that keep the float32.

import type { OutputColumn, OutputRow } from './columns.js';
import { float32Text, stringifyJson } from './json.js';
import type { ColumnType } from './schema.js';
import type { ByteSink } from './stdout.js';

/** Writes rows in one format to one place. */
export interface RowWriter {
  write(rows: readonly OutputRow[]): Promise<void>;
  close(): Promise<void>;
  abort(): Promise<void>;
}

/** Writes one JSON object a row; a key that the input row lacks stays absent. */
export function openJsonlWriter(sink: ByteSink, columns: readonly OutputColumn[]): RowWriter {
  const keys = columns.map(({ name }) => `${JSON.stringify(name)}:`);

  function line(row: OutputRow): string {
    let text = '';
    for (const [n, { type, value }] of columns.entries()) {
      const item = value(row);
      if (item === undefined) continue;
      text += `${text === '' ? '' : ','}${keys[n]}${jsonText(item, type)}`;
    }
    return `{${text}}\n`;
  }

  return {
    write: (rows) => sink.write(Buffer.from(rows.map(line).join(''))),
    close: () => sink.commit(),
    abort: () => sink.abort(),
  };
}

function jsonText(value: unknown, type: ColumnType): string {
  if (value === null || value === undefined) return 'null';
  if (value instanceof Int32Array) return `[${value.join(',')}]`;
  if (type.kind === 'float32') return float32Text(Math.fround(value as number));
  if (type.kind === 'list' && hasFloat32(type)) {
    const items: string[] = [];
    for (const item of value as Iterable<unknown>) items.push(jsonText(item, type.element));
    return `[${items.join(',')}]`;
  }
  if (type.kind === 'struct' && hasFloat32(type)) {
    const item = value as Record<string, unknown>;
    return `{${type.fields.map((field) => `${JSON.stringify(field.name)}:${jsonText(item[field.name], field.type)}`).join(',')}}`;
  }
  return stringifyJson(value);
}

// only our own columns hold float32; the input's go out as they came in
function hasFloat32(type: ColumnType): boolean {
  if (type.kind === 'list') return hasFloat32(type.element);
  if (type.kind === 'struct') return type.fields.some((field) => hasFloat32(field.type));
  return type.kind === 'float32';
}
