// Refuses what damaged bytes say of themselves: a record batch whose offsets point outside its buffers, and lengths in its
// metadata, which arrow-js believes: it would make lists of billions of entries.

import { type Data, DataType, type RecordBatch, Type } from 'apache-arrow';
import { ByteBuffer } from 'flatbuffers';
import { INLINE_BYTES, VIEW_BYTES } from './values.js';

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
  [Type.Interval, 3],
]);
/** 32-bit words of an interval: months; days and milliseconds; months, days and nanoseconds. */
const INTERVAL_WORDS = [1, 2, 4];

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
  if (
    typeId === Type.Interval &&
    (data.values as Int32Array).length < (INTERVAL_WORDS[unit ?? 0] ?? 0) * length
  )
    fail('its values are cut off');
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
  } else if (typeId === Type.Bool) {
    if ((data.values as Uint8Array).length * 8 < offset + length) fail('its values are cut off');
  } else if (typeId === Type.Struct) {
    if (children.some((child) => child.length < length)) fail('a field has fewer values than the struct');
  } else if (typeId !== Type.Null && typeId !== Type.Union) {
    if ((data.values as Uint8Array).length < data.stride * length) fail('its values are cut off');
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
