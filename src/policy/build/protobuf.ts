// Writes the protobuf wire format (https://protobuf.dev/programming-guides/encoding): enough for ONNX, nothing more.

const VARINT = 0;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

/** A message under construction: fields are appended in call order, so equal calls give equal bytes. */
export class ProtoWriter {
  private readonly parts: Buffer[] = [];

  /** int32, int64, bool and enum fields; negative values take ten bytes, as the format wants. */
  varint(field: number, value: number | bigint): this {
    return this.tag(field, VARINT).raw(encodeVarint(BigInt(value)));
  }

  /** float fields, little-endian */
  float(field: number, value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(value);
    return this.tag(field, FIXED32).raw(bytes);
  }

  /** string, bytes and sub-message fields */
  bytes(field: number, value: string | Uint8Array | ProtoWriter): this {
    const body = value instanceof ProtoWriter ? value.finish() : Buffer.from(value as string);
    return this.tag(field, LENGTH_DELIMITED)
      .raw(encodeVarint(BigInt(body.length)))
      .raw(body);
  }

  /** a packed repeated int64 field; nothing is written for an empty list */
  packed(field: number, values: readonly (number | bigint)[]): this {
    if (values.length === 0) return this;
    return this.bytes(field, Buffer.concat(values.map((v) => encodeVarint(BigInt(v)))));
  }

  finish(): Buffer {
    return Buffer.concat(this.parts);
  }

  private tag(field: number, wireType: number): this {
    return this.raw(encodeVarint((BigInt(field) << 3n) | BigInt(wireType)));
  }

  private raw(bytes: Buffer): this {
    this.parts.push(bytes);
    return this;
  }
}

/** Base-128 little-endian groups, high bit set on all but the last; negatives as 64-bit two's complement. */
function encodeVarint(value: bigint): Buffer {
  let rest = BigInt.asUintN(64, value);
  const bytes: number[] = [];
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest > 0n ? low | 0x80 : low);
  } while (rest > 0n);
  return Buffer.from(bytes);
}
