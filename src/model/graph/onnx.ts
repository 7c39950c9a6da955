// Builds an ONNX graph node by node and serialises it (field numbers: onnx/onnx.proto, ONNX 1.17).

/** TensorProto.DataType */
const DTYPE = { f32: 1, i32: 6, i64: 7, bool: 9, f16: 10, bf16: 16 } as const;
export type Dtype = keyof typeof DTYPE;

export const CUDA_PRECISIONS = ['bf16', 'f16'] as const;
export type CudaPrecision = (typeof CUDA_PRECISIONS)[number];

/** What the heavy nodes compute in: on the CPU ONNX Runtime has float32 kernels for all; in CUDA, GroupQueryAttention is of half precision only. */
export type Precision = 'f32' | CudaPrecision;

/** Entries of the vocabulary whose logits a CPU computes at once: they stay in its cache from the product to the sum. */
export const CPU_ENTRIES = 2048;

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

/** A list of tensors of such a shape, of which none is copied where another is put in. */
type Sequence = 'sequence';

/** An attribute of a node: integers are `number`, floats are wrapped so that 1.0 is not taken for an int. */
export type Attribute =
  | number
  | readonly number[]
  | string
  | { readonly float: number }
  | { readonly graph: Graph };

/** Where a weight lies: bytes of a file beside the graph file. */
export interface ExternalData {
  readonly location: string;
  readonly offset: number;
  readonly length: number;
}

const ATTRIBUTE_TYPE = { float: 1, int: 2, string: 3, graph: 5, ints: 7 } as const;
const EXTERNAL = 1;
// opset 18 has every standard operator in use here with its final signature; IR 9 is the version of its time
const IR_VERSION = 9;
const OPSETS = { '': 18, [MICROSOFT.domain]: 1 };

/** A graph under construction. Values are named by strings; every method that adds a node returns its output. */
export class Graph {
  private readonly nodes: WireField[] = [];
  private readonly initializers: WireField[] = [];
  private readonly inputs: WireField[] = [];
  private readonly outputs: WireField[] = [];
  private readonly stored = new Set<string>();
  private counter = 0;

  /** @param name prefix of all value names made here: a body graph must not shadow its outer scope's names */
  constructor(readonly name: string) {}

  input(name: string, dtype: Dtype, shape: readonly Dim[], kind?: Sequence): string {
    this.inputs.push([11, valueInfo(name, dtype, shape, kind)]);
    return name;
  }

  /** Declares an output; a value of another name is passed on to it. */
  output(name: string, value: string, dtype: Dtype, shape: readonly Dim[], kind?: Sequence): void {
    if (value !== name) this.node('Identity', [value], {}, { outputs: [name] });
    this.outputs.push([12, valueInfo(name, dtype, shape, kind)]);
  }

  /** Adds a node with one output (or the named ones) and returns the first output's name; its own name is numbered. */
  node(
    op: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>> = {},
    opts: { outputs?: readonly string[]; domain?: string; name?: string } = {},
  ): string {
    const numbered = `${this.name}.${op}_${this.counter++}`;
    const outputs = opts.outputs ?? [numbered];
    const node = message(
      ...inputs.map((input): WireField => [1, input]),
      ...outputs.map((output): WireField => [2, output]),
      [3, opts.name ?? numbered],
      [4, op],
      ...Object.entries(attributes).map(([name, value]): WireField => [5, attribute(name, value)]),
      [7, opts.domain],
    );
    this.nodes.push([1, node]);
    return outputs[0] ?? '';
  }

  /** An int64 constant; `shape` [] makes a scalar. Equal constants are stored once. */
  ints(values: readonly number[], shape: readonly number[] = [values.length]): string {
    const data = new BigInt64Array(values.map(BigInt));
    return this.constant('i64', data, values.join('_'), shape);
  }

  float(value: number): string {
    return this.constant('f32', new Float32Array([value]), String(value), []);
  }

  /** A weight whose bytes stay in the file where they are; of one name there is one. */
  weight(name: string, dtype: Dtype, shape: readonly number[], data: ExternalData): string {
    const entries = Object.entries(data).map(
      ([key, value]): WireField => [13, message([1, key], [2, String(value)])],
    );
    return this.initializer(name, dtype, shape, ...entries, [14, EXTERNAL]);
  }

  /** GraphProto, for a control-flow body or for {@link serialiseModel}. */
  toProto(): Buffer {
    return message(...this.nodes, [2, this.name], ...this.initializers, ...this.inputs, ...this.outputs);
  }

  private constant(dtype: Dtype, data: ArrayBufferView, key: string, shape: readonly number[]): string {
    const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    return this.initializer(`${this.name}.${dtype}_${key}_${shape.join('x')}`, dtype, shape, [9, raw]);
  }

  private initializer(name: string, dtype: Dtype, shape: readonly number[], ...data: WireField[]): string {
    if (!this.stored.has(name))
      this.initializers.push([5, message([1, shape], [2, DTYPE[dtype]], [8, name], ...data)]);
    this.stored.add(name);
    return name;
  }
}

/** ModelProto bytes of a finished graph: the content of an `.onnx` file. */
export function serialiseModel(graph: Graph): Buffer {
  const opsets = Object.entries(OPSETS).map(
    ([domain, version]): WireField => [8, message([1, domain], [2, version])],
  );
  return message([1, IR_VERSION], [2, 'rredcot'], [7, graph.toProto()], ...opsets);
}

function attribute(name: string, value: Attribute): Buffer {
  const { float, int, string, graph, ints } = ATTRIBUTE_TYPE;
  if (typeof value === 'number') return message([1, name], [3, value], [20, int]);
  if (typeof value === 'string') return message([1, name], [4, value], [20, string]);
  if ('float' in value) return message([1, name], [2, value], [20, float]);
  if ('graph' in value) return message([1, name], [6, value.graph.toProto()], [20, graph]);
  return message([1, name], [8, value], [20, ints]);
}

function valueInfo(name: string, dtype: Dtype, shape: readonly Dim[], kind?: Sequence): Buffer {
  const dims = shape.map((dim): WireField => [1, message([typeof dim === 'number' ? 1 : 2, dim])]);
  const tensor = message([1, message([1, DTYPE[dtype]], [2, message(...dims)])]);
  return message([1, name], [2, kind === undefined ? tensor : message([4, message([1, tensor])])]);
}

// ------ the protobuf wire format (https://protobuf.dev/programming-guides/encoding): enough for ONNX, nothing more

/** A field of a message: an integer, text, bytes or a message, a float, a list of integers; nothing is written for undefined and an empty list. */
type WireField = readonly [
  number: number,
  value: number | string | Uint8Array | { readonly float: number } | readonly number[] | undefined,
];

/** A message's bytes: fields in the order given, so equal fields give equal bytes. */
function message(...fields: readonly WireField[]): Buffer {
  return Buffer.concat(fields.map(([number, value]) => encoded(number * 8, value)));
}

/** @param tag the field's number, with its last three bits for what follows */
function encoded(tag: number, value: WireField[1]): Buffer {
  if (value === undefined || (Array.isArray(value) && value.length === 0)) return Buffer.alloc(0);
  if (typeof value === 'number') return Buffer.concat([varint(tag), varint(value)]);
  if (typeof value === 'object' && 'float' in value) {
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(value.float);
    return Buffer.concat([varint(tag + 5), bytes]);
  }
  const body = Array.isArray(value) ? Buffer.concat(value.map(varint)) : Buffer.from(value as string);
  return Buffer.concat([varint(tag + 2), varint(body.length), body]);
}

/** Base-128 little-endian groups, high bit set on all but the last; negatives as 64-bit two's complement. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}
