// Reads and writes Thrift's compact protocol, of which Parquet's footers are made, as a tree of fields by number.

/** Types as the compact protocol numbers them. */
export const THRIFT = {
  true: 1,
  false: 2,
  byte: 3,
  i16: 4,
  i32: 5,
  i64: 6,
  double: 7,
  binary: 8,
  list: 9,
  set: 10,
  map: 11,
  struct: 12,
  uuid: 13,
} as const;

/** A value of any type. Integers of 64 bits are BigInt, binary is bytes, a map a list of alternating keys and values. */
export interface ThriftValue {
  readonly type: number;
  readonly value: boolean | number | bigint | Uint8Array | ThriftStruct | ThriftList;
}

/** Fields by their numbers. */
export type ThriftStruct = Map<number, ThriftValue>;

export interface ThriftList {
  /** of a list's items; of a map its keys, then its values */
  readonly types: readonly number[];
  readonly items: readonly ThriftValue['value'][];
}

/** Deeper than any Parquet schema nests its own structures; damaged bytes must not exhaust the stack. */
const MAX_DEPTH = 64;

/** A signed number, which the protocol writes as 0, −1, 1, −2, … */
function signed(value: bigint): bigint {
  return value & 1n ? -((value + 1n) >> 1n) : value >> 1n;
}

/** Reads a struct. @throws Error where the bytes end too early or hold no such thing */
export function readThrift(bytes: Uint8Array): ThriftStruct {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;

  function byte(): number {
    if (at >= bytes.length) throw new Error('thrift data is cut off');
    return bytes[at++] as number;
  }
  function varint(): bigint {
    let low = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const next = byte();
      low |= (next & 127) << shift;
      if (next < 128) return BigInt(low);
    }
    let value = BigInt(low);
    for (let shift = 28n; shift < 70n; shift += 7n) {
      const next = byte();
      value |= BigInt(next & 127) << shift;
      if (next < 128) return value;
    }
    throw new Error('thrift data holds an endless number');
  }
  const zigzag = (): bigint => signed(varint());
  function take(length: number): Uint8Array {
    if (at + length > bytes.length) throw new Error('thrift data is cut off');
    at += length;
    return bytes.subarray(at - length, at);
  }
  function list(depth: number): ThriftList {
    const header = byte();
    const size = header >> 4 === 15 ? Number(varint()) : header >> 4;
    return { types: [header & 15], items: items([header & 15], size, depth) };
  }
  function map(depth: number): ThriftList {
    const size = Number(varint());
    if (size === 0) return { types: [0, 0], items: [] };
    const header = byte();
    const types = [header >> 4, header & 15];
    return { types, items: items(types, 2 * size, depth) };
  }
  function items(types: readonly number[], count: number, depth: number): ThriftValue['value'][] {
    if (count > bytes.length)
      throw new Error(`thrift data of ${bytes.length} bytes holds a list of ${count}`);
    const found: ThriftValue['value'][] = [];
    for (let i = 0; i < count; i++) {
      const type = types[i % types.length] as number;
      // a boolean in a list is a byte of its own
      found.push(type === THRIFT.true || type === THRIFT.false ? byte() === THRIFT.true : one(type, depth));
    }
    return found;
  }
  function one(type: number, depth: number): ThriftValue['value'] {
    switch (type) {
      case THRIFT.true:
      case THRIFT.false:
        return type === THRIFT.true;
      case THRIFT.byte:
        return byte();
      case THRIFT.i16:
      case THRIFT.i32:
        return Number(zigzag());
      case THRIFT.i64:
        return zigzag();
      case THRIFT.double:
        take(8);
        return view.getFloat64(at - 8, true);
      case THRIFT.binary:
        return take(Number(varint()));
      case THRIFT.list:
      case THRIFT.set:
        return list(depth - 1);
      case THRIFT.map:
        return map(depth - 1);
      case THRIFT.struct:
        return struct(depth - 1);
      case THRIFT.uuid:
        return take(16);
      default:
        throw new Error(`thrift data holds a value of type ${type}`);
    }
  }
  function struct(depth: number): ThriftStruct {
    if (depth === 0) throw new Error(`thrift data is nested deeper than ${MAX_DEPTH} levels`);
    const fields: ThriftStruct = new Map();
    let last = 0;
    for (let header = byte(); header !== 0; header = byte()) {
      const id = header >> 4 === 0 ? Number(zigzag()) : last + (header >> 4);
      fields.set(id, { type: header & 15, value: one(header & 15, depth) });
      last = id;
    }
    return fields;
  }
  return struct(MAX_DEPTH);
}

/** Writes a struct. */
export function writeThrift(root: ThriftStruct): Buffer {
  const parts: Uint8Array[] = [];
  let open: number[] = []; // single bytes, gathered between the larger parts

  function varint(value: bigint): void {
    let rest = value;
    for (; rest > 127n; rest >>= 7n) open.push(Number(rest & 127n) | 128);
    open.push(Number(rest));
  }
  function zigzag(value: bigint): void {
    varint(value < 0n ? -2n * value - 1n : 2n * value);
  }
  function raw(bytes: Uint8Array): void {
    parts.push(Uint8Array.from(open), bytes);
    open = [];
  }
  function list({ types, items }: ThriftList): void {
    const type = types[0] as number;
    if (items.length < 15) open.push((items.length << 4) | type);
    else {
      open.push(0xf0 | type);
      varint(BigInt(items.length));
    }
    for (const item of items) inside(type, item);
  }
  function map({ types, items }: ThriftList): void {
    varint(BigInt(items.length / 2));
    if (items.length === 0) return;
    open.push(((types[0] as number) << 4) | (types[1] as number));
    for (const [n, item] of items.entries()) inside(types[n % 2] as number, item);
  }
  function inside(type: number, value: ThriftValue['value']): void {
    if (typeof value === 'boolean') open.push(value ? THRIFT.true : THRIFT.false);
    else one(type, value);
  }
  function one(type: number, value: ThriftValue['value']): void {
    if (typeof value === 'boolean') return; // said by the type
    if (typeof value === 'bigint') zigzag(value);
    else if (value instanceof Map) struct(value);
    else if (value instanceof Uint8Array) {
      if (type === THRIFT.binary) varint(BigInt(value.length));
      raw(value);
    } else if (typeof value !== 'number') {
      if (type === THRIFT.map) map(value);
      else list(value);
    } else if (type === THRIFT.byte) open.push(value);
    else if (type === THRIFT.double) raw(new Uint8Array(Float64Array.of(value).buffer));
    else zigzag(BigInt(value));
  }
  function struct(fields: ThriftStruct): void {
    let last = 0;
    for (const [id, { type, value }] of [...fields].sort(([a], [b]) => a - b)) {
      if (id - last > 0 && id - last < 16) open.push(((id - last) << 4) | type);
      else {
        open.push(type);
        zigzag(BigInt(id));
      }
      one(type, value);
      last = id;
    }
    open.push(0);
  }
  struct(root);
  return Buffer.concat([...parts, Uint8Array.from(open)]);
}

/** The structs of a list field. @throws Error where it is none */
export function structs(parent: ThriftStruct, id: number): ThriftStruct[] {
  const list = parent.get(id)?.value as ThriftList | undefined;
  if (list === undefined || !Array.isArray(list.items)) throw new Error(`field ${id} is missing`);
  if (!list.items.every((item) => item instanceof Map)) throw new Error(`field ${id} is no list of structs`);
  return list.items as ThriftStruct[];
}

/** A field that counts something. @throws Error where it does not */
export function integer(parent: ThriftStruct, id: number): bigint {
  const value = parent.get(id)?.value;
  if (typeof value !== 'bigint' || value < 0n)
    throw new Error(`field ${id} is ${String(value)}, expected a count`);
  return value;
}

/** A field's text; empty where there is none. */
export function text(parent: ThriftStruct, id: number): string {
  const value = parent.get(id)?.value;
  return value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : '';
}

export function i64(value: bigint): ThriftValue {
  return { type: THRIFT.i64, value };
}

export function structList(items: readonly ThriftStruct[]): ThriftValue {
  return { type: THRIFT.list, value: { types: [THRIFT.struct], items } };
}
