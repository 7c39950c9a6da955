// Lists of values as Arrow columns of the types that we write.

import { type Data, type DataType, type Field, makeData } from 'apache-arrow';
import { stringifyJson } from './json.js';
import type { ColumnType } from './schema.js';

/** Offsets of text and lists are int32. */
export const MAX_OFFSET = 2 ** 31 - 1;

/** The constructor's many overloads are of no use to a walk over any type. */
export const makeColumnData = makeData as unknown as (props: Readonly<Record<string, unknown>>) => Data;

type Values = ArrayLike<unknown>;

/**
 * Makes a column. Its values, of which null and undefined are null, must have been checked against its type (`findMisfit`).
 * @param path the column's name, for messages
 * @throws Error where a batch holds too much of it
 */
export function columnData(arrow: DataType, type: ColumnType, values: Values, path: string): Data {
  const { length } = values;
  let nullCount = 0;
  for (let i = 0; i < length; i++) if (isNull(values[i])) nullCount++;
  const nullBitmap = nullCount === 0 ? null : bitsOf(length, (i) => !isNull(values[i]));
  const buffers = buffersOf(arrow, type, values, path);
  return makeColumnData({ type: arrow, length, nullCount, nullBitmap, ...buffers });
}

function isNull(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

/** What Arrow wants beside type, length and nulls; the place of a null is that of an empty value. */
function buffersOf(arrow: DataType, type: ColumnType, values: Values, path: string) {
  switch (type.kind) {
    case 'bool':
      return { data: bitsOf(values.length, (i) => values[i] === true) };
    case 'int32':
    case 'float32':
    case 'double':
      return { data: numbersOf(arrow, values) };
    case 'int64':
      return { data: longsOf(values) };
    case 'string':
      return textsOf(
        Array.from(values, (value) => (value ?? '') as string),
        path,
      );
    case 'json':
      return textsOf(
        Array.from(values, (value) => (isNull(value) ? '' : stringifyJson(value))),
        path,
      );
    case 'list': {
      const lists = Array.from(values, (value) => (value ?? []) as Values);
      const valueOffsets = offsetsOf(lists, ({ length }) => length, path);
      const item = (arrow.children[0] as Field).type;
      // 25k numbers a trace: copied whole, never one by one
      const filled = lists.filter(({ length }) => length > 0);
      const items =
        filled.length > 0 && filled.every((list) => ArrayBuffer.isView(list))
          ? joined(item, filled, valueOffsets.at(-1) as number)
          : filled.flatMap((list) => Array.from(list));
      return { valueOffsets, child: columnData(item, type.element, items, `${path}[]`) };
    }
    case 'struct':
      return {
        // field by field, which is three times as fast as object by object
        children: type.fields.map(({ name, key = name, type: field }, n) => {
          const own = Array.from(values, (value) => ownField(value, key));
          return columnData((arrow.children[n] as Field).type, field, own, `${path}.${name}`);
        }),
      };
  }
}

function ownField(value: unknown, key: string): unknown {
  return isNull(value) || !Object.hasOwn(value, key) ? null : (value as Record<string, unknown>)[key];
}

function bitsOf(length: number, isSet: (index: number) => boolean): Uint8Array {
  const bytes = new Uint8Array((length + 7) >> 3);
  for (let i = 0; i < length; i++) if (isSet(i)) bytes[i >> 3] = (bytes[i >> 3] as number) | (1 << (i & 7));
  return bytes;
}

function arrayOf({ ArrayType }: DataType, length: number): Float32Array {
  return new (ArrayType as new (length: number) => Float32Array)(length);
}

function numbersOf(arrow: DataType, values: Values): ArrayBufferView {
  if (values instanceof arrow.ArrayType) return values as Float32Array;
  const data = arrayOf(arrow, values.length);
  for (let i = 0; i < values.length; i++) data[i] = (values[i] ?? 0) as number;
  return data;
}

function joined(arrow: DataType, lists: readonly Values[], length: number): Float32Array {
  const data = arrayOf(arrow, length);
  let at = 0;
  for (const list of lists) {
    data.set(list as ArrayLike<number>, at);
    at += list.length;
  }
  return data;
}

/** By two words a value, the low one first, as on every machine that Node runs on: to make a BigInt of each takes longer. */
function longsOf(values: Values): BigInt64Array {
  const words = new Int32Array(2 * values.length);
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? 0;
    if (typeof value === 'bigint') {
      words[2 * i] = Number(BigInt.asIntN(32, value));
      words[2 * i + 1] = Number(value >> 32n);
    } else {
      words[2 * i] = value as number;
      words[2 * i + 1] = Math.floor((value as number) / 2 ** 32);
    }
  }
  return new BigInt64Array(words.buffer);
}

function textsOf(texts: readonly string[], path: string) {
  const valueOffsets = offsetsOf(texts, Buffer.byteLength, path);
  const data = new Uint8Array(valueOffsets.at(-1) as number);
  const bytes = Buffer.from(data.buffer); // the same memory
  for (const [n, text] of texts.entries()) bytes.write(text, valueOffsets[n] as number);
  return { valueOffsets, data };
}

/** Where each text or list ends, which is where the next one begins. */
function offsetsOf<T>(values: readonly T[], sizeOf: (value: T) => number, path: string): Int32Array {
  const offsets = new Int32Array(values.length + 1);
  let end = 0;
  for (const [n, value] of values.entries()) {
    end += sizeOf(value);
    if (end > MAX_OFFSET) throw new Error(`column ${path}: a batch holds over 2 GiB of it`);
    offsets[n + 1] = end;
  }
  return offsets;
}
