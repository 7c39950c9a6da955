// A model's folder on disk: policy.json, and the graphs, weights and tokenizer that belong together. Its head names tokens, as a
// policy's does, or says of steps whether they are right: a process reward model.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { type RredcotError, usageError } from '../../errors.js';
import { assertModelFolder } from '../../io/files/elsewhere.js';
import { foreignFile, foreignText } from '../../io/files/foreign-files.js';
import { EMBEDDED_POLICY } from '../../package-files.js';
import { shellWord } from '../../printable.js';
import type { PolicyFacts } from '../../report/run-figures.js';
import { ArchitectureSchema, HeadSchema } from '../graph/architecture.js';
import { chooseWeights, type Model } from '../graph/checkpoint.js';
import { ofSchema, parseJson } from '../graph/json.js';
import { CUDA_PRECISIONS } from '../graph/precision.js';
import { readSafetensorsHeader, type StoredTensor } from '../graph/safetensors.js';
import { ExitTemplateSchema } from '../text/templates.js';

export type { ExitTemplate } from '../text/templates.js';

export const FORMAT = 1;
export const MANIFEST = 'policy.json';
export const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json'] as const;
/** how a prompt tells the answer, for policies that read such hints */
export const HINT_TEMPLATE = 'hint_template.json';

/** The graphs of a policy: what scores, what writes, what attributes; `cuda` are in half precision. */
export const GRAPH = 'policy.onnx';
export const CUDA_GRAPH = 'policy.cuda.onnx';
export const DECODING_GRAPH = 'policy.decode.onnx';
export const CUDA_DECODING_GRAPH = 'policy.decode.cuda.onnx';
export const ATTENTION_GRAPH = 'policy.attention.onnx';
export const GRADIENT_GRAPH = 'policy.gradient.onnx';
/** The graphs of a process reward model. */
export const PRM_GRAPH = 'prm.onnx';
export const CUDA_PRM_GRAPH = 'prm.cuda.onnx';
/** the kind that policy.json names of a process reward model; a policy's names none */
export const PRM_KIND = 'prm';

const BUILD = 'build one with: rredcot policy build <checkpoint> -o <folder>';
export const BUILD_PRM =
  'build one from a checkpoint with a classification head: rredcot policy build <checkpoint> -o <folder>';

// ------ what policy.json says

// plain names: a manifest cannot point out of its folder
const FileName = z.string().regex(/^(?!\.\.?$)[^/\\]+$/);
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const Id = z.number().int().nonnegative();
const Cuda = z.object({ graph: FileName, precision: z.enum(CUDA_PRECISIONS) });
const Canary = z.object({ file: FileName, sha256: Sha256 });
const Decoding = z.object({ graph: FileName, cudaGraph: FileName, stops: z.array(Id) });
const Attribution = z.object({ attention: FileName, gradient: FileName });
const Step = z.strictObject({ text: z.string(), id: Id });
/** `{prompt}` and `{reference}` stand for these. */
export const WithReference = z
  .string()
  .refine(
    (text) => text.includes('{prompt}') && text.includes('{reference}'),
    'expected {prompt} and {reference} in it',
  );

/** What is absent is so in folders of versions that did not have it. */
const common = {
  format: z.literal(FORMAT),
  architecture: ArchitectureSchema,
  /**
   * The file of the numbers that every session has to reproduce. Its hash stands apart from those that say which model a folder
   * holds: built on two kinds of machine, canaries of one model differ in their last digits.
   */
  canary: Canary.exactOptional(),
  /** sha256 of every file, by name */
  files: z.record(FileName, Sha256),
};
const PolicyManifest = z.object({
  ...common,
  exitTemplate: ExitTemplateSchema,
  /** the graph for CUDA, and what it computes in */
  cuda: Cuda.exactOptional(),
  /** the graphs that write, float32 and half precision, and the tokens after which the policy's own completions end */
  decoding: Decoding.exactOptional(),
  /** the graphs of the attributions by that name, float32 */
  attribution: Attribution.exactOptional(),
  /** what is put before a prompt of plain text, or null */
  promptStart: Id.nullable().exactOptional(),
});
const PrmManifest = z.object({
  ...common,
  kind: z.literal(PRM_KIND),
  head: HeadSchema,
  /** number of the label that says right */
  correct: Id,
  /** a token behind every step, where the step's label stands; absent: that stands at the step's last token */
  stepToken: Step.exactOptional(),
  /** the text of a prompt that has the reference answer in it */
  withReference: WithReference,
  cuda: Cuda,
});

type InFolder<Manifest> = { readonly path: string } & Readonly<Omit<Manifest, 'format' | 'kind'>>;
export type PolicyFolder = InFolder<z.infer<typeof PolicyManifest>>;
export type PrmFolder = InFolder<z.infer<typeof PrmManifest>>;
export type ModelFolder = PolicyFolder | PrmFolder;
export type CanaryFile = Readonly<z.infer<typeof Canary>>;
export type AttributionGraphs = Readonly<z.infer<typeof Attribution>>;
export type StepToken = Readonly<z.infer<typeof Step>>;

/** What the words at a run's end have to know of a policy. */
export function policyFacts({ path, architecture, exitTemplate }: PolicyFolder): PolicyFacts {
  const { close, open } = exitTemplate;
  const isEmbedded = resolve(path) === EMBEDDED_POLICY;
  return { path, isEmbedded, vocab: architecture.vocab, exit: `${close}${open}` };
}

/** What its model is called in words. */
export function whatOf(folder: ModelFolder): string {
  return 'head' in folder ? 'the reward model' : 'the policy';
}

/** Whether a folder is one of a process reward model. @throws RredcotError (exit 2) where it is none of both */
export async function isPrmFolder(path: string): Promise<boolean> {
  return (await readManifest(path, BUILD)).kind === PRM_KIND;
}

/** How a folder is opened; `verify`: also that files of up to 64 MiB are the ones that were built (default true). */
interface OpenOptions {
  readonly verify?: boolean;
}

/**
 * Reads a policy folder's manifest and checks that its files are there.
 * @throws RredcotError (exit 2) where the folder is missing, unreadable, of another format, or changed
 */
export async function openPolicyFolder(
  path: string,
  { verify = true }: OpenOptions = {},
): Promise<PolicyFolder> {
  const found = await readManifest(path, BUILD);
  if (found.kind === PRM_KIND)
    throw usageError(
      `${path}: a process reward model, which judges steps, and no policy`,
      '--policy <the policy that wrote the traces>; this one is for --estimator prm --prm <folder>',
    );
  const { format: _, ...manifest } = ofSchema(PolicyManifest, found, join(path, MANIFEST), BUILD);
  const { architecture, cuda, decoding, attribution } = manifest;
  const graphs = [
    ...[GRAPH, cuda?.graph, decoding?.graph, decoding?.cudaGraph],
    ...[attribution?.attention, attribution?.gradient],
  ].filter((name) => name !== undefined);
  await checkFolder(path, { architecture }, graphs, hashesOf(manifest), { verify, hint: BUILD });
  return { path, ...manifest };
}

/** The same of a process reward model. @throws RredcotError (exit 2) also for a policy's folder */
export async function openPrmFolder(path: string, { verify = true }: OpenOptions = {}): Promise<PrmFolder> {
  const found = await readManifest(path, BUILD_PRM);
  if (found.kind === undefined && 'exitTemplate' in found)
    throw usageError(
      `${path}: a policy, which names tokens, and no process reward model, which judges steps`,
      BUILD_PRM,
    );
  const { format: _, kind: __, ...manifest } = ofSchema(PrmManifest, found, join(path, MANIFEST), BUILD_PRM);
  const { head, correct, stepToken, architecture, cuda } = manifest;
  if (correct >= head.labels.length || (stepToken?.id ?? 0) >= architecture.vocab)
    throw usageError(`${path}: its policy.json names a label or a token that it does not have`, BUILD_PRM);
  const model = { architecture, head };
  await checkFolder(path, model, [PRM_GRAPH, cuda.graph], hashesOf(manifest), { verify, hint: BUILD_PRM });
  return { path, ...manifest };
}

async function readManifest(path: string, hint: string): Promise<{ readonly kind?: unknown }> {
  await assertModelFolder(path, 'a policy folder', hint);
  const text = await foreignText(path, MANIFEST);
  if (text === undefined) throw usageError(`${path}: not a policy folder (it has no ${MANIFEST})`, hint);
  return (parseJson(text, join(path, MANIFEST)) ?? {}) as { kind?: unknown };
}

/** A folder that an earlier version has built. @param what its missing graph is for */
export function noGraph(path: string, what: string): RredcotError {
  return usageError(
    `${path}: has no graph that ${what}, ${MANIFEST} is of an earlier version`,
    `build the folder again with: rredcot policy build <checkpoint> -o ${shellWord(path)}`,
  );
}

// ------ its files

/** Hashes of all files of a folder, its canary's too. */
export function hashesOf({ files, canary }: Pick<ModelFolder, 'files' | 'canary'>): ModelFolder['files'] {
  return canary === undefined ? files : { ...files, [canary.file]: canary.sha256 };
}

/** That its files are there, and that its weights are those of the architecture. */
async function checkFolder(
  path: string,
  model: Model,
  graphs: readonly string[],
  files: ModelFolder['files'],
  { verify, hint }: { readonly verify: boolean; readonly hint: string },
): Promise<void> {
  for (const name of new Set([...graphs, ...TOKENIZER_FILES, ...Object.keys(files)])) {
    const file = await foreignFile(path, name);
    if (file === undefined || !(await hasAccess(file, constants.R_OK)))
      throw usageError(`${join(path, name)}: file of the policy is missing or unreadable`, hint);
  }
  if (verify) await verifySmallFiles(path, files);
  // the manifest's numbers steer loops and memory: they have to be those of the weights
  const tensors = new Map<string, StoredTensor>();
  for (const name of Object.keys(files).filter((file) => file.endsWith('.safetensors')))
    for (const [tensor, stored] of await readSafetensorsHeader(join(path, name))) tensors.set(tensor, stored);
  chooseWeights(path, MANIFEST, model, tensors);
}

export function hasAccess(path: string, mode = constants.F_OK): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}

export async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

/** Files up to this size are hashed whenever the folder is opened; larger ones as `watchPolicy` says. */
export const HASHED_BYTES = 64 * 2 ** 20;

/** The hashes go into the output as its provenance: files that are not what was built are refused. */
async function verifySmallFiles(path: string, files: ModelFolder['files']): Promise<void> {
  for (const [name, expected] of Object.entries(files)) {
    const file = join(path, name);
    if ((await stat(file)).size > HASHED_BYTES || (await sha256(file)) === expected) continue;
    throw notAsBuilt(file);
  }
}

export function notAsBuilt(file: string): RredcotError {
  return usageError(
    `${file}: is not the file that policy.json was built with (sha256)`,
    'build the folder again with: rredcot policy build <checkpoint> -o <folder>',
  );
}
