// What policy folders and folders of process reward models have in common on disk: files linked in, hashed, checked.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, constants, lstat, mkdir, realpath, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { EXIT, RredcotError, usageError } from '../errors.js';
import { assertModelFolder } from '../io/files/elsewhere.js';
import { foreignFile, foreignText } from '../io/files/foreign-files.js';
import {
  CHECKPOINT_CONFIG,
  chooseWeights,
  type Model,
  parseConfig,
  type WeightFile,
} from './build/checkpoint.js';
import { type Graph, serialiseModel } from './build/onnx.js';
import { CUDA_PRECISIONS } from './build/precision.js';
import { readSafetensorsHeader, type StoredTensor } from './build/safetensors.js';
import { linkOrCopy, replaceFile } from './link-files.js';

export const FORMAT = 1;
export const MANIFEST = 'policy.json';
const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json'] as const;
/** newer checkpoints keep the chat template in a file of its own */
const CHAT_TEMPLATE = 'chat_template.jinja';
/** how a prompt tells the answer, for policies that read such hints */
export const HINT_TEMPLATE = 'hint_template.json';
const BUILD_AGAIN = 'build the folder again with: rredcot policy build <checkpoint> -o <folder>';

// plain names: a manifest cannot point out of its folder
export const FileName = z.string().regex(/^(?!\.\.?$)[^/\\]+$/);
export const Hashes = z.record(FileName, z.string().regex(/^[0-9a-f]{64}$/));
export const CudaGraphSchema = z.object({ graph: FileName, precision: z.enum(CUDA_PRECISIONS) });
export const CanarySchema = z.object({ file: FileName, sha256: z.string().regex(/^[0-9a-f]{64}$/) });
/**
 * The file of the numbers that every session has to reproduce. Its hash stands apart from those that say which policy a folder
 * holds: built on two kinds of machine, canaries of one policy differ in their last digits.
 */
export type CanaryFile = Readonly<z.infer<typeof CanarySchema>>;
/** A graph in half precision, and in which. */
export type CudaGraph = Readonly<z.infer<typeof CudaGraphSchema>>;

/**
 * What a folder's policy.json says, of a policy or of a process reward model.
 * @throws RredcotError (exit 2) where there is none, or it is no JSON
 */
export async function readManifest(path: string, hint: string): Promise<{ readonly kind?: unknown }> {
  await assertModelFolder(path, 'a policy folder', hint);
  const text = await foreignText(path, MANIFEST);
  if (text === undefined) throw usageError(`${path}: not a policy folder (it has no ${MANIFEST})`, hint);
  return (parseConfig(text, join(path, MANIFEST)) ?? {}) as { kind?: unknown };
}

/** @throws RredcotError (exit 2) where it is not of the schema */
export function parseManifest<T>(path: string, schema: z.ZodType<T>, found: unknown, hint: string): T {
  const parsed = schema.safeParse(found);
  if (parsed.success) return parsed.data;
  const why = z.prettifyError(parsed.error).replaceAll(/\s*\n\s*/g, ' ');
  throw usageError(`${join(path, MANIFEST)}: ${why}`, hint);
}

/** Hashes of all files of a folder, its canary's too. */
export function hashesOf({
  files,
  canary,
}: {
  readonly files: Readonly<Record<string, string>>;
  readonly canary?: CanaryFile | undefined;
}): Readonly<Record<string, string>> {
  return canary === undefined ? files : { ...files, [canary.file]: canary.sha256 };
}

/**
 * Checks that a folder's files are there, and that its weights are those of the architecture.
 * @param verify also that files of up to 64 MiB are the ones that were built
 */
export async function checkFolder(
  path: string,
  model: Model,
  graphs: readonly string[],
  files: Readonly<Record<string, string>>,
  { verify, hint }: { readonly verify: boolean; readonly hint: string },
): Promise<void> {
  for (const file of new Set([...graphs, ...TOKENIZER_FILES, ...Object.keys(files)]))
    await checkFile(path, file, hint);
  if (verify) await verifySmallFiles(path, files);
  await checkWeights(path, model, Object.keys(files));
}

/** What a folder gets beside the checkpoint's tokenizer. */
export interface FolderParts {
  readonly weightFiles: readonly WeightFile[];
  readonly graphs: readonly (readonly [name: string, build: () => Graph])[];
  /** made when all others are there: the model runs for it */
  readonly canary: readonly [name: string, make: () => Promise<object>];
  /** what it says, from the hashes of its files */
  readonly manifest: (files: Readonly<Record<string, string>>, canary: CanaryFile) => object;
}

/**
 * Writes a folder: the checkpoint's weights and tokenizer linked in, graphs, the canary, and at last the manifest.
 * @throws RredcotError (exit 2) for a folder that cannot be written, or that holds another checkpoint
 */
export async function writeFolder(
  checkpoint: string,
  out: string,
  { weightFiles, graphs, canary: [canary, makeCanary], manifest }: FolderParts,
  log: ((message: string) => void) | undefined,
): Promise<void> {
  const kept = await keptFiles(checkpoint, weightFiles);
  try {
    await mkdir(out, { recursive: true });
    await checkTarget(checkpoint, out, weightFiles);
    await rm(join(out, MANIFEST), { force: true }); // an interrupted build leaves no policy
    if ((await realpath(out)) !== (await realpath(checkpoint)))
      for (const { name, path } of kept) await linkOrCopy(path, join(out, name), log);
    for (const [name, build] of graphs) await replaceFile(join(out, name), serialiseModel(build()));
    await replaceFile(join(out, canary), `${JSON.stringify(await makeCanary())}\n`);
    const files: Record<string, string> = {};
    for (const file of [...graphs.map(([name]) => name), ...kept.map(({ name }) => name)])
      files[file] = await sha256(join(out, file));
    const proof = { file: canary, sha256: await sha256(join(out, canary)) };
    await replaceFile(join(out, MANIFEST), `${JSON.stringify(manifest(files, proof), null, 2)}\n`);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (cause instanceof RredcotError || code === undefined) throw cause;
    throw new RredcotError(`${out}: the policy folder cannot be written (${(cause as Error).message})`, {
      exitCode: EXIT.usage,
      hint: '-o <a folder that can be written>',
      cause,
    });
  }
}

/** Refuses a target that ONNX Runtime could not read, or that holds another checkpoint's weights. */
async function checkTarget(
  checkpoint: string,
  out: string,
  weightFiles: readonly WeightFile[],
): Promise<void> {
  const elsewhere = '-o <another folder>';
  if ((await realpath(out)) === (await realpath(checkpoint))) {
    for (const { name } of weightFiles)
      if ((await lstat(join(out, name))).isSymbolicLink())
        throw usageError(
          `${join(out, name)}: a symbolic link, which ONNX Runtime does not follow`,
          elsewhere,
        );
  } else if ((await isThere(join(out, CHECKPOINT_CONFIG))) && !(await isThere(join(out, MANIFEST))))
    throw usageError(`${out}: holds another checkpoint, whose weights would be replaced`, elsewhere);
}

/** Weights, tokenizer and templates of a checkpoint, as they are. @throws RredcotError (exit 2) as `foreignFile` */
async function keptFiles(checkpoint: string, weightFiles: readonly WeightFile[]): Promise<WeightFile[]> {
  const kept = [...weightFiles];
  for (const name of [...TOKENIZER_FILES, CHAT_TEMPLATE, HINT_TEMPLATE]) {
    const path = await foreignFile(checkpoint, name);
    if (path !== undefined) kept.push({ name, path });
  }
  return kept;
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
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
async function verifySmallFiles(path: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, expected] of Object.entries(files)) {
    const file = join(path, name);
    if ((await stat(file)).size > HASHED_BYTES || (await sha256(file)) === expected) continue;
    throw usageError(`${file}: is not the file that policy.json was built with (sha256)`, BUILD_AGAIN);
  }
}

async function checkFile(path: string, name: string, hint: string): Promise<void> {
  const file = await foreignFile(path, name);
  const isReadable = file !== undefined && (await canRead(file));
  if (!isReadable) throw usageError(`${join(path, name)}: file of the policy is missing or unreadable`, hint);
}

function canRead(path: string): Promise<boolean> {
  return access(path, constants.R_OK).then(
    () => true,
    () => false,
  );
}

/** The manifest's numbers steer loops and memory: they have to be those of the weights. */
async function checkWeights(path: string, model: Model, files: readonly string[]): Promise<void> {
  const tensors = new Map<string, StoredTensor>();
  for (const name of files.filter((file) => file.endsWith('.safetensors')))
    for (const [tensor, stored] of await readSafetensorsHeader(join(path, name))) tensors.set(tensor, stored);
  chooseWeights(path, MANIFEST, model, tensors);
}
