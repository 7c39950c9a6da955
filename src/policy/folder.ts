// A policy folder on disk: policy.json, the graphs, the weights and the tokenizer that belong together.
import { z } from 'zod';
import { type RredcotError, usageError } from '../errors.js';
import { shellWord } from '../printable.js';
import { type Architecture, ArchitectureSchema } from './build/architecture.js';
import {
  type CanaryFile,
  CanarySchema,
  type CudaGraph,
  CudaGraphSchema,
  checkFolder,
  FileName,
  FORMAT,
  Hashes,
  hashesOf,
  MANIFEST,
  parseManifest,
  readManifest,
} from './files.js';
import { type ExitTemplate, ExitTemplateSchema } from './text/exit-template.js';

export { type CudaGraph, HASHED_BYTES, MANIFEST, sha256 } from './files.js';
export { type ExitTemplate, readExitTemplate } from './text/exit-template.js';

/** float32 */
export const GRAPH = 'policy.onnx';
export const CUDA_GRAPH = 'policy.cuda.onnx';
export const DECODING_GRAPH = 'policy.decode.onnx';
export const ATTENTION_GRAPH = 'policy.attention.onnx';
export const GRADIENT_GRAPH = 'policy.gradient.onnx';
export const CUDA_DECODING_GRAPH = 'policy.decode.cuda.onnx';
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
  /** the file of the numbers that every session has to reproduce; absent in folders of versions that had none */
  readonly canary?: CanaryFile;
  /** what is put before a prompt of plain text, or null; absent in folders of versions that did not say it */
  readonly promptStart?: number | null;
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
  canary: CanarySchema.exactOptional(),
  promptStart: z.number().int().nonnegative().nullable().exactOptional(),
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
  const { cuda, decoding, attribution, canary, promptStart, files, architecture, exitTemplate } =
    parseManifest(path, Manifest, found, hint);
  const graphs = [
    GRAPH,
    ...(cuda ? [cuda.graph] : []),
    ...(decoding ? [decoding.graph, decoding.cudaGraph] : []),
    ...(attribution ? [attribution.attention, attribution.gradient] : []),
  ];
  await checkFolder(path, { architecture }, graphs, hashesOf({ files, canary }), {
    verify: opts.verify ?? true,
    hint,
  });
  return {
    path,
    architecture,
    exitTemplate,
    ...(cuda ? { cuda } : {}),
    ...(decoding ? { decoding } : {}),
    ...(attribution ? { attribution } : {}),
    ...(canary === undefined ? {} : { canary }),
    ...(promptStart === undefined ? {} : { promptStart }),
    files,
  };
}

/** A folder that an earlier version has built. @param what its missing graph is for */
export function noGraph(path: string, what: string): RredcotError {
  return usageError(
    `${path}: has no graph that ${what}, ${MANIFEST} is of an earlier version`,
    `build the folder again with: rredcot policy build <checkpoint> -o ${shellWord(path)}`,
  );
}
