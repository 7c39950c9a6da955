// Builds a policy's folder from a Hugging Face checkpoint: links to its files where the file system allows, graphs, the canary, for which the
// policy runs once, and at last policy.json.
import { constants, existsSync } from 'node:fs';
import { copyFile, link, lstat, mkdir, realpath, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { RredcotError, usageError } from '../../errors.js';
import { writeJson, writeText } from '../../io/files/atomic-file.js';
import { fileError } from '../../io/files/files.js';
import { plural } from '../../plural.js';
import { readAdapter } from '../graph/adapter.js';
import { parseSizes } from '../graph/architecture.js';
import {
  CHECKPOINT_CONFIG,
  readCheckpoint,
  readConfig,
  SINGLE,
  type WeightFile,
} from '../graph/checkpoint.js';
import { type CudaPrecision, cudaPrecisionOf, type Precision, serialiseModel } from '../graph/onnx.js';
import { buildScoringGraph, stateLayers } from '../graph/scoring-graph.js';
import { writtenWeights } from '../graph/written.js';
import { CHAT_TEMPLATE, checkedTemplate } from '../text/chat-template.js';
import { readStops } from '../text/edge-tokens.js';
import { openTokenizer } from '../text/open-tokenizer.js';
import {
  ASK_TEMPLATE,
  askedIds,
  checkExitTemplate,
  deriveExitTemplate,
  type ExitTemplate,
  readAskTemplate,
} from '../text/templates.js';
import { sha256, untrustedFile } from '../text/untrusted-files.js';
import { CANARY, type CheckedIds, checkedIds, makeCanary } from './canary.js';
import {
  CUDA_GRAPH,
  FORMAT,
  GRAPH,
  HINT_TEMPLATE,
  MANIFEST,
  openPolicyFolder,
  openTextFolder,
  type PolicyFolder,
  type TextFolder,
  TOKENIZER_FILES,
} from './folder.js';
import { ModelSession, type Unproved } from './session.js';

interface BuildOptions {
  /** what the graph for CUDA computes in; default: the checkpoint's own type, bf16 for float32 */
  readonly cudaPrecision?: CudaPrecision | undefined;
  /** folder of a LoRA adapter, which is merged into the weights */
  readonly adapter?: string | undefined;
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
  const base = await readCheckpoint(checkpoint);
  const adapter = opts.adapter === undefined ? undefined : await readAdapter(opts.adapter, base);
  const { architecture } = base;
  const written = adapter || architecture.mixture ? writtenWeights(base, SINGLE, adapter) : undefined;
  if (written && existsSync(out) && (await realpath(out)) === (await realpath(checkpoint)))
    throw usageError(
      `${out}: holds the weights that ${adapter ? 'the adapter is merged into' : 'are written anew, experts stacked'}`,
      '-o <another folder>',
    );
  const { weights } = written ?? base;
  const precision = opts.cudaPrecision ?? cudaPrecisionOf(Array.from(weights.values(), ({ dtype }) => dtype));
  const { ids, ...texts } = await readTexts(checkpoint, given, architecture.vocab);
  const cuda = { graph: CUDA_GRAPH, precision };
  const graph = (type: Precision) => serialiseModel(buildScoringGraph(architecture, weights, type));
  const writeGraphs = async () => {
    if (adapter) opts.log?.(`merging ${adapter.about}`);
    await written?.write(join(out, SINGLE));
    await writeText(join(out, GRAPH), graph('f32'));
    await writeText(join(out, CUDA_GRAPH), graph(precision));
    await writeJson(join(out, CANARY), await canaryOf({ path: out, architecture, cuda }, ids, opts.log));
    return [GRAPH, CUDA_GRAPH, ...(written ? [SINGLE] : [])];
  };
  const weightFiles = written ? [] : base.files;
  const graphs = { cuda, writeGraphs, stateLayers: stateLayers(architecture) };
  await writeFolder(checkpoint, out, { architecture, ...texts, weightFiles, ...graphs }, opts.log);
  return openPolicyFolder(out, { verify: false });
}

/** Builds one that has no graph: an engine answers, whatever it runs. @throws RredcotError (exit 2) as {@link buildPolicyFolder} */
export async function buildTextFolder(
  checkpoint: string,
  out: string,
  given: Partial<ExitTemplate>,
  log?: BuildOptions['log'],
): Promise<TextFolder> {
  const architecture = parseSizes(...(await readConfig(checkpoint)));
  const { ids: _, ...texts } = await readTexts(checkpoint, given, architecture.vocab);
  await writeFolder(checkpoint, out, { architecture, ...texts, weightFiles: [] }, log);
  return openTextFolder(out, { verify: false });
}

/** What tokenizer and templates say. @throws RredcotError (exit 2) for those that would fail at the first trace */
async function readTexts(checkpoint: string, given: Partial<ExitTemplate>, vocab: number) {
  const chatTemplate = await checkedTemplate(checkpoint);
  const tokenizer = await openTokenizer(checkpoint);
  await using _ = { [Symbol.asyncDispose]: () => tokenizer.close() };
  const derived = await deriveExitTemplate(tokenizer, chatTemplate);
  const exitTemplate = { ...derived, ...given };
  await checkExitTemplate(exitTemplate, tokenizer, vocab);
  const asked = await readAskTemplate(checkpoint);
  if (asked !== undefined) await askedIds(asked, tokenizer, vocab);
  const stops = await readStops(checkpoint, tokenizer, vocab);
  return { exitTemplate, stops, ids: await checkedIds(tokenizer, exitTemplate) };
}

interface FolderParts extends Pick<TextFolder, 'architecture' | 'exitTemplate' | 'stops'> {
  readonly weightFiles: readonly WeightFile[];
  /** of one with graphs, which are written with the canary that they give */
  readonly cuda?: PolicyFolder['cuda'];
  readonly stateLayers?: readonly number[];
  /** @returns names of what was written */
  readonly writeGraphs?: () => Promise<readonly string[]>;
}

/** @throws RredcotError: exit 2 for a folder that cannot be written, or that holds another checkpoint, 75 on a full disk */
async function writeFolder(
  checkpoint: string,
  out: string,
  { architecture, exitTemplate, stops, weightFiles, cuda, stateLayers, writeGraphs }: FolderParts,
  log: BuildOptions['log'],
): Promise<void> {
  const kept = await keptFiles(checkpoint, weightFiles);
  let made: string | undefined;
  try {
    made = await mkdir(out, { recursive: true });
    await checkTarget(checkpoint, out, weightFiles);
    await rm(join(out, MANIFEST), { force: true }); // an interrupted build leaves no policy
    if ((await realpath(out)) !== (await realpath(checkpoint)))
      for (const { name, path } of kept) await linkOrCopy(path, join(out, name), log);
    const written = (await writeGraphs?.()) ?? [];
    const files: Record<string, string> = {};
    for (const name of [...written, ...kept.map(({ name }) => name)])
      files[name] = await sha256(join(out, name));
    const canary = cuda && { file: CANARY, sha256: await sha256(join(out, CANARY)) };
    const manifest = { format: FORMAT, architecture, exitTemplate, cuda, stops, canary, stateLayers, files };
    await writeText(join(out, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
  } catch (cause) {
    // half a policy is none, and takes room
    if (made !== undefined) await rm(made, { recursive: true, force: true }).catch(() => {});
    throw fileError(cause, out, 'written');
  }
}

/** A new folder's canary: its float32 graph reads a few tokens on the CPU. */
async function canaryOf(folder: Unproved, ids: CheckedIds, log: BuildOptions['log']): Promise<object> {
  await using session = await ModelSession.openUnproved(folder);
  const canary = await makeCanary(session, ids, folder.architecture).catch((cause: Error) => {
    if (cause instanceof RredcotError) throw cause;
    throw usageError(
      `${folder.path}: the canary cannot be made, the policy ${cause.message}`,
      'look at the checkpoint: its weights must be finite; and the machine must have the memory to run it once in float32',
    );
  });
  const { unread = [] } = canary;
  if (unread.length > 0)
    log?.(
      `canary: no token of it goes to ${plural(unread.length, 'expert')} (unread in ${CANARY}: layer, number)`,
    );
  return canary;
}

// ------ files

/** Refuses a target that ONNX Runtime could not read, or that holds another checkpoint's weights. */
async function checkTarget(checkpoint: string, out: string, weightFiles: readonly WeightFile[]) {
  const elsewhere = '-o <another folder>';
  if ((await realpath(out)) === (await realpath(checkpoint))) {
    for (const file of weightFiles.map(({ name }) => join(out, name)))
      if ((await lstat(file)).isSymbolicLink())
        throw usageError(`${file}: a symbolic link, which ONNX Runtime does not follow`, elsewhere);
  } else if (existsSync(join(out, CHECKPOINT_CONFIG)) && !existsSync(join(out, MANIFEST)))
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
    const reason =
      code === 'EXDEV' ? 'it lies on another file system' : `the system allows no hard link (${code})`;
    log?.(`${to}: copied (${megabytes} MB), it cannot be linked to ${source}: ${reason}`);
    await copyFile(source, to, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
  }
}
