// Holds what the builders of all column types share: nulls, and room that grows with the values.

import { type Data, type DataType, makeData } from 'apache-arrow';

/** The constructor's many overloads are of no use to a walk over any type. */
/** Offsets of text and lists are int32. */
export const MAX_OFFSET = 2 ** 31 - 1;

export const makeColumnData = makeData as unknown as (props: Readonly<Record<string, unknown>>) => Data;

/** The values of a struct. */
export type Fields = Readonly<Record<string, unknown>>;

/** Gathers the values of one column. */
export abstract class ColumnBuilder {
  /** of values so far */
  protected length = 0;
  #nullCount = 0;
  /** where the nulls are */
  readonly #nulls = new Bits();

  constructor(private readonly type: DataType) {}

  /** Null and undefined are null. @throws Error where a batch holds too much of the column */
  append(value: unknown): void {
    if (value === null || value === undefined) {
      this.appendNulls(1);
      return;
    }
    this.put(value);
    this.length++;
  }

  /** Appends null so many times. */
  appendNulls(count: number): void {
    this.#nulls.turnOn(this.length, count);
    this.#nullCount += count;
    this.putNulls(count);
    this.length += count;
  }

  /** Appends each of a list. */
  appendAll(values: ArrayLike<unknown>): void {
    for (let i = 0; i < values.length; i++) this.append(values[i]);
  }

  /** Appends one field of each of a list of objects. */
  appendField(objects: ArrayLike<Fields>, key: string): void {
    const isInherited = key in Object.prototype; // as `constructor` is
    let nulls = 0;
    for (let i = 0; i < objects.length; i++) {
      const object = objects[i] as Fields;
      const value = isInherited && !Object.hasOwn(object, key) ? null : object[key];
      // a field that nobody fills is null from end to end
      if (value === null || value === undefined) nulls++;
      else {
        if (nulls > 0) this.appendNulls(nulls);
        nulls = 0;
        this.append(value);
      }
    }
    if (nulls > 0) this.appendNulls(nulls);
  }

  /** What was appended since the last time, as views of the builder's buffers: the next value may change them. */
  finish(): Data {
    const { length, type } = this;
    const nullCount = this.#nullCount;
    const nullBitmap = nullCount === 0 ? null : this.#nulls.takeInverse(length);
    const data = makeColumnData({ type, length, nullCount, nullBitmap, ...this.buffers() });
    this.length = 0;
    this.#nullCount = 0;
    return data;
  }

  /** Keeps a value as number `length`. */
  protected abstract put(value: unknown): void;
  /** Keeps as many places, from `length` on, as if of empty values. */
  protected abstract putNulls(count: number): void;
  /** What Arrow wants beside type, length and nulls. */
  protected abstract buffers(): Readonly<Record<string, unknown>>;
}

/** Flags in Arrow's order: one bit each, the lowest first. All are off until they are set. */
export class Bits {
  #bytes = new Uint8Array(128);

  set(index: number, isOn: boolean): void {
    const byte = index >> 3;
    if (byte >= this.#bytes.length) this.#bytes = grown(this.#bytes, byte + 1);
    if (isOn) this.#bytes[byte] = (this.#bytes[byte] as number) | (1 << (index & 7));
  }

  turnOn(from: number, count: number): void {
    for (let index = from; index < from + count; index++) this.set(index, true);
  }

  /** The first `length` flags; all are off again afterwards. */
  take(length: number): Uint8Array {
    const bytes = (length + 7) >> 3;
    if (bytes > this.#bytes.length) this.#bytes = grown(this.#bytes, bytes);
    const taken = this.#bytes.slice(0, bytes);
    this.#bytes.fill(0, 0, bytes);
    return taken;
  }

  takeInverse(length: number): Uint8Array {
    const taken = this.take(length);
    for (let i = 0; i < taken.length; i++) taken[i] = ~(taken[i] as number);
    // what is behind the last flag stays off: the same values are the same bytes, however they came
    const last = taken.length - 1;
    if ((length & 7) !== 0) taken[last] = (taken[last] as number) & ((1 << (length & 7)) - 1);
    return taken;
  }
}

/** Where each text or list of a column ends, which is where the next one begins. */
export class Offsets {
  #ends = new Int32Array(1);

  /** @param count of values that end there, from number `index` on: all but the first are empty */
  close(index: number, end: number, count = 1): void {
    const last = index + count;
    if (last >= this.#ends.length) this.#ends = grown(this.#ends, last + 1);
    if (count === 1) this.#ends[last] = end;
    else this.#ends.fill(end, index + 1, last + 1);
  }

  /** A view, one longer than the column. */
  of(length: number): Int32Array {
    return this.#ends.subarray(0, length + 1);
  }
}

export type NumberArray = Int32Array | Float32Array | Float64Array;

/** The same values in an array with room for `length`: twice as long as before, so that growing costs little. */
export function grown<T extends Uint8Array | NumberArray>(array: T, length: number): T {
  if (length <= array.length) return array;
  const longer = new (array.constructor as new (length: number) => T)(
    Math.max(length, 2 * array.length, FIRST_LENGTH),
  );
  longer.set(array);
  return longer;
}

const FIRST_LENGTH = 256;

/** The array for the next batch: the same one, unless a row of unusual size has made it large. */
export function kept<T extends Uint8Array | NumberArray>(array: T): T {
  return array.byteLength <= KEPT_BYTES ? array : (array.slice(0, 0) as T);
}

const KEPT_BYTES = 16 * 2 ** 20;
