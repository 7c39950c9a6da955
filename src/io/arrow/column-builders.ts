// The builder of each column type: buffers that are used again for the next batch.

import type { DataType, Field } from 'apache-arrow';
import {
  Bits,
  ColumnBuilder,
  type Fields,
  grown,
  kept,
  MAX_OFFSET,
  type NumberArray,
  Offsets,
} from './column-builder.js';
import { stringifyJson } from './json.js';
import type { ColumnType } from './schema.js';

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
        type.fields.map(({ name, key = name }) => key),
        builders,
      );
    }
  }
}

class BoolBuilder extends ColumnBuilder {
  readonly #bits = new Bits();

  protected put(value: unknown): void {
    this.#bits.set(this.length, value === true);
  }
  protected putNulls(): void {}
  protected buffers() {
    return { data: this.#bits.take(this.length) };
  }
}

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
  protected putNulls(count: number): void {
    this.data = grown(this.data, this.length + count);
    this.data.fill(0, this.length, this.length + count);
  }
  protected buffers() {
    const data = this.data.subarray(0, this.length);
    this.data = kept(this.data);
    return { data };
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
  protected putNulls(count: number): void {
    this.#words = grown(this.#words, 2 * (this.length + count));
    this.#words.fill(0, 2 * this.length, 2 * (this.length + count));
  }
  protected buffers() {
    const data = new BigInt64Array(this.#words.buffer, 0, this.length);
    this.#words = kept(this.#words);
    return { data };
  }
}

class TextBuilder extends ColumnBuilder {
  readonly #offsets = new Offsets();
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
    this.#end += this.#write(this.text(value));
    this.#offsets.close(this.length, this.#end);
  }
  protected putNulls(count: number): void {
    this.#offsets.close(this.length, this.#end, count);
  }
  protected buffers() {
    const valueOffsets = this.#offsets.of(this.length);
    const data = this.#bytes.subarray(0, this.#end);
    this.#bytes = kept(this.#bytes);
    this.#buffer = Buffer.from(this.#bytes.buffer);
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
    return this.#buffer.write(text, end);
  }
}

class ListBuilder extends ColumnBuilder {
  readonly #offsets = new Offsets();
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
    this.#offsets.close(this.length, this.#end);
  }
  protected putNulls(count: number): void {
    this.#offsets.close(this.length, this.#end, count);
  }
  protected buffers() {
    this.#end = 0;
    return { valueOffsets: this.#offsets.of(this.length), child: this.items.finish() };
  }
}

class StructBuilder extends ColumnBuilder {
  constructor(
    type: DataType,
    private readonly keys: readonly string[],
    private readonly fields: readonly ColumnBuilder[],
  ) {
    super(type);
  }

  // field by field, which is three times as fast as object by object
  override appendAll(values: ArrayLike<unknown>): void {
    if (!hasAll(values)) {
      super.appendAll(values);
      return;
    }
    for (let n = 0; n < this.fields.length; n++)
      (this.fields[n] as ColumnBuilder).appendField(values, this.keys[n] as string);
    this.length += values.length;
  }
  protected put(value: unknown): void {
    const one = [value as Fields];
    for (let n = 0; n < this.fields.length; n++)
      (this.fields[n] as ColumnBuilder).appendField(one, this.keys[n] as string);
  }
  protected putNulls(count: number): void {
    for (const field of this.fields) field.appendNulls(count);
  }
  protected buffers() {
    return { children: this.fields.map((field) => field.finish()) };
  }
}

function hasAll(values: ArrayLike<unknown>): values is ArrayLike<Fields> {
  for (let i = 0; i < values.length; i++) if (values[i] === null || values[i] === undefined) return false;
  return true;
}

function checkOffset(end: number, path: string): void {
  if (end > MAX_OFFSET) throw new Error(`column ${path}: a batch holds over 2 GiB of it`);
}
