// A folder of a process reward model on disk: policy.json, its graph, weights and tokenizer, and how its steps are read.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { usageError } from '../errors.js';
import { foreignText } from '../io/files/foreign-files.js';
import { type Architecture, ArchitectureSchema, type Head, HeadSchema } from './build/architecture.js';
import { CHECKPOINT_CONFIG, parseConfig, readCheckpoint } from './build/checkpoint.js';
import { classifierOf } from './build/families.js';
import { type CudaPrecision, cudaPrecisionOf } from './build/precision.js';
import {
  type CudaGraph,
  CudaGraphSchema,
  checkFolder,
  FORMAT,
  Hashes,
  parseManifest,
  readManifest,
  writeFolder,
} from './files.js';
import { PRM_KIND } from './folder.js';
import { buildRewardGraph } from './reward/graph.js';
import { openTokenizer } from './text/open-tokenizer.js';

/** float32 */
export const PRM_GRAPH = 'prm.onnx';
const CUDA_PRM_GRAPH = 'prm.cuda.onnx';
const TEMPLATE_FILE = 'prm_template.json';
const HINT =
  'build one from a checkpoint with a classification head: rredcot policy build <checkpoint> -o <folder>';

const StepTokenSchema = z.strictObject({ text: z.string(), id: z.number().int().nonnegative() });
/** A token behind every step, where the step's label stands. */
export type StepToken = Readonly<z.infer<typeof StepTokenSchema>>;

/** `{prompt}` and `{reference}` stand for these. */
const WithReference = z
  .string()
  .refine(
    (text) => text.includes('{prompt}') && text.includes('{reference}'),
    'expected {prompt} and {reference} in it',
  );
const Template = z.strictObject({ with_reference: WithReference });
/** A plain one; what a model was trained with is better. */
const DEFAULT_TEMPLATE = '{prompt}\n\nReference answer: {reference}';

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
  files: Hashes,
});

/** What of it may be said at the build. */
export interface PrmChoice {
  /** text of one token; empty: labels stand at the steps' last tokens */
  readonly stepToken?: string | undefined;
  /** name or number of the label that says right */
  readonly correctLabel?: string | undefined;
  /** file {"with_reference": …} */
  readonly template?: string | undefined;
  readonly cudaPrecision?: CudaPrecision | undefined;
  readonly log?: (message: string) => void;
}

/** Whether a checkpoint's head classifies. @throws RredcotError (exit 2) for a config.json that is no JSON */
export async function isPrmCheckpoint(checkpoint: string): Promise<boolean> {
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
  await checkFolder(path, { architecture, head }, graphs, manifest.files, { verify, hint: HINT });
  return { path, ...manifest };
}

/**
 * Builds such a folder from a Hugging Face checkpoint, as `buildPolicyFolder` does from a policy's.
 * @throws RredcotError (exit 2) where the checkpoint cannot be built, and for a step token or label that it does not have
 */
export async function buildPrmFolder(
  checkpoint: string,
  out: string,
  choice: PrmChoice = {},
): Promise<PrmFolder> {
  const { architecture, head, weights, files: weightFiles } = await readCheckpoint(checkpoint);
  if (head === undefined) throw usageError(`${checkpoint}: its head does not classify`, HINT);
  const config = parseConfig((await foreignText(checkpoint, CHECKPOINT_CONFIG)) ?? '', checkpoint);
  const correct = correctLabel(head, choice.correctLabel);
  const text = choice.stepToken ?? classifierOf(config)?.stepToken ?? '';
  const stepToken = await stepTokenOf(checkpoint, text, architecture.vocab);
  const withReference = await readTemplate(checkpoint, choice.template);
  const types = Array.from(weights.values(), ({ dtype }) => dtype);
  const cuda = { graph: CUDA_PRM_GRAPH, precision: choice.cudaPrecision ?? cudaPrecisionOf(types) };
  const graphs = [
    [PRM_GRAPH, () => buildRewardGraph(architecture, head, correct, weights, 'f32')],
    [CUDA_PRM_GRAPH, () => buildRewardGraph(architecture, head, correct, weights, cuda.precision)],
  ] as const;
  const manifest = (files: PrmFolder['files']) => ({
    ...{ format: FORMAT, kind: PRM_KIND, architecture, head, correct },
    ...(stepToken && { stepToken }),
    ...{ withReference, cuda, files },
  });
  await writeFolder(checkpoint, out, weightFiles, graphs, manifest, choice.log);
  return openPrmFolder(out, { verify: false });
}

/** Of two labels the second one says right, as in all such models that name none. @throws RredcotError (exit 2) */
function correctLabel({ labels }: Head, asked: string | undefined): number {
  const listed = labels.map((name, i) => `${i} (${name})`).join(', ');
  if (asked === undefined) {
    if (labels.length === 2) return 1;
    throw usageError(
      `the head tells ${labels.length} labels apart, and nothing says which of them is right: ${listed}`,
      '--correct-label <number or name>',
    );
  }
  const found = labels.includes(asked) ? labels.indexOf(asked) : /^\d+$/.test(asked) ? Number(asked) : -1;
  if (found >= 0 && found < labels.length) return found;
  throw usageError(`--correct-label ${asked}: the head has no such label`, `one of ${listed}`);
}

/** Also refuses now a tokenizer that would fail at the first trace. */
async function stepTokenOf(checkpoint: string, text: string, vocab: number): Promise<StepToken | undefined> {
  const tokenizer = await openTokenizer(checkpoint);
  try {
    if (text === '') return undefined;
    const ids = await tokenizer.encode(text);
    const [id] = ids;
    if (ids.length === 1 && id !== undefined && id < vocab && tokenizer.decode(ids).toString('utf8') === text)
      return { text, id };
    throw usageError(
      `the step token ${JSON.stringify(text)} is ${ids.length} tokens of the tokenizer (${ids.join(', ')}), expected one of a vocabulary of ${vocab}`,
      "--step-token <text of one token>; --step-token '' reads at the steps' last tokens",
    );
  } finally {
    await tokenizer.close();
  }
}

/** The template of a file, else of the checkpoint's own, else a plain one. */
async function readTemplate(checkpoint: string, file: string | undefined): Promise<string> {
  const path = file ?? join(checkpoint, TEMPLATE_FILE);
  const text =
    file === undefined
      ? await foreignText(checkpoint, TEMPLATE_FILE)
      : await readFile(file, 'utf8').catch((cause: Error) => {
          throw usageError(`${file}: cannot be read (${cause.message})`, '--prm-template <a JSON file>');
        });
  if (text === undefined) return DEFAULT_TEMPLATE;
  const parsed = Template.safeParse(parseConfig(text, path));
  if (parsed.success) return parsed.data.with_reference;
  throw usageError(
    `${path}: ${z.prettifyError(parsed.error).replaceAll(/\s*\n\s*/g, ' ')}`,
    `expected a file with {"with_reference": ${JSON.stringify(DEFAULT_TEMPLATE)}}`,
  );
}
