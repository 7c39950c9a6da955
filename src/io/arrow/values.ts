// Converts an Arrow value to the plain JavaScript value that stands for it in traces and in JSON; and refuses a damaged record batch before
// its values are read.

import {
  type Data,
  DataType,
  DateUnit,
  type Decimal,
  Field,
  type RecordBatch,
  type TimeUnit,
  Type,
  util,
} from 'apache-arrow';
import { ByteBuffer } from 'flatbuffers';
import { fieldsOf, put, standsFor } from './json.js';

/** What any type has that we look at; arrow-js types are too narrow to be walked generically. */
// biome-ignore lint/suspicious/noExplicitAny: see above
type AnyType = any;

/**
 * The value at an index, null where it has none. Integers beyond 2^53 are BigInt; decimals, dates and times are text
 * (ISO 8601), bytes base64, maps lists of `{key, value}`, durations whole numbers in their own unit.
 */
export function valueAt(data: Data, index: number): unknown {
  if (!data.getValid(index)) return null;
  const { values, valueOffsets, stride, children } = data as Data<AnyType>;
  const type = data.type as AnyType;
  switch (type.typeId as Type) {
    case Type.Null:
      return null;
    case Type.Bool:
      return bit(values, data.offset + index);
    case Type.Int:
    case Type.Duration:
      return safeInteger(values[index]);
    case Type.Float:
      return type.precision === 0 ? util.uint16ToFloat64(values[index]) : values[index];
    case Type.Utf8:
    case Type.LargeUtf8:
      return text(values.subarray(Number(valueOffsets[index]), Number(valueOffsets[index + 1])), 'utf8');
    case Type.Binary:
    case Type.LargeBinary:
      return text(values.subarray(Number(valueOffsets[index]), Number(valueOffsets[index + 1])), 'base64');
    case Type.Utf8View:
      return text(viewBytes(data, index), 'utf8');
    case Type.BinaryView:
      return text(viewBytes(data, index), 'base64');
    case Type.FixedSizeBinary:
      return text(values.subarray(stride * index, stride * (index + 1)), 'base64');
    case Type.Decimal:
      return decimalText(values.subarray(stride * index, stride * (index + 1)), type as Decimal);
    case Type.Date:
      return dateText(type.unit === DateUnit.DAY ? values[index] * 864e5 : Number(values[index]));
    case Type.Time:
      return timeText(BigInt(values[index]), type.unit);
    case Type.Timestamp:
      return timestampText(values[index], type.unit, type.timezone !== null && type.timezone !== undefined);
    case Type.List:
    case Type.LargeList:
      return listOf(children[0] as Data, Number(valueOffsets[index]), Number(valueOffsets[index + 1]));
    case Type.FixedSizeList:
      return listOf(children[0] as Data, index * type.listSize, (index + 1) * type.listSize);
    case Type.Map: {
      const [keys, items] = (children[0] as Data).children as [Data, Data];
      const entries: unknown[] = [];
      for (let i = Number(valueOffsets[index]); i < Number(valueOffsets[index + 1]); i++)
        entries.push({ key: valueAt(keys, i), value: valueAt(items, i) });
      return entries;
    }
    case Type.Struct: {
      const fields: Record<string, unknown> = {};
      const { children: declared } = type as DataType<Type.Struct>;
      for (const [n, { name }] of declared.entries())
        put(fields, nameOf({ name }), valueAt(children[n] as Data, index));
      const floats = declared.filter(isFloat).map(nameOf);
      if (floats.length > 0) standsFor(fields, () => fieldsOf(fields, floats));
      return fields;
    }
    case Type.Dictionary: {
      const [chunk, at] = dictionaryPlace(data, Number(values[index]));
      return valueAt(chunk, at);
    }
    default:
      throw new Error(`Arrow type ${String(type)} is not read`);
  }
}

const isFloat = ({ type }: Field): boolean => DataType.isFloat(type) || (type.children ?? []).some(isFloat);

/** A field's name: arrow-js reads an empty one as null. */
export function nameOf({ name }: { readonly name: string }): string {
  return (name as string | null) ?? '';
}

export function bit(bytes: Uint8Array, index: number): boolean {
  return ((bytes[index >> 3] as number) & (1 << (index & 7))) !== 0;
}

/** Where a dictionary's value lies: batches may add to it, so it can have several parts. */
export function dictionaryPlace(data: Data, code: number): [Data, number] {
  let at = code;
  for (const chunk of data.dictionary?.data ?? []) {
    if (at < chunk.length) return [chunk, at];
    at -= chunk.length;
  }
  throw new Error(`dictionary has no value ${code}`);
}

/** a value of Arrow's view types, and the bytes that it holds itself */
const VIEW_BYTES = 16;
const INLINE_BYTES = 12;

/** The bytes of a value of a view type: inside the view where they are few, else in one of the shared buffers. */
export function viewBytes(data: Data, index: number): Uint8Array {
  const views = data.values as Uint8Array;
  const at = index * VIEW_BYTES;
  const view = new DataView(views.buffer, views.byteOffset + at, VIEW_BYTES);
  const length = view.getInt32(0, true);
  if (length <= INLINE_BYTES) return views.subarray(at + 4, at + 4 + length);
  const from = view.getInt32(12, true);
  return (data.variadicBuffers[view.getInt32(8, true)] as Uint8Array).subarray(from, from + length);
}

function safeInteger(value: number | bigint): number | bigint {
  if (typeof value === 'number') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function text({ buffer, byteOffset, byteLength }: Uint8Array, form: 'utf8' | 'base64'): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString(form);
}

function listOf(child: Data, from: number, to: number): unknown[] {
  const { typeId } = child.type;
  // 25k ids or floats a trace: one copy instead of a call each
  if ((typeId === Type.Int || typeId === Type.Float) && child.nullCount === 0) {
    const values = child.values.subarray(from, to) as unknown;
    if (values instanceof Int32Array || values instanceof Float32Array || values instanceof Float64Array)
      return Array.from(values);
  }
  const items: unknown[] = new Array(to - from);
  for (let i = from; i < to; i++) items[i - from] = valueAt(child, i);
  return items;
}

// little-endian two's complement in words of 32 bits
function decimalText(words: Uint32Array, { scale }: Decimal): string {
  let value = 0n;
  for (let i = words.length - 1; i >= 0; i--) value = (value << 32n) | BigInt(words[i] as number);
  value = BigInt.asIntN(32 * words.length, value);
  const sign = value < 0n ? '-' : '';
  const digits = String(value < 0n ? -value : value);
  if (scale <= 0) return sign + digits + '0'.repeat(-scale);
  const padded = digits.padStart(scale + 1, '0');
  return `${sign}${padded.slice(0, -scale)}.${padded.slice(-scale)}`;
}

function dateText(milliseconds: number): unknown {
  const iso = isoText(milliseconds);
  if (iso === null) return milliseconds;
  return milliseconds % 864e5 === 0 ? iso.replace(/T.*$/, '') : iso;
}

function isoText(milliseconds: number): string | null {
  return Math.abs(milliseconds) <= 864e13 ? new Date(milliseconds).toISOString() : null;
}

/** Digits after the second; the units are numbered from the second on. */
const fractionDigits = (unit: TimeUnit): number => 3 * unit;

function timestampText(value: bigint, unit: TimeUnit, isUtc: boolean): unknown {
  const perSecond = 10n ** BigInt(fractionDigits(unit));
  const fraction = ((value % perSecond) + perSecond) % perSecond;
  const iso = isoText(Number((value - fraction) / perSecond) * 1000);
  if (iso === null) return safeInteger(value);
  return `${iso.slice(0, -5)}${fractionText(fraction, unit)}${isUtc ? 'Z' : ''}`;
}

function timeText(value: bigint, unit: TimeUnit): string {
  const perSecond = 10n ** BigInt(fractionDigits(unit));
  const seconds = Number(value / perSecond);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return parts.map((part) => String(part).padStart(2, '0')).join(':') + fractionText(value % perSecond, unit);
}

function fractionText(fraction: bigint, unit: TimeUnit): string {
  return fractionDigits(unit) === 0 ? '' : `.${String(fraction).padStart(fractionDigits(unit), '0')}`;
}

// ------ what damaged bytes say of themselves: offsets outside their buffers, and lengths in metadata, which arrow-js believes

/** @throws Error naming the column whose type lacks what it is made of: whoever walks a type believes that it is there */
export function checkSchema(fields: readonly Field[], path = ''): void {
  for (const { name, type } of fields) {
    const own = `${path}${name}`;
    const children = (type.children ?? []) as readonly Field[];
    const isList = DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type);
    const isWhole = DataType.isMap(type)
      ? DataType.isStruct(children[0]?.type) && children[0].type.children.length === 2
      : !isList || children.length === 1;
    if (!isWhole)
      throw new Error(`column ${own}: its type has not the fields of a ${isList ? 'list' : 'map'}`);
    checkSchema(children, `${own}.`);
    if (DataType.isDictionary(type)) checkSchema([new Field(own, type.dictionary)]);
  }
}

/** @throws Error naming the column, before a reader of its values would run out of the buffer */
export function checkBatch({ schema, data, numRows }: RecordBatch): void {
  for (const [n, { name }] of schema.fields.entries()) {
    const column = data.children[n] as Data;
    if (column.length < numRows) throw new Error(`column ${name} has ${column.length} of ${numRows} rows`);
    checkData(column, name);
  }
}

/** How many units the types have that come in several. */
const UNIT_COUNTS: ReadonlyMap<Type, number> = new Map([
  [Type.Date, 2],
  [Type.Time, 4],
  [Type.Timestamp, 4],
  [Type.Duration, 4],
]);

function checkData(data: Data, path: string): void {
  const { length, offset, children } = data;
  const fail = (what: string): never => {
    throw new Error(`column ${path}: ${what}`);
  };
  if (data.nullBitmap && data.nullBitmap.length > 0 && data.nullBitmap.length * 8 < offset + length)
    fail(`${length} values, validity of ${data.nullBitmap.length * 8}`);
  const { typeId } = data.type;
  // a unit that no type has, or one whose values are longer than these
  const { unit } = data.type as DataType & { unit?: number };
  const units = UNIT_COUNTS.get(typeId);
  if (units !== undefined && !(unit !== undefined && unit >= 0 && unit < units))
    fail(`unit ${unit} of its type`);
  const isList = [Type.List, Type.LargeList, Type.Map].includes(typeId);
  const isBytes = [Type.Utf8, Type.LargeUtf8, Type.Binary, Type.LargeBinary].includes(typeId);
  if (isList || isBytes) {
    const end = isList ? (children[0] as Data).length : (data.values as Uint8Array).length;
    checkOffsets(data.valueOffsets as Int32Array | BigInt64Array, length, end, fail);
  } else if (typeId === Type.FixedSizeList) {
    const size = (data.type as DataType & { listSize: number }).listSize;
    if ((children[0] as Data).length < size * length) fail(`${length} lists of ${size} have too few items`);
  } else if (typeId === Type.Utf8View || typeId === Type.BinaryView) {
    checkViews(data, fail);
  } else if (typeId === Type.Struct) {
    if (children.some((child) => child.length < length)) fail('a field has fewer values than the struct');
  } else if (typeId !== Type.Null) {
    const least = typeId === Type.Bool ? (offset + length) / 8 : data.stride * length;
    if ((data.values as Uint8Array).length < least) fail('its values are cut off');
  }
  for (const [n, child] of children.entries())
    checkData(child, `${path}.${(data.type as DataType).children?.[n]?.name ?? n}`);
  if (DataType.isDictionary(data.type)) {
    for (const chunk of data.dictionary?.data ?? []) checkData(chunk, `${path} (dictionary)`);
    const entries = data.dictionary?.length ?? 0;
    for (let i = 0; i < length; i++) {
      const entry = Number(data.values[i]);
      if ((entry < 0 || entry >= entries) && data.getValid(i))
        fail(`value ${i} is entry ${entry} of a dictionary of ${entries}`);
    }
  }
}

function checkOffsets(
  offsets: Int32Array | BigInt64Array,
  length: number,
  end: number,
  fail: (what: string) => never,
): void {
  // no offsets at all are allowed where there are no values
  if (length === 0) return;
  if (offsets.length < length + 1) fail('its offsets are cut off');
  let last = 0;
  for (let i = 0; i <= length; i++) {
    const at = Number(offsets[i]);
    if (at < last || at > end) fail(`offset ${at} of value ${i} lies outside ${last} to ${end}`);
    last = at;
  }
}

function checkViews(data: Data, fail: (what: string) => never): void {
  const views = data.values as Uint8Array;
  if (views.length < data.length * VIEW_BYTES) fail('its values are cut off');
  const words = new DataView(views.buffer, views.byteOffset, views.byteLength);
  for (let i = 0; i < data.length; i++) {
    const length = words.getInt32(i * VIEW_BYTES, true);
    if (length <= INLINE_BYTES && length >= 0) continue;
    const buffer = data.variadicBuffers[words.getInt32(i * VIEW_BYTES + 8, true)];
    const from = words.getInt32(i * VIEW_BYTES + 12, true);
    // the bytes under a null are nobody's
    const isInside = length >= 0 && from >= 0 && buffer !== undefined && from + length <= buffer.length;
    if (!isInside && data.getValid(i)) fail(`value ${i} lies outside its buffer`);
  }
}

const vectorLength = ByteBuffer.prototype.__vector_len;

// every list in a message's metadata gets its length here, and no list has more entries than the metadata has bytes
ByteBuffer.prototype.__vector_len = function guarded(this: ByteBuffer, offset: number): number {
  const length = vectorLength.call(this, offset);
  if (length < 0 || length > this.capacity())
    throw new Error(`a list of ${length} entries in ${this.capacity()} bytes of metadata`);
  return length;
};
