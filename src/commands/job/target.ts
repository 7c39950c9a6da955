// Where a command's output and rejects go, and what the file says about how it was made.
import { realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { usageError } from '../../errors.js';
import { assertHere } from '../../io/files/elsewhere.js';
import { whyUnreplaceable } from '../../io/files/replaceable.js';
import { rejectsPath, summaryPath } from '../../io/files/run-paths.js';
import { statIfThere } from '../../io/files/stat-if-there.js';
import { sumPath } from '../../io/files/sum-file.js';
import { fileStem, type Input } from '../../io/read/inputs.js';
import {
  CONFIG_KEY,
  formatOf,
  INPUTS_KEY,
  namedFormat,
  type OutputFormat,
  POLICY_KEY,
  RUN_KEY,
  VERSION_KEY,
  VOCAB_KEY,
} from '../../io/write/output.js';
import type { PolicyFolder } from '../../policy/folder.js';
import { shellWord } from '../../printable.js';
import { VERSION } from '../../version.js';

/** A stream on stdout, one file, or a run folder that stays. */
export interface Target {
  readonly kind: 'stdout' | 'file' | 'folder';
  /** `-` is stdout */
  readonly path: string;
  readonly format: OutputFormat;
  /** the rejects: a file, or a folder of them in a run folder */
  readonly rejects: string;
}

/**
 * `-o` and `--format`, with the command's default for the first. Where the output is stdout, the rejects are named after
 * the first input.
 * @throws RredcotError (exit 2) for a name that tells no format or another, that is one of the inputs, or where no file can be
 */
export async function resolveTarget(
  output: string,
  format: OutputFormat | undefined,
  inputs: readonly Input[],
): Promise<Target> {
  assertHere(output);
  const present = output === '-' ? null : await statIfThere(output);
  if (output.endsWith('/') || present?.isDirectory() === true) {
    const folder = output.replace(/(?<=.)\/+$/, '');
    const rejects = join(folder, 'rejects');
    const kind = format ?? 'parquet';
    return { kind: 'folder', path: folder, format: kind, rejects };
  }
  const isStdout = output === '-';
  const rejects = rejectsPath(isStdout ? stemOf(inputs) : output);
  const written = isStdout ? [rejects] : [output, rejects, summaryPath(output)];
  if (!isStdout && (format ?? namedFormat(output)) === 'jsonl') written.push(sumPath(output));
  await refuseInputs(written, inputs);
  for (const path of written) await refuseOtherThanFile(path);
  if (isStdout) {
    const kind = format ?? 'arrow';
    return { kind: 'stdout', path: output, format: kind, rejects };
  }
  const kind = formatOfFile(output, format);
  await refuseMissingFolder(output);
  for (const each of written) await refuseUnreplaceable(each);
  return { kind: 'file', path: output, format: kind, rejects };
}

/** @throws RredcotError (exit 2) where a file that is to be written is one that was read, or no file of this machine */
export async function refuseInputs(
  written: readonly string[],
  inputs: readonly { readonly path: string }[],
): Promise<void> {
  written.forEach(assertHere);
  const read = new Set(await Promise.all(inputs.map(({ path }) => realpath(path).catch(() => undefined))));
  for (const path of written) {
    const real = await realpath(path).catch(() => undefined);
    if (real !== undefined && read.has(real))
      throw usageError(`${path}: is an input, and would be written over`, 'name another output with -o');
  }
}

/**
 * What a file is written as: what its name says, or `--format` where that says nothing.
 * @throws RredcotError (exit 2) where both say something else, or neither says anything
 */
export function formatOfFile(path: string, format: OutputFormat | undefined): OutputFormat {
  if (format === undefined) return formatOf(path);
  const named = namedFormat(path);
  if (named === undefined || named === format) return format;
  throw usageError(
    `${path}: the name says ${named}, --format ${format}`,
    'leave out --format, or name the file after it',
  );
}

// a rename would put a file in the place of a pipe or /dev/null; a folder would turn it down when all is computed
async function refuseOtherThanFile(path: string): Promise<void> {
  const present = await statIfThere(path);
  if (present === null || present.isFile()) return;
  const found = present.isDirectory() ? 'a folder' : 'no regular file';
  throw usageError(`${path}: is ${found}, expected a file or nothing`, 'name another output with -o');
}

/** @throws RredcotError (exit 2) where what is to be put there could not be, when all is computed */
export async function refuseUnreplaceable(path: string): Promise<void> {
  const reason = await whyUnreplaceable(path);
  if (reason !== undefined) throw usageError(`${path}: ${reason}`, 'name another output with -o');
}

// a folder that is made for a misspelled path is found by nobody
async function refuseMissingFolder(path: string): Promise<void> {
  const folder = dirname(path);
  const present = await statIfThere(folder);
  if (present?.isDirectory()) return;
  throw usageError(
    `${path}: cannot be written: ${folder} is ${present === null ? 'no such folder' : 'no folder'}`,
    `mkdir -p ${shellWord(folder)}, or name another output with -o`,
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
  policy: PolicyFolder | undefined,
  run: string | undefined,
  inputs: number,
): Record<string, string> {
  return {
    [VERSION_KEY]: VERSION,
    [CONFIG_KEY]: JSON.stringify(configuration),
    ...(run === undefined ? {} : { [RUN_KEY]: run }),
    ...(policy === undefined ? {} : policyMetadata(policy)),
    [INPUTS_KEY]: `${inputs}`,
  };
}

function policyMetadata({ files, architecture }: PolicyFolder): Record<string, string> {
  return { [POLICY_KEY]: JSON.stringify(files), [VOCAB_KEY]: `${architecture.vocab}` };
}
