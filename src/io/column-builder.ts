// Values one after the other in, one Arrow column out, in buffers that are used again for the next batch.

import { type Data, type DataType, type Field, makeData } from 'apache-arrow';
import { stringifyJson } from './json.js';
import type { ColumnType } from './schema.js';

/** Offsets of text and lists are int32. */
const MAX_OFFSET = 2 ** 31 - 1;

/** The constructor's many overloads are of no use to a walk over any type. */
const make = makeData as unknown as (props: Readonly<Record<string, unknown>>) => Data;

/**
 * Starts a column. Its values must have been checked against its type (`findMisfit`).
 * @param path the column's name, for messages
 */
export function columnBuilder(arrow: DataType, type: ColumnType, path: string): ColumnBuilder {
  switch (type.kind) {
    case 'bool':
      return new BoolBuilder(arrow);
    case 'int32':
      return new NumberBuilder(arrow, new Int32Array(0));
    case 'float32':
      return new NumberBuilder(arrow, new Float32Array(0));
    case 'double':
      return new NumberBuilder(arrow, new Float64Array(0));
    case 'int64':
      return new LongBuilder(arrow);
    case 'string':
      return new TextBuilder(arrow, path, (value) => value as string);
    case 'json':
      return new TextBuilder(arrow, path, stringifyJson);
    case 'list': {
      const item = (arrow.children[0] as Field).type;
      return new ListBuilder(arrow, path, columnBuilder(item, type.element, `${path}[]`));
    }
    case 'struct': {
      const builders = type.fields.map((field, n) =>
        columnBuilder((arrow.children[n] as Field).type, field.type, `${path}.${field.name}`),
      );
      return new StructBuilder(
        arrow,
        type.fields.map(({ name }) => name),
        builders,
      );
    }
  }
}

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
      this.#nulls.set(this.length, true);
      this.#nullCount++;
      this.putNull();
    } else this.put(value);
    this.length++;
  }

  /** Appends each of a list. */
  appendAll(values: ArrayLike<unknown>): void {
    for (let i = 0; i < values.length; i++) this.append(values[i]);
  }

  /** What was appended since the last time, as views of the builder's buffers: the next value may change them. */
  finish(): Data {
    const { length, type } = this;
    const nullCount = this.#nullCount;
    const nullBitmap = nullCount === 0 ? null : this.#nulls.takeInverse(length);
    const data = make({ type, length, nullCount, nullBitmap, ...this.buffers() });
    this.length = 0;
    this.#nullCount = 0;
    return data;
  }

  /** Keeps a value as number `length`. */
  protected abstract put(value: unknown): void;
  protected abstract putNull(): void;
  /** What Arrow wants beside type, length and nulls. */
  protected abstract buffers(): Readonly<Record<string, unknown>>;
}

/** Flags in Arrow's order: one bit each, the lowest first. All are off until they are set. */
class Bits {
  #bytes = new Uint8Array(128);

  set(index: number, isOn: boolean): void {
    const byte = index >> 3;
    if (byte >= this.#bytes.length) this.#bytes = grown(this.#bytes, byte + 1);
    if (isOn) this.#bytes[byte] = (this.#bytes[byte] as number) | (1 << (index & 7));
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
    return taken;
  }
}

class BoolBuilder extends ColumnBuilder {
  readonly #bits = new Bits();

  protected put(value: unknown): void {
    this.#bits.set(this.length, value === true);
  }
  protected putNull(): void {}
  protected buffers() {
    return { data: this.#bits.take(this.length) };
  }
}

type NumberArray = Int32Array | Float32Array | Float64Array;

class NumberBuilder extends ColumnBuilder {
  constructor(
    type: DataType,
    private data: NumberArray,
  ) {
    super(type);
  }

  // 25k values a trace: copied whole, never one by one
  override appendAll(values: ArrayLike<unknown>): void {
    if (!(values instanceof Float32Array || values instanceof Int32Array)) {
      super.appendAll(values);
      return;
    }
    this.data = grown(this.data, this.length + values.length);
    this.data.set(values, this.length);
    this.length += values.length;
  }
  protected put(value: unknown): void {
    if (this.length >= this.data.length) this.data = grown(this.data, this.length + 1);
    this.data[this.length] = value as number;
  }
  protected putNull(): void {
    this.put(0);
  }
  protected buffers() {
    return { data: this.data.subarray(0, this.length) };
  }
}

class LongBuilder extends ColumnBuilder {
  /** two a value, the low one first, as on every machine that Node runs on */
  #words = new Int32Array(0);

  // token ids: int32 values in a loop that V8 makes fast, from the first other one on one by one
  override appendAll(values: ArrayLike<unknown>): void {
    this.#words = grown(this.#words, 2 * (this.length + values.length));
    const words = this.#words;
    let word = 2 * this.length;
    let i = 0;
    for (; i < values.length; i++) {
      const value = values[i];
      if (typeof value !== 'number' || (value | 0) !== value) break;
      words[word++] = value;
      words[word++] = value >> 31;
    }
    this.length += i;
    for (; i < values.length; i++) this.append(values[i]);
  }
  protected put(value: unknown): void {
    const at = 2 * this.length;
    if (at >= this.#words.length) this.#words = grown(this.#words, at + 2);
    if (typeof value === 'bigint') {
      this.#words[at] = Number(BigInt.asIntN(32, value));
      this.#words[at + 1] = Number(value >> 32n);
    } else {
      this.#words[at] = value as number;
      this.#words[at + 1] = Math.floor((value as number) / 2 ** 32);
    }
  }
  protected putNull(): void {
    this.put(0);
  }
  protected buffers() {
    return { data: new BigInt64Array(this.#words.buffer, 0, this.length) };
  }
}

/** Shorter texts are copied faster here than by Node. */
const SHORT_TEXT = 24;

class TextBuilder extends ColumnBuilder {
  #offsets = new Int32Array(1);
  #bytes = new Uint8Array(0);
  #buffer = Buffer.from(this.#bytes.buffer); // the same memory
  #end = 0;

  constructor(
    type: DataType,
    private readonly path: string,
    private readonly text: (value: unknown) => string,
  ) {
    super(type);
  }

  protected put(value: unknown): void {
    const text = this.text(value);
    this.#end += this.#write(text);
    this.#close();
  }
  protected putNull(): void {
    this.#close();
  }
  protected buffers() {
    const valueOffsets = this.#offsets.subarray(0, this.length + 1);
    const data = this.#bytes.subarray(0, this.#end);
    this.#end = 0;
    return { valueOffsets, data };
  }

  // a UTF-16 unit makes three bytes at most; the exact number is asked for only where these may not fit
  #write(text: string): number {
    const end = this.#end;
    if (end + 3 * text.length > this.#bytes.length) {
      const needed = end + Buffer.byteLength(text);
      checkOffset(needed, this.path);
      this.#bytes = grown(this.#bytes, needed);
      this.#buffer = Buffer.from(this.#bytes.buffer);
    }
    if (text.length < SHORT_TEXT) {
      let i = 0;
      for (; i < text.length; i++) {
        const code = text.charCodeAt(i);
        if (code > 127) break;
        this.#bytes[end + i] = code;
      }
      if (i === text.length) return i;
    }
    return this.#buffer.write(text, end);
  }
  #close(): void {
    if (this.length + 1 >= this.#offsets.length) this.#offsets = grown(this.#offsets, this.length + 2);
    this.#offsets[this.length + 1] = this.#end;
  }
}

class ListBuilder extends ColumnBuilder {
  #offsets = new Int32Array(1);
  #end = 0;

  constructor(
    type: DataType,
    private readonly path: string,
    private readonly items: ColumnBuilder,
  ) {
    super(type);
  }

  protected put(value: unknown): void {
    const list = value as ArrayLike<unknown>;
    this.#end += list.length;
    checkOffset(this.#end, this.path);
    this.items.appendAll(list);
    this.putNull();
  }
  protected putNull(): void {
    if (this.length + 1 >= this.#offsets.length) this.#offsets = grown(this.#offsets, this.length + 2);
    this.#offsets[this.length + 1] = this.#end;
  }
  protected buffers() {
    this.#end = 0;
    return { valueOffsets: this.#offsets.subarray(0, this.length + 1), child: this.items.finish() };
  }
}

class StructBuilder extends ColumnBuilder {
  /** names that any object has, such as `constructor` */
  readonly #isInherited: readonly boolean[];

  constructor(
    type: DataType,
    private readonly names: readonly string[],
    private readonly fields: readonly ColumnBuilder[],
  ) {
    super(type);
    this.#isInherited = names.map((name) => name in Object.prototype);
  }

  protected put(value: unknown): void {
    const struct = value as Readonly<Record<string, unknown>>;
    for (let n = 0; n < this.fields.length; n++) {
      const name = this.names[n] as string;
      const isAbsent = this.#isInherited[n] && !Object.hasOwn(struct, name);
      (this.fields[n] as ColumnBuilder).append(isAbsent ? null : struct[name]);
    }
  }
  protected putNull(): void {
    for (const field of this.fields) field.append(null);
  }
  protected buffers() {
    return { children: this.fields.map((field) => field.finish()) };
  }
}

/** The same values in an array with room for `length`: twice as long as before, so that growing costs little. */
function grown<T extends Uint8Array | NumberArray>(array: T, length: number): T {
  if (length <= array.length) return array;
  const longer = new (array.constructor as new (length: number) => T)(
    Math.max(length, 2 * array.length, FIRST_LENGTH),
  );
  longer.set(array);
  return longer;
}

const FIRST_LENGTH = 256;

function checkOffset(end: number, path: string): void {
  if (end > MAX_OFFSET) throw new Error(`column ${path}: a batch holds over 2 GiB of it`);
}
