// A policy folder on disk: policy.json, the graphs, the weights and the tokenizer that belong together.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, constants, lstat, mkdir, realpath, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { EXIT, RredcotError, usageError } from '../errors.js';
import { foreignFile, foreignText } from '../io/files/foreign-files.js';
import { shellWord } from '../printable.js';
import { type Architecture, ArchitectureSchema } from './build/architecture.js';
import { chooseWeights, parseConfig, readCheckpoint, type WeightFile } from './build/checkpoint.js';
import { buildScoringGraph } from './build/graphs.js';
import { linkOrCopy, replaceFile } from './build/link-files.js';
import { serialiseModel } from './build/onnx.js';
import { CUDA_PRECISIONS, type CudaPrecision, cudaPrecisionOf } from './build/precision.js';
import { readSafetensorsHeader, type StoredTensor } from './build/safetensors.js';
import { buildDecodingGraph } from './decode/graph.js';
import {
  checkExitTemplate,
  deriveExitTemplate,
  type ExitTemplate,
  ExitTemplateSchema,
  readChatTemplate,
} from './text/exit-template.js';
import { openTokenizer } from './text/open-tokenizer.js';
import { readStops } from './text/stops.js';

export { type ExitTemplate, readExitTemplate } from './text/exit-template.js';

const FORMAT = 1;
export const MANIFEST = 'policy.json';
const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json'] as const;
/** newer checkpoints keep the chat template in a file of its own */
const CHAT_TEMPLATE = 'chat_template.jinja';
/** float32 */
export const GRAPH = 'policy.onnx';
const CUDA_GRAPH = 'policy.cuda.onnx';
const DECODING_GRAPH = 'policy.decode.onnx';
const CUDA_DECODING_GRAPH = 'policy.decode.cuda.onnx';

/** A policy folder's manifest, as read from its policy.json. */
export interface PolicyFolder {
  readonly path: string;
  readonly architecture: Architecture;
  readonly exitTemplate: ExitTemplate;
  /** the graph for CUDA; absent in folders of versions that had none */
  readonly cuda?: CudaGraph;
  /** what writes; absent in folders of versions that could not */
  readonly decoding?: Decoding;
  /** sha256 of every file of the policy, by name */
  readonly files: Readonly<Record<string, string>>;
}

// plain names: a manifest cannot point out of its folder
const FileName = z.string().regex(/^(?!\.\.?$)[^/\\]+$/);
const CudaGraphSchema = z.object({ graph: FileName, precision: z.enum(CUDA_PRECISIONS) });
/** A graph in half precision, and in which. */
export type CudaGraph = Readonly<z.infer<typeof CudaGraphSchema>>;

const DecodingSchema = z.object({
  graph: FileName,
  cudaGraph: FileName,
  stops: z.array(z.number().int().nonnegative()),
});
/** The graphs that write, float32 and half precision, and the tokens after which the policy's own completions end. */
export type Decoding = Readonly<z.infer<typeof DecodingSchema>>;

const Manifest = z.object({
  format: z.literal(FORMAT),
  architecture: ArchitectureSchema,
  exitTemplate: ExitTemplateSchema,
  cuda: CudaGraphSchema.exactOptional(),
  decoding: DecodingSchema.exactOptional(),
  files: z.record(FileName, z.string().regex(/^[0-9a-f]{64}$/)),
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
  const manifestPath = join(path, MANIFEST);
  const hint = 'build one with: rredcot policy build <checkpoint> -o <folder>';
  const text = await foreignText(path, MANIFEST);
  if (text === undefined) throw usageError(`${path}: not a policy folder (it has no ${MANIFEST})`, hint);
  const parsed = Manifest.safeParse(parseConfig(text, manifestPath));
  if (!parsed.success)
    throw new RredcotError(`${manifestPath}: ${oneLine(z.prettifyError(parsed.error))}`, {
      exitCode: EXIT.usage,
      hint,
    });
  const { cuda, decoding, files } = parsed.data;
  const graphs = [
    GRAPH,
    ...(cuda ? [cuda.graph] : []),
    ...(decoding ? [decoding.graph, decoding.cudaGraph] : []),
  ];
  const needed = [...graphs, ...TOKENIZER_FILES];
  for (const file of new Set([...needed, ...Object.keys(files)])) await checkFile(path, file, hint);
  if (opts.verify ?? true) await verifySmallFiles(path, files);
  const { architecture, exitTemplate } = parsed.data;
  await checkWeights(path, architecture, Object.keys(files));
  return {
    path,
    architecture,
    exitTemplate,
    ...(cuda ? { cuda } : {}),
    ...(decoding ? { decoding } : {}),
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
  const { architecture, weights, files: weightFiles } = await readCheckpoint(checkpoint);
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

  try {
    await mkdir(out, { recursive: true });
    await checkTarget(checkpoint, out, weightFiles);
    await rm(join(out, MANIFEST), { force: true }); // an interrupted build leaves no policy
    const kept = await linkedFiles(checkpoint, out, weightFiles, opts.log);
    const types = Array.from(weights.values(), ({ dtype }) => dtype);
    const cuda = { graph: CUDA_GRAPH, precision: opts.cudaPrecision ?? cudaPrecisionOf(types) };
    const decoding = { graph: DECODING_GRAPH, cudaGraph: CUDA_DECODING_GRAPH, stops };
    const graphs = [
      [GRAPH, buildScoringGraph, 'f32'],
      [CUDA_GRAPH, buildScoringGraph, cuda.precision],
      [DECODING_GRAPH, buildDecodingGraph, 'f32'],
      [CUDA_DECODING_GRAPH, buildDecodingGraph, cuda.precision],
    ] as const;
    for (const [name, build, precision] of graphs)
      await replaceFile(join(out, name), serialiseModel(build(architecture, weights, precision)));
    const files: Record<string, string> = {};
    for (const file of [...graphs.map(([name]) => name), ...kept])
      files[file] = await sha256(join(out, file));
    const manifest = { format: FORMAT, architecture, exitTemplate, cuda, decoding, files };
    await replaceFile(join(out, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (cause instanceof RredcotError || code === undefined) throw cause;
    throw new RredcotError(`${out}: the policy folder cannot be written (${(cause as Error).message})`, {
      exitCode: EXIT.usage,
      hint: '-o <a folder that can be written>',
      cause,
    });
  }
  return openPolicyFolder(out, { verify: false });
}

/** A folder that an earlier version has built. */
export function noDecodingGraph(path: string): RredcotError {
  return usageError(
    `${path}: has no graph that writes, ${MANIFEST} is of an earlier version`,
    `build the folder again with: rredcot policy build <checkpoint> -o ${shellWord(path)}`,
  );
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
  } else if ((await isThere(join(out, 'config.json'))) && !(await isThere(join(out, MANIFEST))))
    throw usageError(`${out}: holds another checkpoint, whose weights would be replaced`, elsewhere);
}

/** Weights and tokenizer in the policy folder, by name. */
async function linkedFiles(
  checkpoint: string,
  out: string,
  weightFiles: readonly WeightFile[],
  log: ((message: string) => void) | undefined,
): Promise<string[]> {
  const sources = [...weightFiles];
  for (const name of [...TOKENIZER_FILES, CHAT_TEMPLATE]) {
    const path = await foreignFile(checkpoint, name);
    if (path !== undefined) sources.push({ name, path });
  }
  if ((await realpath(out)) !== (await realpath(checkpoint)))
    for (const { name, path } of sources) await linkOrCopy(path, join(out, name), log);
  return sources.map(({ name }) => name);
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
    throw usageError(
      `${file}: is not the file that policy.json was built with (sha256)`,
      'build the folder again with: rredcot policy build <checkpoint> -o <folder>',
    );
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
async function checkWeights(
  path: string,
  architecture: Architecture,
  files: readonly string[],
): Promise<void> {
  const tensors = new Map<string, StoredTensor>();
  for (const name of files.filter((file) => file.endsWith('.safetensors')))
    for (const [tensor, stored] of await readSafetensorsHeader(join(path, name))) tensors.set(tensor, stored);
  chooseWeights(path, MANIFEST, architecture, tensors);
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ');
}
