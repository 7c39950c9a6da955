// Makes Arrow columns: of values, in the types that we write, and of ranges of an input's columns, in the type that these have.

import {
  type Data,
  DataType,
  type Field,
  makeData,
  RecordBatch,
  type Schema,
  Struct,
  Type,
} from 'apache-arrow';
import { stringifyJson } from './json.js';
import type { ColumnType } from './schema.js';
import { bit, dictionaryPlace, valueAt, viewBytes } from './values.js';

/** Offsets of text and lists are int32. */
const MAX_OFFSET = 2 ** 31 - 1;

/** The constructor's many overloads are of no use to a walk over any type. */
const makeColumnData = makeData as unknown as (props: Readonly<Record<string, unknown>>) => Data;

type Values = ArrayLike<unknown>;

/** Makes a column of values that were checked against its type (`findMisfit`). @throws Error, naming the path, where a batch holds too much of it */
export function columnData(arrow: DataType, type: ColumnType, values: Values, path: string): Data {
  const { length } = values;
  let nullCount = 0;
  for (let i = 0; i < length; i++) if ((values[i] ?? null) === null) nullCount++;
  const nullBitmap = nullCount === 0 ? null : bitsOf(length, (i) => (values[i] ?? null) !== null);
  const buffers = buffersOf(arrow, type, values, path);
  return makeColumnData({ type: arrow, length, nullCount, nullBitmap, ...buffers });
}

/** What Arrow wants beside type, length and nulls; the place of a null is that of an empty value. */
function buffersOf(arrow: DataType, type: ColumnType, values: Values, path: string) {
  switch (type.kind) {
    case 'bool':
      return { data: bitsOf(values.length, (i) => values[i] === true) };
    case 'int32':
    case 'float32':
    case 'double':
      return { data: numbersOf(arrow, [values]) };
    case 'int64':
      return { data: longsOf(values) };
    case 'string':
    case 'json': {
      const spell = type.kind === 'json' ? stringifyJson : String;
      const texts = Array.from(values, (value) => ((value ?? null) === null ? '' : spell(value)));
      const valueOffsets = offsetsOf(texts, Buffer.byteLength, path);
      const data = new Uint8Array(valueOffsets.at(-1) as number);
      const bytes = Buffer.from(data.buffer); // the same memory
      for (const [n, text] of texts.entries()) bytes.write(text, valueOffsets[n] as number);
      return { valueOffsets, data };
    }
    case 'list': {
      const lists = Array.from(values, (value) => (value ?? []) as Values);
      const valueOffsets = offsetsOf(lists, ({ length }) => length, path);
      const item = (arrow.children[0] as Field).type;
      const filled = lists.filter(({ length }) => length > 0);
      const items =
        filled.length > 0 && filled.every((list) => ArrayBuffer.isView(list))
          ? numbersOf(item, filled)
          : filled.flatMap((list) => Array.from(list));
      return { valueOffsets, child: columnData(item, type.element, items, `${path}[]`) };
    }
    case 'struct':
      return {
        // field by field, which is three times as fast as object by object
        children: type.fields.map(({ name, key = name, type: field }, n) => {
          const own = Array.from(values, (value) =>
            Object.hasOwn(Object(value), key) ? (value as Record<string, unknown>)[key] : null,
          );
          return columnData((arrow.children[n] as Field).type, field, own, `${path}.${name}`);
        }),
      };
  }
}

function bitsOf(length: number, isSet: (index: number) => boolean): Uint8Array {
  const bytes = new Uint8Array((length + 7) >> 3);
  for (let i = 0; i < length; i++) if (isSet(i)) bytes[i >> 3] = (bytes[i >> 3] as number) | (1 << (i & 7));
  return bytes;
}

/** The numbers of lists, one after the other. */
function numbersOf(arrow: DataType, lists: readonly Values[]): Float32Array {
  const length = lists.reduce((sum, list) => sum + list.length, 0);
  const data = new (arrow.ArrayType as new (length: number) => Float32Array)(length);
  let at = 0;
  for (const list of lists) {
    // 25k numbers a trace: copied whole, never one by one
    if (ArrayBuffer.isView(list)) data.set(list as ArrayLike<number>, at);
    else for (let i = 0; i < list.length; i++) data[at + i] = (list[i] ?? 0) as number;
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

/** Values `from` to `to` (exclusive) of a column; where `data` is null, as many nulls. */
export interface Range {
  readonly data: Data | null;
  readonly from: number;
  readonly to: number;
}

/** Copies ranges into one column of `type`, the plain type (`passThroughColumns`) of every range's own. */
export function gather(type: DataType, given: readonly Range[], path: string): Data {
  if (OTHER_FORMS.has(type.typeId))
    throw new Error(`column ${path}: ${type} cannot be copied, expected a plain type`);
  const ranges = given.flatMap((range) => plainRanges(type, range, path));
  const length = ranges.reduce((sum, { from, to }) => sum + to - from, 0);
  const isWhole = ranges.every(({ data }) => data !== null && data.nullCount === 0);
  const validity = isWhole ? {} : { nullBitmap: gatherBits(ranges, (data, i) => data.getValid(i)) };
  const made = (buffers: Readonly<Record<string, unknown>>): Data =>
    makeColumnData({ type, length, ...validity, ...buffers });
  switch (type.typeId as Type) {
    case Type.Null:
      return makeColumnData({ type, length });
    case Type.Bool:
      return made({ data: gatherBits(ranges, (data, i) => bit(data.values, data.offset + i)) });
    case Type.Utf8:
    case Type.Binary:
      return made(gatherBytes(ranges, path));
    case Type.List:
    case Type.Map: {
      const valueOffsets = gatherOffsets(ranges, path);
      const items = below(ranges, 0, (i, data) => (data === null ? 0 : Number(data.valueOffsets[i])));
      return made({ valueOffsets, child: gather(itemType(type), items, `${path}[]`) });
    }
    case Type.FixedSizeList: {
      const size = (type as DataType & { listSize: number }).listSize;
      const items = below(ranges, 0, (i) => i * size);
      return made({ child: gather(itemType(type), items, `${path}[]`) });
    }
    case Type.Struct: {
      const fields = type.children as readonly Field[];
      const own = (n: number) => below(ranges, n);
      return made({ children: fields.map((each, n) => gather(each.type, own(n), `${path}.${each.name}`)) });
    }
    default:
      return made({ data: gatherValues(type, ranges, length) });
  }
}

function itemType(type: DataType): DataType {
  return (type.children[0] as Field).type;
}

/** The same ranges of the n-th child. @param place where what stands at an index begins there */
function below(
  ranges: readonly Range[],
  n: number,
  place: (index: number, data: Data | null) => number = (i) => i,
): Range[] {
  return ranges.map(({ data, from, to }) => {
    return { data: data && (data.children[n] as Data), from: place(from, data), to: place(to, data) };
  });
}

/** Forms of values that are not written, and the plain one of those that differ from it in the width of their offsets alone. */
const OTHER_FORMS: ReadonlyMap<Type, Type | undefined> = new Map([
  [Type.LargeUtf8, Type.Utf8],
  [Type.LargeBinary, Type.Binary],
  [Type.LargeList, Type.List],
  ...[Type.Utf8View, Type.BinaryView, Type.Dictionary].map((type) => [type, undefined] as const),
]);

// a range of another form, as ranges of the plain one: dictionaries and views written out, JSON for what has no type
function plainRanges(type: DataType, range: Range, path: string): Range[] {
  const { data, from, to } = range;
  if (data === null || (OTHER_FORMS.get(data.typeId) ?? data.typeId) === type.typeId)
    return to > from ? [range] : [];
  if (DataType.isDictionary(data.type)) {
    const ranges: Range[] = [];
    for (let i = from; i < to; i++) {
      const [chunk, at] = data.getValid(i) ? dictionaryPlace(data, Number(data.values[i])) : [null, 0];
      ranges.push(...plainRanges(type, { data: chunk, from: at, to: at + 1 }, path));
    }
    return ranges;
  }
  if (DataType.isUtf8View(data.type) || DataType.isBinaryView(data.type)) {
    // their shared buffers may be large and little used: only the bytes in use are copied
    const isValid = (n: number): boolean => data.getValid(from + n);
    const bytes = Array.from({ length: to - from }, (_, n) =>
      isValid(n) ? viewBytes(data, from + n) : new Uint8Array(),
    );
    const valueOffsets = offsetsOf(bytes, ({ length }) => length, path);
    const nullBitmap = bitsOf(bytes.length, isValid);
    const own = { type, length: bytes.length, nullBitmap, valueOffsets, data: Buffer.concat(bytes) };
    return [{ data: makeColumnData(own), from: 0, to: bytes.length }];
  }
  if (!DataType.isUtf8(type)) throw new Error(`a column of type ${data.type} among those of ${type}`);
  const values = Array.from({ length: to - from }, (_, n) => valueAt(data, from + n));
  return [{ data: columnData(type, { kind: 'json' }, values, path), from: 0, to: to - from }];
}

/** What holds of each value of the ranges, in their order; `none` where there is no data. */
function ofEach<T>(ranges: readonly Range[], none: T, of: (data: Data, index: number) => T): T[] {
  const found: T[] = [];
  for (const { data, from, to } of ranges)
    for (let i = from; i < to; i++) found.push(data === null ? none : of(data, i));
  return found;
}

function gatherBits(ranges: readonly Range[], isSet: (data: Data, index: number) => boolean): Uint8Array {
  const set = ofEach(ranges, false, isSet);
  return bitsOf(set.length, (n) => set[n] === true);
}

function gatherValues(type: DataType, ranges: readonly Range[], length: number): ArrayBufferView {
  const stride = ranges.find(({ data }) => data !== null)?.data?.stride ?? 1;
  const values = new (type.ArrayType as new (length: number) => Float64Array)(length * stride);
  let at = 0;
  for (const { data, from, to } of ranges) {
    if (data !== null) {
      const part = (data.values as Float64Array).subarray(from * stride, to * stride);
      const convert = conversion(data.type, type);
      if (convert === null) values.set(part, at);
      else for (let i = 0; i < part.length; i++) values[at + i] = convert(part[i] as number) as number;
    }
    at += (to - from) * stride;
  }
  return values;
}

// from the units that Parquet lacks to those that it has, see `parquetSchema`
function conversion(from: DataType, to: DataType): ((value: number | bigint) => number | bigint) | null {
  if (DataType.isTimestamp(from) && DataType.isTimestamp(to) && from.unit !== to.unit)
    return (seconds) => (seconds as bigint) * 1000n;
  if (DataType.isTime(from) && DataType.isTime(to) && from.unit !== to.unit)
    return (seconds) => (seconds as number) * 1000;
  if (DataType.isDate(from) && DataType.isDate(to) && from.unit !== to.unit)
    return (milliseconds) => Math.floor(Number(milliseconds) / 864e5);
  return null;
}

function gatherOffsets(ranges: readonly Range[], path: string): Int32Array {
  const sizeAt = ({ valueOffsets }: Data, i: number) => Number(valueOffsets[i + 1]) - Number(valueOffsets[i]);
  return offsetsOf(ofEach(ranges, 0, sizeAt), Number, path);
}

function gatherBytes(ranges: readonly Range[], path: string) {
  const valueOffsets = gatherOffsets(ranges, path);
  const parts = ranges.map(({ data, from, to }) => {
    const [start, end] = [from, to].map((index) => Number(data?.valueOffsets[index]));
    return data === null ? new Uint8Array() : (data.values as Uint8Array).subarray(start, end);
  });
  return { valueOffsets, data: Buffer.concat(parts) };
}

/** Rows `from` to `to`, exclusive, of something that holds rows. */
export interface Piece<T> {
  readonly unit: T;
  readonly from: number;
  readonly to: number;
}

export function gatherRows(schema: Schema, pieces: readonly Piece<RecordBatch>[]): RecordBatch {
  const length = pieces.reduce((rows, { from, to }) => rows + to - from, 0);
  const children = schema.fields.map(({ type, name }, n) => {
    const ranges = pieces.map(({ unit, from, to }) => ({ data: unit.data.children[n] ?? null, from, to }));
    return gather(type, ranges, name);
  });
  return batchOf(schema, length, children);
}

export function batchOf(schema: Schema, length: number, children: Data[]): RecordBatch {
  const type = new Struct(schema.fields);
  return new RecordBatch(schema, makeData({ type, length, nullCount: 0, children }));
}
