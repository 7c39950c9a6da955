// Writes output rows as JSONL, floats in the fewest digits that keep the float32.

import { printableJson } from '../../printable.js';
import type { OutputRow } from '../../scored.js';
import { float32Text, stringifyJson } from '../arrow/json.js';
import type { OutputColumn } from '../arrow/output-columns.js';
import type { ColumnType } from '../arrow/schema.js';
import type { RowWriter } from '../arrow/writer.js';
import type { ByteSink } from '../files/stdout.js';

/**
 * Writes one JSON object a row: the input row's own keys, whatever they hold, then ours. A key of the input with one of
 * our names is left out where it says the same, and becomes `input_<name>` where it does not; one of the joined file
 * becomes `join_<name>` where its name is taken. The lines may be shown on a terminal: control characters in strings are
 * escaped, all of them.
 * @param columns ours
 * @param drop of the input's
 */
export function openJsonlWriter(
  sink: ByteSink,
  columns: readonly OutputColumn[],
  drop: readonly string[] = [],
): RowWriter {
  const spelt = columns.map((column) => ({ ...column, spell: speller(column.type) }));
  const names: ReadonlySet<string> = new Set(columns.map(({ name }) => name));

  function line(row: OutputRow): string {
    const ours = new Map(spelt.map(({ name, value, spell }) => [name, spell(value(row))]));
    const { source, joined = {} } = row.trace;
    const input = source.columns;
    const parts: string[] = [];
    for (const name of Object.keys(input)) {
      if (drop.includes(name)) continue;
      const text = stringifyJson(input[name]);
      // but for padding, ids say the same
      const isCut = row.trace.padding !== undefined && /^(prompt_ids|completion_(ids|mask))$/.test(name);
      if (text === ours.get(name) || (isCut && names.has(name))) continue;
      let as = name;
      while (names.has(as) || (as !== name && Object.hasOwn(input, as))) as = `input_${as}`;
      parts.push(`${JSON.stringify(as)}:${text}`);
    }
    for (const [name, item] of Object.entries(joined)) {
      let as = name;
      while (names.has(as) || Object.hasOwn(input, as)) as = `join_${as}`;
      parts.push(`${JSON.stringify(as)}:${stringifyJson(item)}`);
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
      if (lines.length > 0) await sink.write(printableBytes(lines.join('')));
      lines = [];
    },
    close: () => sink.finish(),
    abort: () => sink.abort(),
  };
}

/** UTF-8 of lines without control characters. */
function printableBytes(lines: string): Buffer {
  const bytes = Buffer.from(lines);
  // as many bytes as characters: all is ASCII, and DEL is the only one that JSON does not escape there
  const isPlain = bytes.length === lines.length && !bytes.includes(0x7f);
  return isPlain ? bytes : Buffer.from(printableJson(lines));
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
