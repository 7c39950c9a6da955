// Output rows in, JSONL bytes out: floats in the fewest digits that keep the float32.

import type { OutputColumn, OutputRow } from './columns.js';
import { float32Text, stringifyJson } from './json.js';
import type { RowEncoder, RowWriter } from './row-writer.js';
import type { ColumnType } from './schema.js';
import type { ByteSink } from './stdout.js';

/**
 * Writes one JSON object a row: the input row's own keys, whatever they hold, then ours. A key of the input with one of
 * our names is left out where it says the same, and becomes `input_<name>` where it does not.
 * @param columns ours
 */
export function openJsonlWriter(sink: ByteSink, columns: readonly OutputColumn[]): RowWriter {
  const encoder = jsonlEncoder(columns);
  return {
    add: encoder.add,
    async flush() {
      const bytes = encoder.finish();
      if (bytes !== null) await sink.write(bytes);
    },
    writeEncoded: (bytes) => sink.write(bytes),
    close: () => sink.commit(),
    abort: () => sink.abort(),
  };
}

/** The same as bytes. */
export function jsonlEncoder(columns: readonly OutputColumn[]): RowEncoder {
  const spelt = columns.map((column) => ({ ...column, spell: speller(column.type) }));
  const names: ReadonlySet<string> = new Set(columns.map(({ name }) => name));

  function line(row: OutputRow): string {
    const ours = new Map(spelt.map(({ name, value, spell }) => [name, spell(value(row))]));
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
    finish() {
      if (lines.length === 0) return null;
      // a copy, where Node has taken a short text's memory from its pool
      const bytes = new Uint8Array(Buffer.from(lines.join('')));
      lines = [];
      return bytes;
    },
  };
}

/** How a column's values are spelt: found once for all of them. */
function speller(type: ColumnType): (value: unknown) => string {
  const spell = spellerOfPresent(type);
  return (value) => (value === null || value === undefined ? 'null' : spell(value));
}

function spellerOfPresent(type: ColumnType): (value: unknown) => string {
  if (type.kind === 'float32') return (value) => float32Text(Math.fround(value as number));
  if (type.kind === 'int32') return String;
  if (type.kind === 'list') {
    const item = speller(type.element);
    return (value) => {
      if (value instanceof Int32Array) return `[${value.join(',')}]`;
      const items: string[] = [];
      for (const each of value as Iterable<unknown>) items.push(item(each));
      return `[${items.join(',')}]`;
    };
  }
  if (type.kind === 'struct') {
    const fields = type.fields.map(({ name, key = name, type: field }, n) => {
      return { key, lead: `${n === 0 ? '{' : ','}${JSON.stringify(name)}:`, spell: speller(field) };
    });
    return (value) => {
      let text = '';
      for (const { key, lead, spell } of fields)
        text += lead + spell((value as Readonly<Record<string, unknown>>)[key]);
      return `${text}}`;
    };
  }
  return stringifyJson;
}
