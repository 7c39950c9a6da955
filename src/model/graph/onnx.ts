// Builds an ONNX graph node by node and serialises it (field numbers: onnx/onnx.proto, ONNX 1.17).

/** TensorProto.DataType */
export const DTYPE = { f32: 1, i32: 6, i64: 7, bool: 9, f16: 10, bf16: 16 } as const;
export type Dtype = keyof typeof DTYPE;

export const CUDA_PRECISIONS = ['bf16', 'f16'] as const;
export type CudaPrecision = (typeof CUDA_PRECISIONS)[number];

/**
 * What the heavy nodes compute in. ONNX Runtime's CPU has float32 kernels for all of them; its CUDA provider has
 * GroupQueryAttention in float16 and bfloat16 only.
 */
export type Precision = 'f32' | CudaPrecision;

/** A value as another type; itself where it is of that type. */
export function cast(g: Graph, value: string, from: Dtype, to: Dtype): string {
  return from === to ? value : g.node('Cast', [value], { to: DTYPE[to] });
}

/**
 * The type that a checkpoint's CUDA graph computes in where none is asked for: its own. A float32 checkpoint gets
 * bfloat16, whose range no activation of a float32 model can leave; float16 is eight times finer, and ends at 65,504.
 */
export function cudaPrecisionOf(dtypes: Iterable<Dtype>): CudaPrecision {
  const stored = new Set(dtypes);
  return stored.has('f16') && !stored.has('bf16') && !stored.has('f32') ? 'f16' : 'bf16';
}

/** ONNX Runtime's own operators, as where a node is from. */
export const MICROSOFT = { domain: 'com.microsoft' };

/** A dimension: a fixed size, or the name of one that is known at run time. */
export type Dim = number | string;

/** An attribute of a node: integers are `number`, floats are wrapped so that 1.0 is not taken for an int. */
export type Attribute =
  | number
  | readonly number[]
  | string
  | { readonly float: number }
  | { readonly graph: Graph };

/** Where a weight lies: a slice of a file beside the graph file. */
export interface ExternalData {
  readonly location: string;
  readonly offset: number;
  readonly length: number;
}

const ATTRIBUTE_TYPE = { float: 1, int: 2, string: 3, graph: 5, ints: 7 } as const;
const EXTERNAL = 1;
// opset 18 has every standard operator in use here with its final signature; IR 9 is the version of its time
const IR_VERSION = 9;
const OPSETS: readonly (readonly [domain: string, version: number])[] = [
  ['', 18],
  ['com.microsoft', 1],
];

/** A graph under construction. Values are named by strings; every method that adds a node returns its output. */
export class Graph {
  private readonly nodes: ProtoWriter[] = [];
  private readonly initializers: ProtoWriter[] = [];
  private readonly inputs: ProtoWriter[] = [];
  private readonly outputs: ProtoWriter[] = [];
  private readonly constants = new Map<string, string>();
  private counter = 0;

  /** @param name prefix of all value names made here: a body graph must not shadow its outer scope's names */
  constructor(readonly name: string) {}

  input(name: string, dtype: Dtype, shape: readonly Dim[]): string {
    this.inputs.push(valueInfo(name, dtype, shape));
    return name;
  }

  /** Declares an output; a value of another name is passed on to it. */
  output(name: string, value: string, dtype: Dtype, shape: readonly Dim[]): void {
    if (value !== name) this.node('Identity', [value], {}, { outputs: [name] });
    this.outputs.push(valueInfo(name, dtype, shape));
  }

  /** Adds a node with one output (or the named ones) and returns the first output's name; its own name is numbered. */
  node(
    op: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>> = {},
    opts: { outputs?: readonly string[]; domain?: string; name?: string } = {},
  ): string {
    const outputs = opts.outputs ?? [`${this.name}.${op}_${this.counter}`];
    const proto = new ProtoWriter();
    for (const input of inputs) proto.bytes(1, input);
    for (const output of outputs) proto.bytes(2, output);
    proto.bytes(3, opts.name ?? `${this.name}.${op}_${this.counter}`).bytes(4, op);
    this.counter++;
    for (const [name, value] of Object.entries(attributes)) proto.bytes(5, attribute(name, value));
    if (opts.domain !== undefined) proto.bytes(7, opts.domain);
    this.nodes.push(proto);
    return outputs[0] ?? '';
  }

  /** An int64 constant; `shape` [] makes a scalar. Equal constants are stored once. */
  ints(values: readonly number[], shape: readonly number[] = [values.length]): string {
    const data = new BigInt64Array(values.map(BigInt));
    return this.constant('i64', data, values.join('_'), shape);
  }

  /** A scalar float32 constant. */
  float(value: number): string {
    return this.constant('f32', new Float32Array([value]), String(value), []);
  }

  /** A weight whose bytes stay in the file where they are. */
  weight(name: string, dtype: Dtype, shape: readonly number[], data: ExternalData): string {
    const tensor = tensorHead(name, dtype, shape);
    for (const [key, value] of Object.entries(data))
      tensor.bytes(13, new ProtoWriter().bytes(1, key).bytes(2, String(value)));
    this.initializers.push(tensor.varint(14, EXTERNAL));
    return name;
  }

  /** GraphProto, for a control-flow body or for {@link serialiseModel}. */
  toProto(): ProtoWriter {
    const proto = new ProtoWriter();
    for (const node of this.nodes) proto.bytes(1, node);
    proto.bytes(2, this.name);
    for (const tensor of this.initializers) proto.bytes(5, tensor);
    for (const input of this.inputs) proto.bytes(11, input);
    for (const output of this.outputs) proto.bytes(12, output);
    return proto;
  }

  private constant(dtype: Dtype, data: ArrayBufferView, key: string, shape: readonly number[]): string {
    const name = `${this.name}.${dtype}_${key}_${shape.join('x')}`;
    if (!this.constants.has(name)) {
      const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      this.initializers.push(tensorHead(name, dtype, shape).bytes(9, raw));
      this.constants.set(name, name);
    }
    return name;
  }
}

/** ModelProto bytes of a finished graph: the content of an `.onnx` file. */
export function serialiseModel(graph: Graph): Buffer {
  const model = new ProtoWriter().varint(1, IR_VERSION).bytes(2, 'rredcot').bytes(7, graph.toProto());
  for (const [domain, version] of OPSETS)
    model.bytes(8, new ProtoWriter().bytes(1, domain).varint(2, version));
  return model.finish();
}

function attribute(name: string, value: Attribute): ProtoWriter {
  const proto = new ProtoWriter().bytes(1, name);
  if (typeof value === 'number') return proto.varint(3, value).varint(20, ATTRIBUTE_TYPE.int);
  if (typeof value === 'string') return proto.bytes(4, value).varint(20, ATTRIBUTE_TYPE.string);
  if ('float' in value) return proto.float(2, value.float).varint(20, ATTRIBUTE_TYPE.float);
  if ('graph' in value) return proto.bytes(6, value.graph.toProto()).varint(20, ATTRIBUTE_TYPE.graph);
  return proto.packed(8, value).varint(20, ATTRIBUTE_TYPE.ints);
}

function tensorHead(name: string, dtype: Dtype, shape: readonly number[]): ProtoWriter {
  return new ProtoWriter().packed(1, shape).varint(2, DTYPE[dtype]).bytes(8, name);
}

function valueInfo(name: string, dtype: Dtype, shape: readonly Dim[]): ProtoWriter {
  const dims = new ProtoWriter();
  for (const dim of shape)
    dims.bytes(
      1,
      typeof dim === 'number' ? new ProtoWriter().varint(1, dim) : new ProtoWriter().bytes(2, dim),
    );
  const tensor = new ProtoWriter().varint(1, DTYPE[dtype]).bytes(2, dims);
  return new ProtoWriter().bytes(1, name).bytes(2, new ProtoWriter().bytes(1, tensor));
}

// ------ the protobuf wire format (https://protobuf.dev/programming-guides/encoding): enough for ONNX, nothing more

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
