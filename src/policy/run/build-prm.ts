// Builds a folder of a process reward model: its graphs from a checkpoint, and the canary, for which the model runs once.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { foreignText } from '../../io/files/foreign-files.js';
import type { Head } from '../build/architecture.js';
import { CHECKPOINT_CONFIG, parseConfig, readCheckpoint } from '../build/checkpoint.js';
import { classifierOf } from '../build/families.js';
import { type CudaPrecision, cudaPrecisionOf } from '../build/precision.js';
import { buildRewardGraph } from '../build/reward-graph.js';
import { type CanaryFile, FORMAT, writeFolder } from '../files.js';
import { PRM_KIND } from '../folder.js';
import {
  CUDA_PRM_GRAPH,
  HINT,
  openPrmFolder,
  PRM_GRAPH,
  type PrmFolder,
  type StepToken,
  WithReference,
} from '../prm-folder.js';
import { openTokenizer } from '../text/open-tokenizer.js';
import { CANARY } from './canary.js';
import { CHECKED_TEXT } from './checked-text.js';
import { prmCanary } from './make-canary.js';

const TEMPLATE_FILE = 'prm_template.json';
const Template = z.strictObject({ with_reference: WithReference });
/** A plain one; what a model was trained with is better. */
const DEFAULT_TEMPLATE = '{prompt}\n\nReference answer: {reference}';

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
  const { stepToken, ids } = await readTokens(checkpoint, text, architecture.vocab);
  const withReference = await readTemplate(checkpoint, choice.template);
  const types = Array.from(weights.values(), ({ dtype }) => dtype);
  const cuda = { graph: CUDA_PRM_GRAPH, precision: choice.cudaPrecision ?? cudaPrecisionOf(types) };
  const graphs = [
    [PRM_GRAPH, () => buildRewardGraph(architecture, head, correct, weights, 'f32')],
    [CUDA_PRM_GRAPH, () => buildRewardGraph(architecture, head, correct, weights, cuda.precision)],
  ] as const;
  const unproved = { path: out, architecture, head, correct, withReference, cuda, files: {} };
  const parts = {
    weightFiles,
    graphs,
    canary: [CANARY, () => prmCanary(unproved, ids)] as const,
    manifest: (files: PrmFolder['files'], canary: CanaryFile) => ({
      ...{ format: FORMAT, kind: PRM_KIND, architecture, head, correct },
      ...(stepToken && { stepToken }),
      ...{ withReference, cuda, canary, files },
    }),
  };
  await writeFolder(checkpoint, out, parts, choice.log);
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

/** The step token, and the canary's ids; also refuses now a tokenizer that would fail at the first trace. */
async function readTokens(
  checkpoint: string,
  text: string,
  vocab: number,
): Promise<{ readonly stepToken?: StepToken; readonly ids: Int32Array }> {
  const tokenizer = await openTokenizer(checkpoint);
  try {
    const checked = await tokenizer.encodePrompt(CHECKED_TEXT);
    if (text === '') return { ids: checked };
    const ids = await tokenizer.encode(text);
    const [id] = ids;
    if (ids.length === 1 && id !== undefined && id < vocab && tokenizer.decode(ids).toString('utf8') === text)
      return { stepToken: { text, id }, ids: checked };
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
