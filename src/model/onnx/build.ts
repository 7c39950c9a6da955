// Builds a model's folder from a Hugging Face checkpoint: its graphs, and the canary, for which the model runs once.
import { z } from 'zod';
import { RredcotError, usageError } from '../../errors.js';
import { buildDecodingGraph } from '../decode/decode-graph.js';
import { type Head, isScore } from '../graph/architecture.js';
import { buildAttentionGraph, buildGradientGraph } from '../graph/attribution-graph.js';
import { type Checkpoint, readCheckpoint } from '../graph/checkpoint.js';
import { buildRewardGraph, buildScoringGraph } from '../graph/graphs.js';
import { givenOrOwn } from '../graph/json.js';
import { type CudaPrecision, cudaPrecisionOf } from '../graph/precision.js';
import { type OpenTokenizer, openTokenizer } from '../text/open-tokenizer.js';
import { readStops } from '../text/stops.js';
import {
  askedIds,
  checkExitTemplate,
  deriveExitTemplate,
  readAskTemplate,
  readChatTemplate,
} from '../text/templates.js';
import { CANARY } from './canary.js';
import { CHECKED_TEXT, type CheckedIds, checkedIds, headOf, makeCanary } from './canary-passes.js';
import {
  ATTENTION_GRAPH,
  BUILD_PRM,
  CUDA_DECODING_GRAPH,
  CUDA_GRAPH,
  CUDA_PRM_GRAPH,
  DECODING_GRAPH,
  type ExitTemplate,
  FORMAT,
  GRADIENT_GRAPH,
  GRAPH,
  type ModelFolder,
  openPolicyFolder,
  openPrmFolder,
  type PolicyFolder,
  PRM_GRAPH,
  PRM_KIND,
  type PrmFolder,
  type StepToken,
  WithReference,
} from './folder.js';
import { ModelSession } from './session.js';
import { type FolderParts, writeFolder } from './write-folder.js';

/** What may be said of every build. */
interface BuildOptions {
  /** what the graphs for CUDA compute in; default: the checkpoint's own type, bf16 for float32 */
  readonly cudaPrecision?: CudaPrecision | undefined;
  readonly log?: (message: string) => void;
}

/** What may be said of a process reward model's. */
export interface PrmChoice extends BuildOptions {
  /** text of one token; empty: labels stand at the steps' last tokens */
  readonly stepToken?: string | undefined;
  /** name or number of the label that says right */
  readonly correctLabel?: string | undefined;
  /** file {"with_reference": …} */
  readonly template?: string | undefined;
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
  const { architecture, head, weights } = read;
  if (head !== undefined)
    throw usageError(
      `${checkpoint}: its head classifies and names no token: a process reward model, and no policy`,
      'rredcot policy build makes a folder for --prm of it',
    );
  const text = await withTokenizer(checkpoint, async (tokenizer) => {
    const derived = await deriveExitTemplate(tokenizer, await readChatTemplate(checkpoint));
    const exitTemplate = { ...derived, ...given };
    await checkExitTemplate(exitTemplate, tokenizer, architecture.vocab);
    const asked = await readAskTemplate(checkpoint);
    if (asked !== undefined) await askedIds(asked, tokenizer, architecture.vocab);
    const stops = await readStops(checkpoint, tokenizer, architecture.vocab);
    const ids = await checkedIds(tokenizer, exitTemplate);
    return { exitTemplate, stops, ids, promptStart: tokenizer.start.id };
  });
  const { exitTemplate, stops, ids, promptStart } = text;
  const precision = precisionOf(read, opts);
  const cuda = { graph: CUDA_GRAPH, precision };
  const decoding = { graph: DECODING_GRAPH, cudaGraph: CUDA_DECODING_GRAPH, stops };
  const attribution = { attention: ATTENTION_GRAPH, gradient: GRADIENT_GRAPH };
  const unproved = { path: out, architecture, exitTemplate, files: {} };
  const parts: FolderParts = {
    weightFiles: read.files,
    graphs: [
      [GRAPH, () => buildScoringGraph(architecture, weights, 'f32')],
      [CUDA_GRAPH, () => buildScoringGraph(architecture, weights, precision)],
      [DECODING_GRAPH, () => buildDecodingGraph(architecture, weights, 'f32')],
      [CUDA_DECODING_GRAPH, () => buildDecodingGraph(architecture, weights, precision)],
      [ATTENTION_GRAPH, () => buildAttentionGraph(architecture, weights)],
      [GRADIENT_GRAPH, () => buildGradientGraph(architecture, weights)],
    ],
    canary: [CANARY, () => canaryOf(unproved, ids)],
    manifest: (files, canary) => ({
      ...{ format: FORMAT, architecture, exitTemplate, cuda, decoding, attribution },
      ...{ canary, promptStart, files },
    }),
  };
  await writeFolder(checkpoint, out, parts, opts.log);
  return openPolicyFolder(out, { verify: false });
}

/**
 * The same of a process reward model.
 * @throws RredcotError (exit 2) where the checkpoint cannot be built, and for a step token or label that it does not have
 */
export async function buildPrmFolder(
  checkpoint: string,
  out: string,
  choice: PrmChoice = {},
): Promise<PrmFolder> {
  const read = await readCheckpoint(checkpoint);
  const { architecture, head, weights } = read;
  if (head === undefined) throw usageError(`${checkpoint}: its head does not classify`, BUILD_PRM);
  const correct = correctLabel(head, choice.correctLabel);
  const text = choice.stepToken ?? read.stepToken ?? '';
  if (isScore(head) && text !== '')
    throw usageError(
      `--step-token: the head of ${checkpoint} gives one score of all that was read, which no token stands for`,
      'leave it out: the score is read at the last token of every segment',
    );
  const { stepToken, ids } = await withTokenizer(checkpoint, async (tokenizer) => ({
    ids: await tokenizer.encodePrompt(CHECKED_TEXT),
    stepToken: text === '' ? undefined : await oneToken(text, tokenizer, architecture.vocab),
  }));
  const withReference = await readTemplate(checkpoint, choice.template);
  const precision = precisionOf(read, choice);
  const cuda = { graph: CUDA_PRM_GRAPH, precision };
  const unproved = { path: out, architecture, head, correct, withReference, cuda, files: {} };
  const checked = { ids, other: new Int32Array(0) };
  const parts: FolderParts = {
    weightFiles: read.files,
    graphs: [
      [PRM_GRAPH, () => buildRewardGraph(architecture, head, correct, weights, 'f32')],
      [CUDA_PRM_GRAPH, () => buildRewardGraph(architecture, head, correct, weights, precision)],
    ],
    canary: [CANARY, () => canaryOf(unproved, checked)],
    manifest: (files, canary) => ({
      ...{ format: FORMAT, kind: PRM_KIND, architecture, head, correct },
      ...(stepToken && { stepToken }),
      ...{ withReference, cuda, canary, files },
    }),
  };
  await writeFolder(checkpoint, out, parts, choice.log);
  return openPrmFolder(out, { verify: false });
}

function precisionOf({ weights }: Checkpoint, { cudaPrecision }: BuildOptions): CudaPrecision {
  return cudaPrecision ?? cudaPrecisionOf(Array.from(weights.values(), ({ dtype }) => dtype));
}

/** A new folder's canary: its float32 graph reads a few tokens on the CPU. */
async function canaryOf(folder: ModelFolder, ids: CheckedIds): Promise<object> {
  await using session = await ModelSession.openUnproved(folder);
  return await makeCanary(headOf(folder), session, ids, folder.architecture).catch((cause: Error) => {
    if (cause instanceof RredcotError) throw cause;
    throw usageError(
      `${folder.path}: the canary cannot be made, the model ${cause.message}`,
      'look at the checkpoint: its weights must be finite; and the machine must have the memory to run it once in float32',
    );
  });
}

/** Refuses a tokenizer that would fail at the first trace. */
async function withTokenizer<T>(
  checkpoint: string,
  use: (tokenizer: OpenTokenizer) => Promise<T>,
): Promise<T> {
  const tokenizer = await openTokenizer(checkpoint);
  return use(tokenizer).finally(() => tokenizer.close());
}

/** Of two labels the second one says right, as in all such models that name none, and a single one. @throws RredcotError (exit 2) */
function correctLabel({ labels }: Head, asked: string | undefined): number {
  const listed = labels.map((name, i) => `${i} (${name})`).join(', ');
  if (asked === undefined) {
    if (labels.length <= 2) return labels.length - 1;
    throw usageError(
      `the head tells ${labels.length} labels apart, and nothing says which of them is right: ${listed}`,
      '--correct-label <number or name>',
    );
  }
  const found = labels.includes(asked) ? labels.indexOf(asked) : /^\d+$/.test(asked) ? Number(asked) : -1;
  if (found >= 0 && found < labels.length) return found;
  throw usageError(`--correct-label ${asked}: the head has no such label`, `one of ${listed}`);
}

/** The step token of a text. @throws RredcotError (exit 2) for one that is not one token */
async function oneToken(text: string, tokenizer: OpenTokenizer, vocab: number): Promise<StepToken> {
  const ids = await tokenizer.encode(text);
  const [id] = ids;
  if (ids.length === 1 && id !== undefined && id < vocab && tokenizer.decode(ids).toString('utf8') === text)
    return { text, id };
  throw usageError(
    `the step token ${JSON.stringify(text)} is ${ids.length} tokens of the tokenizer (${ids.join(', ')}), expected one of a vocabulary of ${vocab}`,
    "--step-token <text of one token>; --step-token '' reads at the steps' last tokens",
  );
}

const TEMPLATE_FILE = 'prm_template.json';
const Template = z.strictObject({ with_reference: WithReference });
/** A plain one; what a model was trained with is better. */
const DEFAULT_TEMPLATE = '{prompt}\n\nReference answer: {reference}';

/** The template of a file, else of the checkpoint's own, else a plain one. */
async function readTemplate(checkpoint: string, file: string | undefined): Promise<string> {
  const form = `expected a file with {"with_reference": ${JSON.stringify(DEFAULT_TEMPLATE)}}, with --prm-template`;
  const found = await givenOrOwn(Template, file, checkpoint, TEMPLATE_FILE, form);
  return found?.with_reference ?? DEFAULT_TEMPLATE;
}
