// Output rows in, Arrow record batches out, built straight from typed arrays.

import {
  Bool,
  type Data,
  type DataType,
  Field,
  Float32,
  Float64,
  Int32,
  Int64,
  List,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  Utf8,
} from 'apache-arrow';
import { gather, type Range } from './arrow-gather.js';
import type { OutputColumn, OutputRow } from './columns.js';
import { stringifyJson } from './json.js';
import type { ColumnType } from './schema.js';

/** Offsets of text and lists are int32. */
const MAX_OFFSET = 2 ** 31 - 1;

/**
 * The Arrow schema of the columns; every field nullable, as Hugging Face readers demand.
 * @param inputType the type in which a columnar input's column is written
 */
export function arrowSchema(
  columns: readonly OutputColumn[],
  metadata: Readonly<Record<string, string>>,
  inputType: (type: DataType) => DataType = (type) => type,
): Schema {
  const fields = columns.map(({ name, type, arrow }) =>
    arrow === undefined
      ? new Field(name, arrowType(type), true)
      : new Field(name, inputType(arrow.type), true, arrow.metadata),
  );
  return new Schema(fields, new Map(Object.entries(metadata)));
}

function arrowType(type: ColumnType): DataType {
  switch (type.kind) {
    case 'bool':
      return new Bool();
    case 'int32':
      return new Int32();
    case 'int64':
      return new Int64();
    case 'float32':
      return new Float32();
    case 'double':
      return new Float64();
    case 'string':
    case 'json':
      return new Utf8();
    case 'list':
      // `element` is Parquet's own name for a list's child
      return new List(new Field('element', arrowType(type.element), true));
    case 'struct':
      return new Struct(type.fields.map(({ name, type: field }) => new Field(name, arrowType(field), true)));
  }
}

/** Builds one batch; the rows' values have been checked against the columns' types (`findMisfit`). */
export function arrowBatch(
  schema: Schema,
  columns: readonly OutputColumn[],
  rows: readonly OutputRow[],
): RecordBatch {
  const children = columns.map(({ name, type, value, arrow }, n) => {
    const field = schema.fields[n] as Field;
    if (arrow === undefined) return buildData(field.type, type, rows.map(value), name);
    return gather(field.type, inputRanges(rows, arrow.name), name);
  });
  const type = new Struct(schema.fields);
  return new RecordBatch(schema, makeData({ type, length: rows.length, nullCount: 0, children }));
}

// rows that follow each other in one batch of the input are copied as one range
function inputRanges(rows: readonly OutputRow[], name: string): Range[] {
  const ranges: { data: Data; from: number; to: number }[] = [];
  for (const { trace } of rows) {
    const { arrow, file, row } = trace.source;
    const data = arrow?.batch.columns.get(name);
    if (arrow === undefined || data === undefined)
      throw new Error(`${file}:${row}: no column ${name} of a columnar input`);
    const last = ranges.at(-1);
    if (last?.data === data && last.to === arrow.index) last.to++;
    else ranges.push({ data, from: arrow.index, to: arrow.index + 1 });
  }
  return ranges;
}

type Values = readonly unknown[];

function buildData(arrow: DataType, type: ColumnType, values: Values, path: string): Data {
  const base = { length: values.length, ...validity(values) };
  switch (type.kind) {
    case 'bool':
      return makeData({ ...base, type: arrow as Bool, data: bits(values, (value) => value === true) });
    case 'int32':
      return makeData({ ...base, type: arrow as Int32, data: fill(new Int32Array(values.length), values) });
    case 'float32':
      return makeData({
        ...base,
        type: arrow as Float32,
        data: fill(new Float32Array(values.length), values),
      });
    case 'double':
      return makeData({
        ...base,
        type: arrow as Float64,
        data: fill(new Float64Array(values.length), values),
      });
    case 'int64':
      return makeData({ ...base, type: arrow as Int64, data: longs(values) });
    case 'string':
      return makeData({ ...base, type: arrow as Utf8, ...textBuffers(values as (string | null)[], path) });
    case 'json': {
      const texts = values.map((value) => (isNull(value) ? null : stringifyJson(value)));
      return makeData({ ...base, type: arrow as Utf8, ...textBuffers(texts, path) });
    }
    case 'list':
      return buildList(arrow as List, type.element, values, path);
    case 'struct': {
      const children = type.fields.map((field, n) => {
        const items = fieldOf(values, field.name);
        return buildData((arrow.children[n] as Field).type, field.type, items, `${path}.${field.name}`);
      });
      return makeData({ ...base, type: arrow as Struct, children });
    }
  }
}

type ItemArray = Float32Array | Int32Array;

function buildList(arrow: List, element: ColumnType, values: Values, path: string): Data {
  const lists = values as readonly (ArrayLike<unknown> | null | undefined)[];
  const valueOffsets = new Int32Array(lists.length + 1);
  let end = 0;
  for (let n = 0; n < lists.length; n++) {
    end += lists[n]?.length ?? 0;
    valueOffsets[n + 1] = end;
  }
  checkOffset(end, path);

  const itemType = (arrow.children[0] as Field).type;
  let child: Data;
  if (lists.some((list) => list instanceof Float32Array || list instanceof Int32Array)) {
    // 25k values a trace: copied whole, never one by one
    const data = element.kind === 'float32' ? new Float32Array(end) : new Int32Array(end);
    for (const [n, list] of lists.entries()) {
      if (list) data.set(list as ItemArray, valueOffsets[n]);
    }
    child = makeData({ type: itemType, length: end, nullCount: 0, data } as Parameters<typeof makeData>[0]);
  } else if (element.kind === 'int64' || element.kind === 'double') {
    child = numberItems(itemType, lists, end);
  } else {
    const items: unknown[] = new Array(end);
    let at = 0;
    for (const list of lists) if (list) for (let i = 0; i < list.length; i++) items[at++] = list[i];
    child = buildData(itemType, element, items, `${path}[]`);
  }
  return makeData({ type: arrow, length: lists.length, ...validity(values), valueOffsets, child });
}

// the lists' numbers without a list of all of them in between
function numberItems(
  type: DataType,
  lists: readonly (ArrayLike<unknown> | null | undefined)[],
  length: number,
): Data {
  const data = type instanceof Int64 ? new BigInt64Array(length) : new Float64Array(length);
  const words = new Int32Array(data.buffer); // low word first, as on every machine that Node runs on
  const valid = new Uint8Array(length);
  let at = 0;
  let nullCount = 0;
  for (const list of lists) {
    if (!list) continue;
    for (let i = 0; i < list.length; i++, at++) {
      const value = list[i];
      if (isNull(value)) {
        nullCount++;
        continue;
      }
      valid[at] = 1;
      if (typeof value === 'bigint' || data instanceof Float64Array) data[at] = value as never;
      else writeLong(words, at, value as number);
    }
  }
  const nullBitmap = nullCount === 0 ? null : bits(valid as unknown as Values, (flag) => flag === 1);
  return makeData({ type, length, nullCount, nullBitmap, data } as Parameters<typeof makeData>[0]);
}

function writeLong(words: Int32Array, at: number, value: number): void {
  words[2 * at] = value;
  words[2 * at + 1] = value === (value | 0) ? value >> 31 : Math.floor(value / 2 ** 32);
}

function textBuffers(texts: readonly (string | null | undefined)[], path: string) {
  const valueOffsets = new Int32Array(texts.length + 1);
  let end = 0;
  for (let n = 0; n < texts.length; n++) {
    const text = texts[n];
    if (text) end += Buffer.byteLength(text);
    checkOffset(end, path);
    valueOffsets[n + 1] = end;
  }
  const data = Buffer.allocUnsafeSlow(end);
  for (let n = 0; n < texts.length; n++) {
    const text = texts[n];
    if (text) data.write(text, valueOffsets[n] as number);
  }
  return { valueOffsets, data: new Uint8Array(data.buffer) };
}

function checkOffset(end: number, path: string): void {
  if (end > MAX_OFFSET) throw new Error(`column ${path}: a batch holds over 2 GiB of it`);
}

function validity(values: Values): { nullCount: number; nullBitmap: Uint8Array | null } {
  let nullCount = 0;
  for (const value of values) if (isNull(value)) nullCount++;
  return { nullCount, nullBitmap: nullCount === 0 ? null : bits(values, (value) => !isNull(value)) };
}

// one bit a value, lowest first
function bits(values: Values, isSet: (value: unknown) => boolean): Uint8Array {
  const bytes = new Uint8Array((values.length + 7) >> 3);
  for (let i = 0; i < values.length; i++) {
    if (isSet(values[i])) bytes[i >> 3] = (bytes[i >> 3] as number) | (1 << (i & 7));
  }
  return bytes;
}

function isNull(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

// plain loops: `from` with a function costs ten times as much
function fill<T extends Int32Array | Float32Array | Float64Array>(array: T, values: Values): T {
  for (let i = 0; i < values.length; i++) array[i] = (values[i] as number | null | undefined) ?? 0;
  return array;
}

function longs(values: Values): BigInt64Array {
  const array = new BigInt64Array(values.length);
  const words = new Int32Array(array.buffer); // low word first, as on every machine that Node runs on
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number | bigint | null | undefined;
    if (typeof value === 'bigint') array[i] = value;
    else if (value) writeLong(words, i, value);
  }
  return array;
}

function fieldOf(values: Values, name: string): unknown[] {
  const items: unknown[] = new Array(values.length);
  const isInherited = name in Object.prototype;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as Record<string, unknown> | null | undefined;
    items[i] = isNull(value) ? null : isInherited ? ownField(value, name) : value[name];
  }
  return items;
}

function ownField(value: unknown, name: string): unknown {
  return !isNull(value) && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : null;
}
