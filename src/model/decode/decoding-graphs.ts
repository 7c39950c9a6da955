// What `policy build` adds to a folder for the policy to write: two graphs.
import type { Checkpoint } from '../graph/checkpoint.js';
import type { Graph } from '../graph/onnx.js';
import type { CudaPrecision } from '../graph/precision.js';
import { buildDecodingGraph } from './decode-graph.js';

const CPU = 'policy.decode.onnx';
const CUDA = 'policy.decode.cuda.onnx';

export function decodingParts(
  { architecture, weights }: Pick<Checkpoint, 'architecture' | 'weights'>,
  precision: CudaPrecision,
) {
  const graphs: readonly (readonly [name: string, build: () => Graph])[] = [
    [CPU, () => buildDecodingGraph(architecture, weights, 'f32')],
    [CUDA, () => buildDecodingGraph(architecture, weights, precision)],
  ];
  return { graphs, decoding: { graph: CPU, cudaGraph: CUDA } };
}
