// A policy folder on disk: policy.json, the graphs, the weights and the tokenizer that belong together.
import { z } from 'zod';
import { type RredcotError, usageError } from '../errors.js';
import { shellWord } from '../printable.js';
import { buildAttentionGraph, buildGradientGraph } from './attribution/graph.js';
import { type Architecture, ArchitectureSchema } from './build/architecture.js';
import { readCheckpoint } from './build/checkpoint.js';
import { buildScoringGraph } from './build/graphs.js';
import { type CudaPrecision, cudaPrecisionOf } from './build/precision.js';
import { buildDecodingGraph } from './decode/graph.js';
import {
  type CudaGraph,
  CudaGraphSchema,
  checkFolder,
  FileName,
  FORMAT,
  Hashes,
  MANIFEST,
  parseManifest,
  readManifest,
  writeFolder,
} from './files.js';
import {
  checkExitTemplate,
  deriveExitTemplate,
  type ExitTemplate,
  ExitTemplateSchema,
  readChatTemplate,
} from './text/exit-template.js';
import { openTokenizer } from './text/open-tokenizer.js';
import { readStops } from './text/stops.js';

export { type CudaGraph, HASHED_BYTES, MANIFEST, sha256 } from './files.js';
export { type ExitTemplate, readExitTemplate } from './text/exit-template.js';

/** float32 */
export const GRAPH = 'policy.onnx';
const CUDA_GRAPH = 'policy.cuda.onnx';
const DECODING_GRAPH = 'policy.decode.onnx';
const ATTENTION_GRAPH = 'policy.attention.onnx';
const GRADIENT_GRAPH = 'policy.gradient.onnx';
const CUDA_DECODING_GRAPH = 'policy.decode.cuda.onnx';
/** the kind that policy.json names of a process reward model; a policy's names none */
export const PRM_KIND = 'prm';

/** A policy folder's manifest, as read from its policy.json. */
export interface PolicyFolder {
  readonly path: string;
  readonly architecture: Architecture;
  readonly exitTemplate: ExitTemplate;
  /** the graph for CUDA; absent in folders of versions that had none */
  readonly cuda?: CudaGraph;
  /** what writes; absent in folders of versions that could not */
  readonly decoding?: Decoding;
  /** the graphs of the attributions by that name; absent in folders of versions that had none */
  readonly attribution?: AttributionGraphs;
  /** sha256 of every file of the policy, by name */
  readonly files: Readonly<Record<string, string>>;
}

const DecodingSchema = z.object({
  graph: FileName,
  cudaGraph: FileName,
  stops: z.array(z.number().int().nonnegative()),
});
/** The graphs that write, float32 and half precision, and the tokens after which the policy's own completions end. */
export type Decoding = Readonly<z.infer<typeof DecodingSchema>>;

const AttributionSchema = z.object({ attention: FileName, gradient: FileName });
/** The graphs that attribute, float32. */
export type AttributionGraphs = Readonly<z.infer<typeof AttributionSchema>>;

const Manifest = z.object({
  format: z.literal(FORMAT),
  architecture: ArchitectureSchema,
  exitTemplate: ExitTemplateSchema,
  cuda: CudaGraphSchema.exactOptional(),
  decoding: DecodingSchema.exactOptional(),
  attribution: AttributionSchema.exactOptional(),
  files: Hashes,
});

/**
 * Reads a policy folder's manifest and checks that its files are there.
 * @param opts verify: also that files of up to 64 MiB are the ones that were built (default true)
 * @throws RredcotError (exit 2) where the folder is missing, unreadable, of another format, or changed
 */
export async function openPolicyFolder(
  path: string,
  opts: { readonly verify?: boolean } = {},
): Promise<PolicyFolder> {
  const hint = 'build one with: rredcot policy build <checkpoint> -o <folder>';
  const found = await readManifest(path, hint);
  if (found.kind === PRM_KIND)
    throw usageError(
      `${path}: a process reward model, which judges steps, and no policy`,
      '--policy <the policy that wrote the traces>; this one is for --estimator prm --prm <folder>',
    );
  const { cuda, decoding, attribution, files, architecture, exitTemplate } = parseManifest(
    path,
    Manifest,
    found,
    hint,
  );
  const graphs = [
    GRAPH,
    ...(cuda ? [cuda.graph] : []),
    ...(decoding ? [decoding.graph, decoding.cudaGraph] : []),
    ...(attribution ? [attribution.attention, attribution.gradient] : []),
  ];
  await checkFolder(path, { architecture }, graphs, files, { verify: opts.verify ?? true, hint });
  return {
    path,
    architecture,
    exitTemplate,
    ...(cuda ? { cuda } : {}),
    ...(decoding ? { decoding } : {}),
    ...(attribution ? { attribution } : {}),
    files,
  };
}

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
  try {
    const derived = await deriveExitTemplate(tokenizer, await readChatTemplate(checkpoint));
    exitTemplate = { ...derived, ...given };
    await checkExitTemplate(exitTemplate, tokenizer, architecture.vocab);
    stops = await readStops(checkpoint, tokenizer, architecture.vocab);
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
  const manifest = (files: PolicyFolder['files']) => ({
    ...{ format: FORMAT, architecture, exitTemplate, cuda, decoding, attribution, files },
  });
  await writeFolder(checkpoint, out, weightFiles, graphs, manifest, opts.log);
  return openPolicyFolder(out, { verify: false });
}

/** A folder that an earlier version has built. @param what its missing graph is for */
export function noGraph(path: string, what: string): RredcotError {
  return usageError(
    `${path}: has no graph that ${what}, ${MANIFEST} is of an earlier version`,
    `build the folder again with: rredcot policy build <checkpoint> -o ${shellWord(path)}`,
  );
}
