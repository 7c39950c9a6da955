// Builds a policy folder: graphs from a checkpoint, and the canary, for which the policy runs once.
import { usageError } from '../../errors.js';
import { buildAttentionGraph, buildGradientGraph } from '../build/attribution-graph.js';
import { readCheckpoint } from '../build/checkpoint.js';
import { buildDecodingGraph } from '../build/decode-graph.js';
import { buildScoringGraph } from '../build/graphs.js';
import { type CudaPrecision, cudaPrecisionOf } from '../build/precision.js';
import { type CanaryFile, FORMAT, writeFolder } from '../files.js';
import {
  ATTENTION_GRAPH,
  CUDA_DECODING_GRAPH,
  CUDA_GRAPH,
  DECODING_GRAPH,
  type ExitTemplate,
  GRADIENT_GRAPH,
  GRAPH,
  openPolicyFolder,
  type PolicyFolder,
} from '../folder.js';
import { checkExitTemplate, deriveExitTemplate, readChatTemplate } from '../text/exit-template.js';
import { openTokenizer } from '../text/open-tokenizer.js';
import { readStops } from '../text/stops.js';
import { CANARY } from './canary.js';
import { type CheckedIds, checkedIds } from './checked-text.js';
import { policyCanary } from './make-canary.js';

/**
 * Builds a policy folder from a Hugging Face checkpoint (config.json, safetensors, tokenizer.json). The weights are
 * linked, not copied, where the file system allows; the graph points into them.
 * @param out folder to write; may be the checkpoint itself
 * @param given parts of the exit template; the others are derived from tokenizer and chat template
 * @param opts cudaPrecision: what the graph for CUDA computes in (default: the checkpoint's own type, bf16 for float32)
 * @throws RredcotError (exit 2) where the checkpoint is not one that can be built
 */
export async function buildPolicyFolder(
  checkpoint: string,
  out: string,
  given: Partial<ExitTemplate> = {},
  opts: { readonly cudaPrecision?: CudaPrecision; readonly log?: (message: string) => void } = {},
): Promise<PolicyFolder> {
  const { architecture, head, weights, files: weightFiles } = await readCheckpoint(checkpoint);
  if (head !== undefined)
    throw usageError(
      `${checkpoint}: its head classifies and names no token: a process reward model, and no policy`,
      'rredcot policy build makes a folder for --prm of it',
    );
  const tokenizer = await openTokenizer(checkpoint); // refuses now what would fail at the first trace
  let exitTemplate: ExitTemplate;
  let stops: readonly number[];
  let ids: CheckedIds;
  const promptStart = tokenizer.start.id;
  try {
    const derived = await deriveExitTemplate(tokenizer, await readChatTemplate(checkpoint));
    exitTemplate = { ...derived, ...given };
    await checkExitTemplate(exitTemplate, tokenizer, architecture.vocab);
    stops = await readStops(checkpoint, tokenizer, architecture.vocab);
    ids = await checkedIds(tokenizer, exitTemplate);
  } finally {
    await tokenizer.close();
  }

  const types = Array.from(weights.values(), ({ dtype }) => dtype);
  const cuda = { graph: CUDA_GRAPH, precision: opts.cudaPrecision ?? cudaPrecisionOf(types) };
  const decoding = { graph: DECODING_GRAPH, cudaGraph: CUDA_DECODING_GRAPH, stops };
  const attribution = { attention: ATTENTION_GRAPH, gradient: GRADIENT_GRAPH };
  const graphs = [
    [GRAPH, () => buildScoringGraph(architecture, weights, 'f32')],
    [CUDA_GRAPH, () => buildScoringGraph(architecture, weights, cuda.precision)],
    [DECODING_GRAPH, () => buildDecodingGraph(architecture, weights, 'f32')],
    [CUDA_DECODING_GRAPH, () => buildDecodingGraph(architecture, weights, cuda.precision)],
    [ATTENTION_GRAPH, () => buildAttentionGraph(architecture, weights)],
    [GRADIENT_GRAPH, () => buildGradientGraph(architecture, weights)],
  ] as const;
  const unproved = { path: out, architecture, exitTemplate, files: {} };
  const parts = {
    weightFiles,
    graphs,
    canary: [CANARY, () => policyCanary(unproved, ids)] as const,
    manifest: (files: PolicyFolder['files'], canary: CanaryFile) => ({
      ...{
        format: FORMAT,
        architecture,
        exitTemplate,
        cuda,
        decoding,
        attribution,
        canary,
        promptStart,
        files,
      },
    }),
  };
  await writeFolder(checkpoint, out, parts, opts.log);
  return openPolicyFolder(out, { verify: false });
}
