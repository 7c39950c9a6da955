// Reads a Hugging Face checkpoint: which tensors lie where, checked against config.json before anything is loaded.
import { join } from 'node:path';
import { z } from 'zod';
import { type RredcotError, usageError } from '../../errors.js';
import { fromJson } from '../text/checked-json.js';
import {
  assertModelFolder,
  parseJson,
  sha256,
  untrustedFile,
  untrustedText,
} from '../text/untrusted-files.js';
import { type Architecture, parseArchitecture } from './architecture.js';
import { partsOf } from './experts.js';
import { expectedWeights, FAMILIES } from './families.js';
import { EMBEDDING, type Family, HEAD } from './family.js';
import { refuseForeign } from './foreign.js';
import type { Weight } from './operators.js';
import { AGAIN, assertShapes, readSafetensorsHeader, textName } from './safetensors.js';

export const CHECKPOINT_CONFIG = 'config.json';
/** what mends a folder that is none */
const CHECKPOINT_FILES = 'give the folder that holds config.json, model.safetensors and tokenizer.json';
const lie = (path: string, found: string): RredcotError => usageError(`${path}: ${found}`, AGAIN);
export const SINGLE = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';

/** A file of weights: its name in the checkpoint and where its bytes really are. */
export interface WeightFile {
  readonly name: string;
  readonly path: string;
}

export type Checkpoint = Awaited<ReturnType<typeof readCheckpoint>>;

/**
 * What config.json says, the files of weights, and the tensors of them that are needed, by name; and what those that the graphs read are
 * made of. @throws RredcotError (exit 2) for what is no checkpoint
 */
export async function readCheckpoint(folder: string) {
  await refuseForeign(folder);
  const architecture = parseArchitecture(...(await readConfig(folder)));
  const located = await locateTensors(folder);
  const { files, tensors } = located;
  const made = Array.from(expectedWeights(architecture), ([name, shape]) => {
    return { name, shape, parts: partsOf(name, shape, (each) => tensors.has(each)) };
  });
  const shapes = new Map(made.flatMap(({ parts }) => parts.flat().map(({ name, shape }) => [name, shape])));
  assertShapes(folder, CHECKPOINT_CONFIG, shapes, tensors);
  const weights = new Map(Array.from(shapes.keys(), (name) => [name, tensors.get(name) as Weight]));
  await refuseOthers(folder, architecture, located, weights);
  return { architecture, weights, files, made };
}

/** What its config.json says, and where that lies. @throws RredcotError (exit 2) where there is none */
export async function readConfig(folder: string): Promise<[config: unknown, path: string]> {
  const path = join(folder, CHECKPOINT_CONFIG);
  const config = await untrustedText(folder, CHECKPOINT_CONFIG);
  if (config !== undefined) return [parseJson(config, path), path];
  throw usageError(`${folder}: not a checkpoint (no config.json)`, CHECKPOINT_FILES);
}

/** @throws RredcotError (exit 2) for a path that is no folder, saying how to get one of the Hub */
export async function assertCheckpoint(folder: string): Promise<void> {
  if (folder.endsWith('.gguf')) await refuseForeign(folder);
  await assertModelFolder(folder, 'a checkpoint', CHECKPOINT_FILES);
}

// ------ files

/** One file, or the shards of an index; as in transformers the one file wins where both are there. */
async function locateTensors(folder: string) {
  const tensors = new Map<string, Weight>();
  const indexPath = join(folder, INDEX);
  const isSingle = (await untrustedFile(folder, SINGLE)) !== undefined;
  const index = isSingle ? undefined : await readIndex(folder);
  const files: WeightFile[] = [];
  for (const name of index ? [...new Set(index.values())].sort() : [SINGLE]) {
    const path = await untrustedFile(folder, name);
    if (path === undefined)
      throw usageError(`${join(folder, name)}: weights cannot be read`, `${AGAIN}: a shard is missing`);
    files.push({ name, path });
    for (const [tensorName, tensor] of await readSafetensorsHeader(path)) {
      const other = tensors.get(tensorName)?.location;
      if (other !== undefined) throw lie(folder, `tensor ${tensorName} is in both ${other} and ${name}`);
      if (index !== undefined && index.get(tensorName) !== name)
        throw lie(
          indexPath,
          `tensor ${tensorName} is in ${name}, the index has it in ${index.get(tensorName) ?? 'no file'}`,
        );
      tensors.set(tensorName, { ...tensor, location: name });
    }
  }
  for (const [name, file] of index ?? [])
    if (!tensors.has(name)) throw lie(indexPath, `tensor ${name} is not in ${file}, where the index has it`);
  return { files, tensors };
}

/** A plain name beside the index. */
const FileName = z.string().regex(/^[^/\\\0]+\.safetensors$/, 'expected a .safetensors file beside it');
const Index = z.object({
  weight_map: z.record(z.string(), FileName).refine((map) => Object.keys(map).length > 0, 'is empty'),
});

/** Tensor name → file name. */
async function readIndex(folder: string): Promise<Map<string, string>> {
  const text = await untrustedText(folder, INDEX);
  if (text === undefined)
    throw usageError(`${folder}: no ${SINGLE} and no ${INDEX}`, 'only safetensors weights can be read');
  const { weight_map } = fromJson(Index, text, join(folder, INDEX), AGAIN);
  return new Map(Object.entries(weight_map).map(([name, file]) => [textName(name), file]));
}

// ------ tensors against config.json

/** Refuses tensors that are left over: they would be a part of the model that we do not compute. */
async function refuseOthers(
  folder: string,
  { family: name, layers }: Architecture,
  { files, tensors }: Awaited<ReturnType<typeof locateTensors>>,
  weights: ReadonlyMap<string, Weight>,
): Promise<void> {
  const { unread }: Family = FAMILIES[name];
  const hashOf = ({ location, offset, length }: Weight): Promise<string> => {
    const { path } = files.find((file) => file.name === location) as WeightFile;
    return sha256(path, offset, offset + length - 1);
  };
  for (const [tensorName, tensor] of tensors) {
    // older checkpoints store the rotary frequencies, which follow from config.json
    if (weights.has(tensorName) || tensorName.endsWith('.rotary_emb.inv_freq')) continue;
    if (unread?.test(tensorName)) continue;
    const refuse = (found: string): never => {
      throw usageError(`${folder}: ${found}`, 'config.json and the weights must be of the same checkpoint');
    };
    if (tensorName !== HEAD) refuse(`tensor ${tensorName} has no place in a ${name} of ${layers} layers`);
    // a head that is stored although config.json says that it is the embedding must be the embedding
    const tied = tensors.get(EMBEDDING) as Weight;
    if (tensor.dtype !== tied.dtype || (await hashOf(tensor)) !== (await hashOf(tied)))
      refuse(`config.json has tie_word_embeddings: true, but ${HEAD} is stored and is not ${EMBEDDING}`);
  }
}
