// Reads a Hugging Face checkpoint: which tensors lie where, checked against config.json before anything is loaded.
import { open, readFile, realpath } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { z } from 'zod';
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { type Architecture, parseArchitecture } from './architecture.js';
import { expectedWeights, type Weight } from './graphs.js';
import { repeatedKey } from './json-keys.js';
import { readSafetensorsHeader, type StoredTensor } from './safetensors.js';

const SINGLE = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';

/** A file of weights: its name in the checkpoint and where its bytes really are. */
export interface WeightFile {
  readonly name: string;
  readonly path: string;
}

export interface Checkpoint {
  readonly architecture: Architecture;
  /** the tensors that the graphs need, by name; `location` is a file's name */
  readonly weights: ReadonlyMap<string, Weight>;
  readonly files: readonly WeightFile[];
}

type Located = StoredTensor & { readonly location: string };

/** @throws RredcotError (exit 2) where the folder is no checkpoint of a kind that can be built, or its files contradict each other */
export async function readCheckpoint(folder: string): Promise<Checkpoint> {
  const configPath = join(folder, 'config.json');
  const architecture = parseArchitecture(await readConfig(configPath, notACheckpoint(folder)), configPath);
  const { files, tensors } = await locateTensors(folder);
  const weights = await chooseWeights(folder, architecture, files, tensors);
  return { architecture, weights, files };
}

// ------ files

/** One file, or the shards of an index; as in transformers the one file wins where both are there. */
async function locateTensors(
  folder: string,
): Promise<{ files: WeightFile[]; tensors: Map<string, Located> }> {
  const tensors = new Map<string, Located>();
  if (await exists(join(folder, SINGLE))) {
    const file = await weightFile(folder, SINGLE);
    for (const [name, tensor] of await readSafetensorsHeader(file.path))
      tensors.set(name, { ...tensor, location: SINGLE });
    return { files: [file], tensors };
  }
  const indexPath = join(folder, INDEX);
  const index = await readIndex(folder, indexPath);
  const files: WeightFile[] = [];
  for (const name of [...new Set(index.values())].sort()) {
    const file = await weightFile(folder, name);
    files.push(file);
    for (const [tensorName, tensor] of await readSafetensorsHeader(file.path)) {
      const other = tensors.get(tensorName)?.location;
      if (other !== undefined) throw lie(folder, `tensor ${tensorName} is in both ${other} and ${name}`);
      if (index.get(tensorName) !== name)
        throw lie(
          indexPath,
          `tensor ${tensorName} is in ${name}, the index has it in ${index.get(tensorName) ?? 'no file'}`,
        );
      tensors.set(tensorName, { ...tensor, location: name });
    }
  }
  for (const [name, file] of index)
    if (!tensors.has(name)) throw lie(indexPath, `tensor ${name} is not in ${file}, where the index has it`);
  return { files, tensors };
}

const Index = z.object({ weight_map: z.record(z.string(), z.string()) });

/** Tensor name → file name, the latter a plain name beside the index. */
async function readIndex(folder: string, path: string): Promise<Map<string, string>> {
  const missing = usageError(
    `${folder}: no ${SINGLE} and no ${INDEX}`,
    'only safetensors weights can be read; save .bin or .pth ones again as safetensors',
  );
  const parsed = Index.safeParse(await readConfig(path, missing));
  if (!parsed.success) throw lie(path, z.prettifyError(parsed.error).replaceAll(/\s*\n\s*/g, ' '));
  const twice = repeatedKey(await readFile(path, 'utf8'));
  if (twice !== undefined) throw lie(path, `it has ${JSON.stringify(twice)} twice`);
  const map = new Map(Object.entries(parsed.data.weight_map));
  for (const file of map.values())
    if (!/^[^/\\\0]+\.safetensors$/.test(file))
      throw lie(path, `it names the file ${JSON.stringify(file)}, expected a .safetensors file beside it`);
  if (map.size === 0) throw lie(path, 'its weight_map is empty');
  return map;
}

/**
 * Follows links, as far as they may lead: inside the checkpoint, or from a snapshot of a Hugging Face cache to the
 * blobs of the same repository. A downloaded folder cannot make us read any other file.
 */
async function weightFile(folder: string, name: string): Promise<WeightFile> {
  const root = await realpath(folder);
  const path = await realpath(join(root, name)).catch((cause: unknown) => {
    throw new RredcotError(`${join(folder, name)}: weights cannot be read`, {
      exitCode: EXIT.usage,
      hint: 'download the checkpoint again: a shard is missing',
      cause,
    });
  });
  const roots = [root];
  if (basename(dirname(root)) === 'snapshots') roots.push(resolve(root, '../../blobs'));
  if (!roots.some((allowed) => isInside(allowed, path)))
    throw usageError(
      `${join(folder, name)}: links to ${path}, outside the checkpoint`,
      'give the folder that the weights lie in, or put a hard link or a copy in place of the link',
    );
  return { name, path };
}

function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`);
}

// ------ tensors against config.json

async function chooseWeights(
  folder: string,
  arch: Architecture,
  files: readonly WeightFile[],
  tensors: ReadonlyMap<string, Located>,
): Promise<Map<string, Weight>> {
  const mismatch = (message: string) =>
    usageError(`${folder}: ${message}`, 'config.json and the weights must be of the same checkpoint');
  const weights = new Map<string, Weight>();
  for (const [name, shape] of expectedWeights(arch)) {
    const tensor = tensors.get(name);
    if (tensor === undefined || tensor.shape.join() !== shape.join()) {
      const found = tensor === undefined ? 'is missing' : `has shape [${tensor.shape.join(', ')}]`;
      throw mismatch(`tensor ${name} ${found}, config.json expects [${shape.join(', ')}]`);
    }
    weights.set(name, tensor);
  }
  for (const name of tensors.keys()) {
    // older checkpoints store the rotary frequencies, which follow from config.json
    if (weights.has(name) || name.endsWith('.rotary_emb.inv_freq')) continue;
    if (name === 'lm_head.weight') await checkTied(files, tensors, mismatch);
    else throw mismatch(`tensor ${name} has no place in a ${arch.family} of ${arch.layers} layers`);
  }
  return weights;
}

/** A head that is stored although config.json says that it is the embedding must be the embedding. */
async function checkTied(
  files: readonly WeightFile[],
  tensors: ReadonlyMap<string, Located>,
  mismatch: (message: string) => RredcotError,
): Promise<void> {
  const [head, embedding] = ['lm_head.weight', 'model.embed_tokens.weight'].map((name) => {
    const tensor = tensors.get(name) as Located;
    return { ...tensor, path: files.find((file) => file.name === tensor.location)?.path ?? '' };
  }) as [Located & WeightFile, Located & WeightFile];
  const equal =
    head.dtype === embedding.dtype && head.length === embedding.length && (await sameBytes(head, embedding));
  if (!equal)
    throw mismatch(
      'config.json has tie_word_embeddings: true, but lm_head.weight is stored and is not model.embed_tokens.weight',
    );
}

async function sameBytes(a: Located & WeightFile, b: Located & WeightFile): Promise<boolean> {
  const [fileA, fileB] = [await open(a.path), await open(b.path)];
  try {
    const [chunkA, chunkB] = [Buffer.alloc(1 << 20), Buffer.alloc(1 << 20)];
    for (let at = 0; at < a.length; at += chunkA.length) {
      const bytes = Math.min(chunkA.length, a.length - at);
      await fileA.read(chunkA, 0, bytes, a.offset + at);
      await fileB.read(chunkB, 0, bytes, b.offset + at);
      if (chunkA.compare(chunkB, 0, bytes, 0, bytes) !== 0) return false;
    }
    return true;
  } finally {
    await fileA.close();
    await fileB.close();
  }
}

// ------ small things

function notACheckpoint(folder: string): RredcotError {
  return usageError(
    `${folder}: not a checkpoint (no config.json)`,
    'give the folder that holds config.json, model.safetensors and tokenizer.json',
  );
}

function lie(path: string, found: string): RredcotError {
  return usageError(`${path}: ${found}`, 'copy or download the checkpoint again');
}

async function readConfig(path: string, missing: RredcotError): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch(() => {
    throw missing;
  });
  return parseConfig(text, path);
}

/** @throws RredcotError (exit 2) naming the file */
export function parseConfig(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RredcotError(`${path}: not JSON (${(cause as Error).message})`, {
      exitCode: EXIT.usage,
      cause,
    });
  }
}

function exists(path: string): Promise<boolean> {
  return realpath(path).then(
    () => true,
    () => false,
  );
}
