// Builds a policy's folder from a Hugging Face checkpoint: links to its files where the file system allows, graphs, the canary, for which the
// policy runs once, and at last policy.json.
import { constants } from 'node:fs';
import { copyFile, link, lstat, mkdir, realpath, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { RredcotError, usageError } from '../../errors.js';
import { writeJson, writeText } from '../../io/files/atomic-file.js';
import { CHECKPOINT_CONFIG, readCheckpoint, type WeightFile } from '../graph/checkpoint.js';
import { type CudaPrecision, cudaPrecisionOf, type Graph, serialiseModel } from '../graph/onnx.js';
import { buildScoringGraph } from '../graph/scoring-graph.js';
import { readStops } from '../text/edge-tokens.js';
import { openTokenizer } from '../text/open-tokenizer.js';
import {
  ASK_TEMPLATE,
  askedIds,
  checkExitTemplate,
  deriveExitTemplate,
  readAskTemplate,
  readChatTemplate,
} from '../text/templates.js';
import { sha256, untrustedFile } from '../text/untrusted-files.js';
import { CANARY, type CheckedIds, checkedIds, makeCanary } from './canary.js';
import {
  type CanaryFile,
  CUDA_GRAPH,
  type ExitTemplate,
  FORMAT,
  GRAPH,
  HINT_TEMPLATE,
  hasAccess,
  MANIFEST,
  openPolicyFolder,
  type PolicyFolder,
  TOKENIZER_FILES,
} from './folder.js';
import { ModelSession, type Unproved } from './session.js';

interface BuildOptions {
  /** what the graph for CUDA computes in; default: the checkpoint's own type, bf16 for float32 */
  readonly cudaPrecision?: CudaPrecision | undefined;
  readonly log?: (message: string) => void;
}

/**
 * Builds a policy folder from a checkpoint (config.json, safetensors, tokenizer.json). The weights are linked, not copied, where
 * the file system allows; the graphs point into them.
 * @param out folder to write; may be the checkpoint itself
 * @param given parts of the exit template; the others are derived from tokenizer and chat template
 * @throws RredcotError (exit 2) where the checkpoint is not one that can be built
 */
export async function buildPolicyFolder(
  checkpoint: string,
  out: string,
  given: Partial<ExitTemplate> = {},
  opts: BuildOptions = {},
): Promise<PolicyFolder> {
  const read = await readCheckpoint(checkpoint);
  const { architecture, weights } = read;
  const dtypes = Array.from(weights.values(), ({ dtype }) => dtype);
  const precision = opts.cudaPrecision ?? cudaPrecisionOf(dtypes);
  // refuses a tokenizer that would fail at the first trace
  const tokenizer = await openTokenizer(checkpoint);
  const text = async () => {
    const derived = await deriveExitTemplate(tokenizer, await readChatTemplate(checkpoint));
    const exitTemplate = { ...derived, ...given };
    await checkExitTemplate(exitTemplate, tokenizer, architecture.vocab);
    const asked = await readAskTemplate(checkpoint);
    if (asked !== undefined) await askedIds(asked, tokenizer, architecture.vocab);
    const stops = await readStops(checkpoint, tokenizer, architecture.vocab);
    const ids = await checkedIds(tokenizer, exitTemplate);
    return { exitTemplate, stops, ids };
  };
  const { exitTemplate, stops, ids } = await text().finally(() => tokenizer.close());
  const cuda = { graph: CUDA_GRAPH, precision };
  const unproved = { path: out, architecture, exitTemplate, cuda, stops, files: {} };
  const parts: FolderParts = {
    weightFiles: read.files,
    graphs: [
      [GRAPH, () => buildScoringGraph(architecture, weights, 'f32')],
      [CUDA_GRAPH, () => buildScoringGraph(architecture, weights, precision)],
    ],
    canary: [CANARY, () => canaryOf(unproved, ids)],
    manifest: (files, canary) => ({
      ...{ format: FORMAT, architecture, exitTemplate, cuda, stops, canary, files },
    }),
  };
  await writeFolder(checkpoint, out, parts, opts.log);
  return openPolicyFolder(out, { verify: false });
}

/** A new folder's canary: its float32 graph reads a few tokens on the CPU. */
async function canaryOf(folder: Unproved, ids: CheckedIds): Promise<object> {
  await using session = await ModelSession.openUnproved(folder);
  return await makeCanary(session, ids, folder.architecture).catch((cause: Error) => {
    if (cause instanceof RredcotError) throw cause;
    throw usageError(
      `${folder.path}: the canary cannot be made, the policy ${cause.message}`,
      'look at the checkpoint: its weights must be finite; and the machine must have the memory to run it once in float32',
    );
  });
}

// ------ files

/** newer checkpoints keep the chat template in a file of its own */
const CHAT_TEMPLATE = 'chat_template.jinja';

interface FolderParts {
  readonly weightFiles: readonly WeightFile[];
  readonly graphs: readonly (readonly [name: string, build: () => Graph])[];
  /** made when all others are there: the model runs for it */
  readonly canary: readonly [name: string, make: () => Promise<object>];
  /** what it says, from the hashes of its files */
  readonly manifest: (files: PolicyFolder['files'], canary: CanaryFile) => object;
}

/** @throws RredcotError (exit 2) for a folder that cannot be written, or that holds another checkpoint */
async function writeFolder(
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
    for (const [name, build] of graphs) await writeText(join(out, name), serialiseModel(build()));
    await writeJson(join(out, canary), await makeCanary());
    const files: Record<string, string> = {};
    for (const file of [...graphs.map(([name]) => name), ...kept.map(({ name }) => name)])
      files[file] = await sha256(join(out, file));
    const proof = { file: canary, sha256: await sha256(join(out, canary)) };
    await writeText(join(out, MANIFEST), `${JSON.stringify(manifest(files, proof), null, 2)}\n`);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (cause instanceof RredcotError || code === undefined) throw cause;
    throw usageError(
      `${out}: the policy folder cannot be written (${(cause as Error).message})`,
      '-o <a folder that can be written>',
      cause,
    );
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
  } else if ((await hasAccess(join(out, CHECKPOINT_CONFIG))) && !(await hasAccess(join(out, MANIFEST))))
    throw usageError(`${out}: holds another checkpoint, whose weights would be replaced`, elsewhere);
}

/** Weights, tokenizer and templates of a checkpoint, as they are. @throws RredcotError (exit 2) as `untrustedFile` */
async function keptFiles(checkpoint: string, weightFiles: readonly WeightFile[]): Promise<WeightFile[]> {
  const kept = [...weightFiles];
  for (const name of [...TOKENIZER_FILES, CHAT_TEMPLATE, HINT_TEMPLATE, ASK_TEMPLATE]) {
    const path = await untrustedFile(checkpoint, name);
    if (path !== undefined) kept.push({ name, path });
  }
  return kept;
}

/** A hard link where source (a real path) and target share a file system that has them, else a copy, which is logged. */
async function linkOrCopy(source: string, to: string, log?: (message: string) => void): Promise<void> {
  await rm(to, { force: true });
  try {
    await link(source, to);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const megabytes = Math.ceil((await stat(source)).size / 1e6);
    log?.(`${to}: copied (${megabytes} MB), it cannot be linked to ${source}: ${reasonOf(code)}`);
    await copyFile(source, to, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
  }
}

function reasonOf(code: string | undefined): string {
  if (code === 'EXDEV') return 'it lies on another file system';
  return code === 'EPERM' || code === 'ENOTSUP' ? `the system allows no hard link (${code})` : String(code);
}
