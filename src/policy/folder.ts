// A policy folder on disk: policy.json, the graphs, the weights and the tokenizer that belong together.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  access,
  constants,
  copyFile,
  link,
  mkdir,
  readFile,
  realpath,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { EXIT, RredcotError } from '../errors.js';
import { type Architecture, parseArchitecture } from './architecture.js';
import { buildScoringGraph, expectedWeights, type Weight } from './graphs.js';
import { serialiseModel } from './onnx.js';
import { readSafetensorsHeader } from './safetensors.js';
import { loadTokenizer } from './tokenizer.js';

const FORMAT = 1;
const WEIGHTS = 'model.safetensors';
const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json'] as const;
export const GRAPH = 'policy.onnx';

/** What is put between a state and a reference answer (METHOD §3): close {u} open {y} closer. */
export interface ExitTemplate {
  readonly close: string;
  readonly open: string;
  readonly closer: string;
}

/** A policy folder's manifest, as read from its policy.json. */
export interface PolicyFolder {
  readonly path: string;
  readonly architecture: Architecture;
  readonly exitTemplate: ExitTemplate;
  /** sha256 of every file of the policy, by name */
  readonly files: Readonly<Record<string, string>>;
}

const size = z.number().int().positive();
const ExitTemplateFile = z.strictObject({ close: z.string(), open: z.string(), closer: z.string() });
const Manifest = z.object({
  format: z.literal(FORMAT),
  architecture: z.object({
    family: z.literal('LlamaForCausalLM'),
    layers: size,
    hidden: size,
    heads: size,
    kvHeads: size,
    headDim: size,
    intermediate: size,
    vocab: size,
    maxTokens: size,
    rmsNormEps: z.number().positive(),
    ropeTheta: z.number().positive(),
    tiedHead: z.boolean(),
  }),
  exitTemplate: ExitTemplateFile,
  files: z.record(z.string(), z.string().regex(/^[0-9a-f]{64}$/)),
});

/**
 * Reads a policy folder's manifest.
 * @throws RredcotError (exit 2) where the folder is missing, unreadable or of another format
 */
export async function openPolicyFolder(path: string): Promise<PolicyFolder> {
  const manifestPath = join(path, 'policy.json');
  const hint = 'build one with: rredcot policy build <checkpoint> -o <folder>';
  let text: string;
  try {
    text = await readFile(manifestPath, 'utf8');
  } catch (cause) {
    throw new RredcotError(
      `${path}: not a policy folder (policy.json: ${(cause as NodeJS.ErrnoException).code})`,
      {
        exitCode: EXIT.usage,
        hint,
        cause,
      },
    );
  }
  const parsed = Manifest.safeParse(parseJson(text, manifestPath));
  if (!parsed.success)
    throw new RredcotError(`${manifestPath}: ${oneLine(z.prettifyError(parsed.error))}`, {
      exitCode: EXIT.usage,
      hint,
    });
  const { architecture, exitTemplate, files } = parsed.data;
  for (const file of [GRAPH, WEIGHTS, ...TOKENIZER_FILES]) await readable(join(path, file), hint);
  return { path, architecture, exitTemplate, files };
}

/**
 * Builds a policy folder from a Hugging Face checkpoint (config.json, model.safetensors, tokenizer.json). The weights
 * are linked, not copied, where the file system allows; the graphs point into them.
 * @param out folder to write; may be the checkpoint itself
 * @throws RredcotError (exit 2) where the checkpoint is not one that can be built
 */
export async function buildPolicyFolder(
  checkpoint: string,
  out: string,
  exitTemplate: ExitTemplate,
): Promise<PolicyFolder> {
  const configPath = join(checkpoint, 'config.json');
  const config = await readFile(configPath, 'utf8').catch((cause: unknown) => {
    throw new RredcotError(`${checkpoint}: not a checkpoint (no config.json)`, {
      exitCode: EXIT.usage,
      hint: 'give the folder that holds config.json, model.safetensors and tokenizer.json',
      cause,
    });
  });
  const architecture = parseArchitecture(parseJson(config, configPath), configPath);
  const weights = await checkedWeights(join(checkpoint, WEIGHTS), architecture);
  await loadTokenizer(checkpoint); // refuses now what would fail at the first trace

  await mkdir(out, { recursive: true });
  if ((await realpath(out)) !== (await realpath(checkpoint)))
    for (const file of [WEIGHTS, ...TOKENIZER_FILES])
      await linkOrCopy(join(checkpoint, file), join(out, file));
  await writeWhole(join(out, GRAPH), serialiseModel(buildScoringGraph(architecture, weights)));
  const files: Record<string, string> = {};
  for (const file of [GRAPH, WEIGHTS, ...TOKENIZER_FILES]) files[file] = await sha256(join(out, file));
  const manifest = { format: FORMAT, architecture, exitTemplate, files };
  await writeWhole(join(out, 'policy.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  return openPolicyFolder(out);
}

/** Reads an exit template given as a JSON file {close, open, closer}. */
export async function readExitTemplate(path: string): Promise<ExitTemplate> {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new RredcotError(`${path}: exit template cannot be read`, { exitCode: EXIT.usage, cause });
  });
  const parsed = ExitTemplateFile.safeParse(parseJson(text, path));
  if (!parsed.success)
    throw new RredcotError(`${path}: ${oneLine(z.prettifyError(parsed.error))}`, {
      exitCode: EXIT.usage,
      hint: 'expected {"close": …, "open": …, "closer": …}',
    });
  return parsed.data;
}

/** The tensors that the graphs need, each present in the file with the right shape. */
async function checkedWeights(path: string, arch: Architecture): Promise<Map<string, Weight>> {
  const tensors = await readSafetensorsHeader(path);
  const weights = new Map<string, Weight>();
  for (const [name, shape] of expectedWeights(arch)) {
    const tensor = tensors.get(name);
    const found = tensor === undefined ? 'is missing' : `has shape [${tensor.shape.join(', ')}]`;
    if (tensor === undefined || tensor.shape.join() !== shape.join())
      throw new RredcotError(`${path}: tensor ${name} ${found}, config.json expects [${shape.join(', ')}]`, {
        exitCode: EXIT.usage,
        hint: 'config.json and model.safetensors must be of the same checkpoint',
      });
    if (tensor.dtype !== 'f32')
      throw new RredcotError(`${path}: tensor ${name} is ${tensor.dtype}, expected f32`, {
        exitCode: EXIT.usage,
        hint: 'convert the checkpoint to float32',
      });
    weights.set(name, { ...tensor, location: basename(path) });
  }
  return weights;
}

/** A hard link where source and target share a file system, else a copy. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  await rm(to, { force: true });
  await link(await realpath(from), to).catch(() => copyFile(from, to));
}

async function writeWhole(path: string, content: string | Uint8Array): Promise<void> {
  await writeFile(`${path}.tmp`, content);
  await rename(`${path}.tmp`, path);
}

async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

async function readable(path: string, hint: string): Promise<void> {
  await access(path, constants.R_OK).catch((cause: unknown) => {
    throw new RredcotError(`${path}: file of the policy is missing or unreadable`, {
      exitCode: EXIT.usage,
      hint,
      cause,
    });
  });
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RredcotError(`${path}: not JSON (${(cause as Error).message})`, {
      exitCode: EXIT.usage,
      cause,
    });
  }
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ');
}
