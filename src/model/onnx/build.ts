// Builds a policy's folder from a Hugging Face checkpoint: its graphs, and the canary, for which the policy runs once.
import { RredcotError, usageError } from '../../errors.js';
import { readCheckpoint } from '../graph/checkpoint.js';
import { type CudaPrecision, cudaPrecisionOf } from '../graph/precision.js';
import { buildScoringGraph } from '../graph/scoring-graph.js';
import { openTokenizer } from '../text/open-tokenizer.js';
import { readStops } from '../text/stops.js';
import {
  askedIds,
  checkExitTemplate,
  deriveExitTemplate,
  readAskTemplate,
  readChatTemplate,
} from '../text/templates.js';
import { CANARY } from './canary.js';
import { type CheckedIds, checkedIds, makeCanary } from './canary-passes.js';
import {
  CUDA_GRAPH,
  type ExitTemplate,
  FORMAT,
  GRAPH,
  openPolicyFolder,
  type PolicyFolder,
} from './folder.js';
import { ModelSession, type Unproved } from './session.js';
import { type FolderParts, writeFolder } from './write-folder.js';

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
  const { decodingParts } = await import('../decode/decode-graph.js');
  const writes = decodingParts(read, precision);
  const cuda = { graph: CUDA_GRAPH, precision };
  const unproved = { path: out, architecture, exitTemplate, cuda, files: {} };
  const parts: FolderParts = {
    weightFiles: read.files,
    graphs: [
      [GRAPH, () => buildScoringGraph(architecture, weights, 'f32')],
      [CUDA_GRAPH, () => buildScoringGraph(architecture, weights, precision)],
      ...writes.graphs,
    ],
    canary: [CANARY, () => canaryOf(unproved, ids)],
    manifest: (files, canary) => ({
      ...{ format: FORMAT, architecture, exitTemplate, cuda, decoding: { ...writes.decoding, stops } },
      ...{ canary, files },
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
