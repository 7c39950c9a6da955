/**
 * A half-precision graph as float32 arithmetic that is rounded after every node: what a GPU computes, up to the order of
 * sums, on a CPU that has no kernels for bfloat16. Decodes the graph as it was written, knows nothing of its builder.
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type AttributeProto,
  AttributeProto_AttributeType,
  AttributeProtoSchema,
  type GraphProto,
  ModelProtoSchema,
  type NodeProto,
  NodeProtoSchema,
} from 'onnx-buf';

const FLOAT = 1;
const HALVES = new Set([10, 16]);
/** they pass values on as they are: nothing to round */
const MOVES = /^(Reshape|Slice|Concat|Gather|Transpose|Squeeze|Unsqueeze|Identity)$/;

/** @param rounds whether values are rounded: where they are not, those of a graph that is right are float32's */
export function emulateHalf(model: Uint8Array, rounds = true): Uint8Array {
  const decoded = fromBinary(ModelProtoSchema, model);
  rewrite(decoded.graph as GraphProto, new Map(), rounds);
  return toBinary(ModelProtoSchema, decoded);
}

/** @param outer half-precision values of the outer scope, with their type */
function rewrite(graph: GraphProto, outer: ReadonlyMap<string, number>, rounds: boolean): void {
  const half = new Map(outer);
  const nodes: NodeProto[] = [];
  let count = 0;
  const cast = (from: string, to: string, type: number) => {
    const attribute = [
      create(AttributeProtoSchema, { name: 'to', type: AttributeProto_AttributeType.INT, i: BigInt(type) }),
    ];
    const name = `${graph.name}.emulated_${count++}`;
    nodes.push(create(NodeProtoSchema, { name, opType: 'Cast', input: [from], output: [to], attribute }));
  };
  /** from → to, rounded to a type and back */
  const round = (from: string, to: string, type: number) => {
    cast(from, `${to}.narrow`, rounds ? type : FLOAT);
    cast(`${to}.narrow`, to, FLOAT);
  };
  for (const { name, type } of graph.input)
    if (type?.value.case === 'tensorType' && HALVES.has(type.value.value.elemType)) {
      half.set(name, type.value.value.elemType);
      type.value.value.elemType = FLOAT;
    }
  for (const tensor of graph.initializer) {
    if (!HALVES.has(tensor.dataType)) continue;
    half.set(tensor.name, tensor.dataType);
    tensor.name = `${tensor.name}.stored`;
    cast(tensor.name, tensor.name.replace(/\.stored$/, ''), FLOAT);
  }
  for (const node of graph.node) {
    const bodies = node.attribute.flatMap(({ g }: AttributeProto) => g ?? []);
    for (const body of bodies) rewrite(body, half, rounds);
    const [first] = node.output as [string];
    if (node.opType === 'Cast') {
      const to = Number(node.attribute[0]?.i);
      if (HALVES.has(to)) {
        half.set(first, to);
        round(node.input[0] as string, first, to);
      } else cast(node.input[0] as string, first, to);
      continue;
    }
    nodes.push(node);
    const type = node.input.map((name) => half.get(name)).find((found) => found !== undefined);
    // bodies give float32 out; a shape is no float
    if (type === undefined || bodies.length > 0 || node.opType === 'Shape') continue;
    for (const [i, output] of node.output.entries()) {
      half.set(output, type);
      if (MOVES.test(node.opType)) continue;
      node.output[i] = `${output}.exact`;
      round(`${output}.exact`, output, type);
    }
  }
  graph.node = nodes;
}
