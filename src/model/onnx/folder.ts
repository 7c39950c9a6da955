// A policy's folder on disk: policy.json, and the graphs, weights and tokenizer that belong together.
import { access, constants, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { dataError, type RredcotError, usageError } from '../../errors.js';
import { EMBEDDED_POLICY } from '../../package-files.js';
import { shellWord } from '../../printable.js';
import { type Architecture, ArchitectureSchema, TextSizesSchema } from '../graph/architecture.js';
import { expectedWeights } from '../graph/families.js';
import { CUDA_PRECISIONS } from '../graph/onnx.js';
import { assertShapes, readSafetensorsHeader, type StoredTensor } from '../graph/safetensors.js';
import { fromJson } from '../text/checked-json.js';
import { ExitTemplateSchema } from '../text/templates.js';
import {
  assertModelFolder,
  parseJson,
  sha256,
  untrustedFile,
  untrustedText,
} from '../text/untrusted-files.js';

export const FORMAT = 1;
export const MANIFEST = 'policy.json';
export const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json'] as const;
/** how a prompt tells the answer, for policies that read such hints */
export const HINT_TEMPLATE = 'hint_template.json';

/** The graphs that score, in float32 and for CUDA in half precision. */
export const GRAPH = 'policy.onnx';
export const CUDA_GRAPH = 'policy.cuda.onnx';
const BUILD = 'build one with: rredcot policy build <checkpoint> -o <folder>';

// ------ what policy.json says

// plain names: a manifest cannot point out of its folder
const FileName = z.string().regex(/^(?!\.\.?$)[^/\\]+$/);
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const Id = z.number().int().nonnegative();

/** Of a folder that only reads texts as a model does: an engine answers. */
const TextManifest = z.strictObject({
  format: z.literal(FORMAT),
  architecture: TextSizesSchema,
  exitTemplate: ExitTemplateSchema,
  /** the tokens after which the policy's own completions end */
  stops: z.array(Id).readonly(),
  /** sha256 of every file, by name */
  files: z.record(FileName, Sha256),
});

/** What is to be known of a model whose graph another program has made, `python -m rredcot.export`. */
const ExportedSchema = z.strictObject({
  ...TextSizesSchema.shape,
  hidden: z.number().int().positive(),
  /** its class, and the program with its version */
  ...{ exported: z.string(), by: z.string() },
});

const Manifest = z.object({
  ...TextManifest.shape,
  architecture: ArchitectureSchema,
  /** the graph for CUDA, and what it computes in */
  cuda: z.object({ graph: FileName, precision: z.enum(CUDA_PRECISIONS) }),
  /** what every session has to reproduce; its hash stands apart from the model's: on two kinds of machine canaries differ in last digits */
  canary: z.object({ file: FileName, sha256: Sha256 }),
  /** layers behind which its graphs read hidden states; absent of one that was built before they did */
  stateLayers: z.array(Id).exactOptional(),
});

const ExportedManifest = z.strictObject({
  ...TextManifest.shape,
  architecture: ExportedSchema,
  canary: Manifest.shape.canary,
  stateLayers: z.array(Id),
});

export type TextFolder = { readonly path: string } & Readonly<Omit<z.infer<typeof TextManifest>, 'format'>>;
/** …; `cuda` is of graphs that we write. */
export type PolicyFolder = { readonly path: string } & Readonly<
  Omit<z.infer<typeof Manifest>, 'format' | 'architecture' | 'cuda'> & {
    architecture: Architecture | Exported;
    cuda?: z.infer<typeof Manifest>['cuda'];
  }
>;
type AnyFolder = TextFolder | PolicyFolder;
export type Exported = Readonly<z.infer<typeof ExportedSchema>>;

/** Numbers of a hidden state that its graphs read, one layer's behind the other's; 0 where they read none. */
export function stateNumbers(folder: Pick<PolicyFolder, 'architecture' | 'stateLayers'>): number {
  return (folder.stateLayers ?? []).length * folder.architecture.hidden;
}

export type PolicyFacts = Readonly<ReturnType<typeof policyFacts>>;

/** Its folder as the user named it, whether that ships with the program, tokens of its vocabulary, and close and open of its exit template. */
export function policyFacts({ path, architecture: { vocab }, exitTemplate: { close, open } }: TextFolder) {
  return { path, isEmbedded: resolve(path) === EMBEDDED_POLICY, vocab, exit: `${close}${open}` };
}

/** Reads a policy folder's manifest. @param verify that files of up to 64 MiB are those that were built @throws RredcotError (exit 2) */
export async function openPolicyFolder(path: string, opts?: { verify?: boolean }): Promise<PolicyFolder> {
  return withGraphs(await openTextFolder(path, opts));
}

/** The same of one that is to be run. @throws RredcotError (exit 2) */
export function withGraphs(folder: AnyFolder): PolicyFolder {
  if ('canary' in folder) return folder;
  throw usageError(
    `${folder.path}: has no graph that could be run, it was built with --tokenizer-only`,
    'let an engine answer (--policy-url, --answers), or build it again without --tokenizer-only',
  );
}

/** The same, whether it has graphs or not. */
export async function openTextFolder(path: string, { verify = true } = {}): Promise<AnyFolder> {
  await assertModelFolder(path, 'a policy folder', BUILD);
  const file = join(path, MANIFEST);
  const text = await untrustedText(path, MANIFEST);
  if (text === undefined) throw usageError(`${path}: not a policy folder (it has no ${MANIFEST})`, BUILD);
  const { format: _, ...read } = fromJson(schemaOf(parseJson(text, file, BUILD)), text, file, BUILD);
  const manifest: AnyFolder = { path, ...read };
  const { cuda, canary } = 'canary' in manifest ? manifest : {};
  const files = { ...manifest.files, ...(canary && { [canary.file]: canary.sha256 }) };
  const graphs = canary === undefined ? [] : [GRAPH, ...(cuda ? [cuda.graph] : [])];
  for (const name of new Set([...graphs, ...TOKENIZER_FILES, ...Object.keys(files)])) {
    const file = (await untrustedFile(path, name)) ?? join(path, name);
    await access(file, constants.R_OK).catch((cause) => {
      throw usageError(`${join(path, name)}: file of the policy is missing or unreadable`, BUILD, cause);
    });
    // the hashes go into the output as its provenance: files that are not what was built are refused
    const isHashed = verify && name in files && (await stat(file)).size <= HASHED_BYTES;
    if (isHashed && (await sha256(file)) !== files[name]) throw notAsBuilt(path, name);
  }
  const { architecture } = manifest;
  // its numbers steer loops and memory: they have to be those of the weights
  if ('layers' in architecture)
    assertShapes(path, MANIFEST, expectedWeights(architecture), await weightsIn({ path, files }));
  return manifest;
}

/** Of a folder without a graph, with one that was exported, or with ours. */
function schemaOf(
  said: unknown,
): z.ZodType<z.infer<typeof Manifest | typeof ExportedManifest | typeof TextManifest>> {
  const { architecture } = Object(said);
  if (Object.hasOwn(Object(architecture), 'exported')) return ExportedManifest;
  return Object.hasOwn(Object(said), 'cuda') ? Manifest : TextManifest;
}

/** The weights of graphs that we write, and where they lie. */
export async function weightsIn({ path, files }: Pick<PolicyFolder, 'path' | 'files'>) {
  const weights = new Map<string, StoredTensor & { readonly location: string }>();
  for (const location of Object.keys(files).filter((file) => file.endsWith('.safetensors')))
    for (const [name, stored] of await readSafetensorsHeader(join(path, location)))
      weights.set(name, { ...stored, location });
  return weights;
}

// ------ its files

/** Files up to this size are hashed whenever the folder is opened; larger ones as `watchPolicy` says. */
export const HASHED_BYTES = 64 * 2 ** 20;

export function buildAgain(path: string): string {
  const own = `rredcot policy build <checkpoint> -o ${shellWord(path)}`;
  return `build the folder again with: ${own}, or python -m rredcot.export, which made it if policy info says so`;
}

function notAsBuilt(path: string, name: string): RredcotError {
  const found = `${join(path, name)}: is not the file that policy.json was built with (sha256)`;
  return usageError(found, buildAgain(path));
}

// ------ the same files from the first shard of a run to the end of its last

export async function watchPolicy({ path, files }: Pick<PolicyFolder, 'path' | 'files'>) {
  /** each file as it lies there: enough to notice that it was written since */
  const stampsNow = async () => {
    const stamps = Object.keys(files).map(async (name) => {
      const { size: bytes, mtimeMs: mtime_ms, ino: inode } = await stat(join(path, name));
      return [name, { bytes, mtime_ms, inode }] as const;
    });
    return Object.fromEntries(await Promise.all(stamps));
  };
  const isAsBuilt = async (name: string) => (await sha256(join(path, name))) === files[name];
  const stamps = await stampsNow();
  return {
    /** Hashes large files that were changed since policy.json was written (others are hashed whenever it is opened). @throws RredcotError (exit 2) */
    async assertAsBuilt(): Promise<void> {
      const { mtimeMs: builtMs } = await stat(join(path, MANIFEST));
      for (const [name, stamp] of Object.entries(stamps)) {
        if (stamp.bytes <= HASHED_BYTES || (await stat(join(path, name))).ctimeMs <= builtMs) continue;
        if (!(await isAsBuilt(name))) throw notAsBuilt(path, name);
      }
    },
    /** At the end of a run. @throws RredcotError (exit 65) for a file that has become another one meanwhile */
    async assertUnchanged(): Promise<void> {
      for (const [name, now] of Object.entries(await stampsNow())) {
        if (isDeepStrictEqual(stamps[name], now) || (await isAsBuilt(name))) continue;
        throw dataError(
          `${join(path, name)}: changed while the run was at work with it; nothing is published, and its parts are of no known policy`,
          'build the policy again, then the same command with --overwrite',
        );
      }
    },
  };
}
