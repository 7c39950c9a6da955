// A folder of a process reward model on disk: policy.json, its graph, weights and tokenizer, and how its steps are read.
import { join } from 'node:path';
import { z } from 'zod';
import { usageError } from '../errors.js';
import { assertModelFolder } from '../io/files/elsewhere.js';
import { foreignText } from '../io/files/foreign-files.js';
import { type Architecture, ArchitectureSchema, type Head, HeadSchema } from './build/architecture.js';
import { CHECKPOINT_CONFIG, CHECKPOINT_FILES, parseConfig } from './build/checkpoint.js';
import { classifierOf } from './build/families.js';
import {
  type CanaryFile,
  CanarySchema,
  type CudaGraph,
  CudaGraphSchema,
  checkFolder,
  FORMAT,
  Hashes,
  hashesOf,
  parseManifest,
  readManifest,
} from './files.js';
import { PRM_KIND } from './folder.js';

/** float32 */
export const PRM_GRAPH = 'prm.onnx';
export const CUDA_PRM_GRAPH = 'prm.cuda.onnx';
export const HINT =
  'build one from a checkpoint with a classification head: rredcot policy build <checkpoint> -o <folder>';

const StepTokenSchema = z.strictObject({ text: z.string(), id: z.number().int().nonnegative() });
/** A token behind every step, where the step's label stands. */
export type StepToken = Readonly<z.infer<typeof StepTokenSchema>>;

/** `{prompt}` and `{reference}` stand for these. */
export const WithReference = z
  .string()
  .refine(
    (text) => text.includes('{prompt}') && text.includes('{reference}'),
    'expected {prompt} and {reference} in it',
  );

/** How a process reward model is read. */
export interface PrmFolder {
  readonly path: string;
  readonly architecture: Architecture;
  readonly head: Head;
  /** number of the label that says right */
  readonly correct: number;
  /** absent: a step's label stands at its last token */
  readonly stepToken?: StepToken;
  /** the text of a prompt that has the reference answer in it */
  readonly withReference: string;
  readonly cuda: CudaGraph;
  /** as of a policy's folder */
  readonly canary?: CanaryFile;
  /** sha256 of every file, by name */
  readonly files: Readonly<Record<string, string>>;
}

const Manifest = z.object({
  format: z.literal(FORMAT),
  kind: z.literal(PRM_KIND),
  architecture: ArchitectureSchema,
  head: HeadSchema,
  correct: z.number().int().nonnegative(),
  stepToken: StepTokenSchema.exactOptional(),
  withReference: WithReference,
  cuda: CudaGraphSchema,
  canary: CanarySchema.exactOptional(),
  files: Hashes,
});

/** Whether a checkpoint's head classifies. @throws RredcotError (exit 2) for what is no checkpoint */
export async function isPrmCheckpoint(checkpoint: string): Promise<boolean> {
  await assertModelFolder(checkpoint, 'a checkpoint', CHECKPOINT_FILES);
  const config = await foreignText(checkpoint, CHECKPOINT_CONFIG);
  return (
    config !== undefined &&
    classifierOf(parseConfig(config, join(checkpoint, CHECKPOINT_CONFIG))) !== undefined
  );
}

/** Whether a folder is one of a process reward model. @throws RredcotError (exit 2) where it is none of both */
export async function isPrmFolder(path: string): Promise<boolean> {
  const { kind } = await readManifest(path, 'build one with: rredcot policy build <checkpoint> -o <folder>');
  return kind === PRM_KIND;
}

/** As `openPolicyFolder`, of a process reward model. @throws RredcotError (exit 2) also for a policy's folder */
export async function openPrmFolder(
  path: string,
  { verify = true }: { readonly verify?: boolean } = {},
): Promise<PrmFolder> {
  const found = await readManifest(path, HINT);
  if (found.kind === undefined && 'exitTemplate' in found)
    throw usageError(
      `${path}: a policy, which names tokens, and no process reward model, which judges steps`,
      HINT,
    );
  const { format: _, kind: __, ...manifest } = parseManifest(path, Manifest, found, HINT);
  const { head, correct, stepToken, architecture } = manifest;
  if (correct >= head.labels.length || (stepToken?.id ?? 0) >= architecture.vocab)
    throw usageError(`${path}: its policy.json names a label or a token that it does not have`, HINT);
  const graphs = [PRM_GRAPH, manifest.cuda.graph];
  await checkFolder(path, { architecture, head }, graphs, hashesOf(manifest), { verify, hint: HINT });
  return { path, ...manifest };
}
