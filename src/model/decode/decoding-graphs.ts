// What `policy build` adds to a folder for the policy to write: two graphs, and the tokens after which its completions end.
import type { Checkpoint } from '../graph/checkpoint.js';
import type { Graph } from '../graph/onnx.js';
import type { CudaPrecision } from '../graph/precision.js';
import type { PolicyTokenizer } from '../text/tokenizer.js';
import { buildDecodingGraph } from './decode-graph.js';
import { readStops } from './stops.js';

const CPU = 'policy.decode.onnx';
const CUDA = 'policy.decode.cuda.onnx';

/** @throws RredcotError (exit 2) for an end token that the vocabulary does not have */
export async function decodingParts(
  folder: string,
  { architecture, weights }: Pick<Checkpoint, 'architecture' | 'weights'>,
  tokenizer: PolicyTokenizer,
  precision: CudaPrecision,
) {
  const graphs: readonly (readonly [name: string, build: () => Graph])[] = [
    [CPU, () => buildDecodingGraph(architecture, weights, 'f32')],
    [CUDA, () => buildDecodingGraph(architecture, weights, precision)],
  ];
  const stops = await readStops(folder, tokenizer, architecture.vocab);
  return { graphs, decoding: { graph: CPU, cudaGraph: CUDA, stops } };
}
