// Where a command's output and rejects go, which shard of it a process makes, and what the file says about how it was made.
import { readlink, realpath } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { usageError } from '../../errors.js';
import { VERSION } from '../../package-files.js';
import { shellWord } from '../../printable.js';
import { assertFilePlace } from '../files/atomic-file.js';
import { isStored, statIfThere } from '../files/files.js';
import { ADDRESS } from '../files/remote-paths.js';
import { filePaths, runPaths, type Shard } from '../files/run-folder.js';
import { fileStem, type Input } from '../read/inputs.js';
import {
  CONFIG_KEY,
  EXTENSIONS,
  INPUTS_KEY,
  namedFormat,
  type OutputFormat,
  POLICY_KEY,
  RUN_KEY,
  VERSION_KEY,
  VOCAB_KEY,
} from './output.js';

/** A stream on stdout, one file, or a run folder that stays. */
export interface Target {
  readonly kind: 'stdout' | 'file' | 'folder';
  /** `-` is stdout */
  readonly path: string;
  readonly format: OutputFormat;
  /** the rejects: a file, or a folder of them in a run folder */
  readonly rejects: string;
  /** of what is in the place of a file a folder, to whose folders the rows are dealt out: by this column */
  readonly partition?: string | undefined;
}

/**
 * `-o` and `--format`, with the command's default for the first. Of stdout the rejects are named after the first input.
 * @throws RredcotError (exit 2) for a name that tells no format or another, that is one of the inputs, or where no file can be
 */
export async function resolveTarget(
  output: string,
  format: OutputFormat | undefined,
  inputs: readonly Input[],
  partition?: string,
): Promise<Target> {
  if (/^s3:/i.test(output)) assertKey(output);
  else assertHere(output);
  const present = output === '-' ? null : await statIfThere(output);
  const read = inputs.map(({ path }) => path);
  const isNamed = partition !== undefined && present === null && !/^-$|\.\w+$/.test(output);
  if (output.endsWith('/') || isNamed || present?.isDirectory() === true) {
    const folder = output.replace(/(?<=.)\/+$/, '');
    await refuseOfTheSystem(folder);
    await refuseInputs([folder], read);
    const target = { path: folder, format: format ?? 'parquet' };
    if (partition === undefined) return { kind: 'folder', ...target, rejects: runPaths(folder).rejects };
    if (target.format !== 'jsonl' && !isStored(folder) && !(await readlink(folder).catch(() => '')))
      return { kind: 'file', ...target, rejects: filePaths(folder).rejects, partition };
  }
  if (partition !== undefined)
    throw usageError(
      `--partition ${partition}: ${output} is no folder for Parquet or Arrow files on this machine, or a link to one`,
      '-o out/ --format parquet',
    );
  const isStdout = output === '-';
  const rejects = filePaths(isStdout ? stemOf(inputs) : output).rejects;
  const written = isStdout ? [rejects] : [output, rejects, filePaths(output).summary];
  await refuseInputs(written, read);
  for (const path of written) await assertFilePlace(path);
  if (isStdout) return { kind: 'stdout', path: output, format: format ?? 'arrow', rejects };
  const kind = formatOfFile(output, format);
  // a folder that is made for a misspelled path is found by nobody
  const folder = isStored(output) ? undefined : dirname(output);
  const there = folder === undefined ? undefined : await statIfThere(folder);
  if (folder !== undefined && !there?.isDirectory())
    throw usageError(
      `${output}: cannot be written: ${folder} is ${there === null ? 'no such folder' : 'no folder'}`,
      `mkdir -p ${shellWord(folder)}, or name another output with -o`,
    );
  await refuseOfTheSystem(output);
  return { kind: 'file', path: output, format: kind, rejects };
}

/** @throws RredcotError (exit 2) for an output that is an address, and no file or folder of this machine */
export function assertHere(path: string): void {
  if (!ADDRESS.test(path)) return;
  throw usageError(
    `${path}: is an address, which is not written here`,
    `${shellWord(basename(path))}${path.endsWith('/') ? '/' : ''}, and upload that when it is done`,
  );
}

/** @throws RredcotError (exit 2) for a bucket, where an object is written, or a folder of them */
function assertKey(address: string): void {
  if (!/^s3:\/\/[^/]+\/./i.test(address))
    throw usageError(
      `${address}: names no object`,
      's3://<bucket>/<key>.parquet, or a folder: s3://<bucket>/out/',
    );
}

/** Of a file that is written beside what is printed. @throws RredcotError (exit 2) where none can be there, or it is one that was read */
export async function assertPlace(path: string, inputs: readonly string[]): Promise<void> {
  assertHere(path);
  await refuseInputs([path], inputs);
  await refuseOfTheSystem(path);
}

/** @throws RredcotError (exit 2) where what is to be written is, or holds, what was read */
async function refuseInputs(written: readonly string[], inputs: readonly string[]): Promise<void> {
  const read = await Promise.all(inputs.map((path) => realpath(path).catch(() => undefined)));
  for (const path of written) {
    const real = await realpath(path).catch(() => undefined);
    if (real !== undefined && read.some((each) => `${each}/`.startsWith(`${real}/`)))
      throw usageError(`${path}: is an input, or has one, and would be lost`, 'name another output with -o');
  }
}

/** What a file is written as, by its name or `--format`. @throws RredcotError (exit 2) where both say something else, or neither says anything */
function formatOfFile(path: string, format: OutputFormat | undefined): OutputFormat {
  if (/\.(gz|zst)$/i.test(path))
    throw usageError(
      `${path}: outputs are not packed`,
      'leave off the ending, and gzip the file when it is done',
    );
  const named = namedFormat(path);
  if (named !== undefined && format !== undefined && named !== format)
    throw usageError(
      `${path}: the name says ${named}, --format ${format}`,
      'leave out --format, or name the file after it',
    );
  const known = named ?? format;
  if (known !== undefined) return known;
  throw usageError(
    `${path}: the name does not tell the format, expected one of ${EXTENSIONS.map(([name]) => name).join(', ')}`,
    '--format parquet|arrow|jsonl; a name that ends with / is a run folder',
  );
}

/** The first input's name without folder and extension. */
export function stemOf(inputs: readonly Input[]): string {
  return fileStem(inputs[0]?.path ?? '-');
}

/**
 * The file's own account: version, resolved configuration, policy. Paths, devices, worker counts and times stay out of
 * it, so that the same input and configuration give the same bytes (DESIGN §4).
 * @param run its identity; undefined where nothing is kept
 * @param inputs how many
 */
export function fileMetadata(
  configuration: Readonly<Record<string, unknown>>,
  policy: { readonly files: object; readonly architecture: { readonly vocab: number } } | undefined,
  run: string | undefined,
  inputs: number,
): Record<string, string> {
  return {
    [VERSION_KEY]: VERSION,
    [CONFIG_KEY]: JSON.stringify(configuration),
    ...(run === undefined ? {} : { [RUN_KEY]: run }),
    ...(policy && {
      [POLICY_KEY]: JSON.stringify(policy.files),
      [VOCAB_KEY]: `${policy.architecture.vocab}`,
    }),
    [INPUTS_KEY]: `${inputs}`,
  };
}

/** Where the system keeps what is no file of ours: /dev/stdout is a link there, which a rename would replace. */
const OF_THE_SYSTEM = /^\/(dev(?!\/shm(\/|$))|proc)(\/|$)/;

/** @throws RredcotError (exit 2) for a place where the system keeps its own */
async function refuseOfTheSystem(path: string): Promise<void> {
  const place = await realpath(dirname(path)).catch(() => resolve(dirname(path)));
  if (OF_THE_SYSTEM.test(place))
    throw usageError(
      `${path}: would be a file in ${place}; stdout is called -`,
      'name another output with -o',
    );
}

/** @throws RredcotError (exit 2) for a shard of what cannot be split */
export function assertShardable(
  { kind, path, partition }: Target,
  { index, count }: Shard,
  limit: number | undefined,
  isStream: boolean,
): void {
  if (count === 1) return;
  if (kind === 'file' && partition === undefined)
    throw usageError(
      `--shard ${index}/${count}: ${path} is one file, expected a folder that the shards share`,
      '-o out/',
    );
  if (isStream) throw usageError('a shard needs files, stdin can be read only once', 'name the input files');
  if (limit !== undefined)
    throw usageError(
      '--limit counts traces from the first, so it cannot be split into shards',
      'leave out --limit',
    );
}
