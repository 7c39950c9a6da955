// Output rows in, JSONL bytes out: floats in the fewest digits that keep the float32.

import type { OutputColumn, OutputRow } from './columns.js';
import { float32Text, stringifyJson } from './json.js';
import type { RowWriter } from './row-writer.js';
import type { ColumnType } from './schema.js';
import type { ByteSink } from './stdout.js';

/**
 * Writes one JSON object a row: the input row's own keys, whatever they hold, then ours. A key of the input with one of
 * our names is left out where it says the same, and becomes `input_<name>` where it does not.
 * @param columns ours
 */
export function openJsonlWriter(sink: ByteSink, columns: readonly OutputColumn[]): RowWriter {
  const names: ReadonlySet<string> = new Set(columns.map(({ name }) => name));

  function line(row: OutputRow): string {
    const ours = new Map(columns.map(({ name, type, value }) => [name, jsonText(value(row), type)]));
    const input = row.trace.source.columns;
    const parts: string[] = [];
    for (const [name, item] of Object.entries(input)) {
      const text = stringifyJson(item);
      if (text === ours.get(name)) continue;
      let as = name;
      while (names.has(as) || (as !== name && Object.hasOwn(input, as))) as = `input_${as}`;
      parts.push(`${JSON.stringify(as)}:${text}`);
    }
    for (const [name, text] of ours) parts.push(`${JSON.stringify(name)}:${text}`);
    return `{${parts.join(',')}}\n`;
  }

  let lines: string[] = [];
  return {
    add(row) {
      lines.push(line(row));
    },
    async flush() {
      const text = lines.join('');
      lines = [];
      if (text !== '') await sink.write(Buffer.from(text));
    },
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
