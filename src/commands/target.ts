// Where a command's output and rejects go, and what the file says about how it was made.
import { realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileStem, type Input } from '../io/inputs.js';
import { extensionOf, formatOf, type OutputFormat } from '../io/output.js';
import type { PolicyFolder } from '../policy/folder.js';
import { VERSION } from '../version.js';
import { usageError } from './options.js';

/** A stream on stdout, one file, or a run folder that stays. */
export interface Target {
  readonly kind: 'stdout' | 'file' | 'folder';
  /** `-` is stdout */
  readonly path: string;
  readonly format: OutputFormat;
  /** of the files that are written, without a dot */
  readonly extension: string;
  /** the rejects: a file, or a folder of them in a run folder */
  readonly rejects: string;
  /** the run folder: hidden beside a single file while that is being made; undefined for stdout */
  readonly folder: string | undefined;
}

/**
 * `-o` and `--format`, with the command's default for the first. Where the output is stdout, the rejects are named after
 * the first input.
 * @throws RredcotError (exit 2) for a name that tells no format, or that is one of the inputs
 */
export async function resolveTarget(
  output: string,
  format: OutputFormat | undefined,
  inputs: readonly Input[],
): Promise<Target> {
  const present = output === '-' ? null : await stat(output).catch(() => null);
  if (output.endsWith('/') || present?.isDirectory() === true) {
    const folder = output.replace(/(?<=.)\/+$/, '');
    const rejects = join(folder, 'rejects');
    const kind = format ?? 'parquet';
    return { kind: 'folder', path: folder, format: kind, extension: kind, rejects, folder };
  }
  const isStdout = output === '-';
  const rejects = `${isStdout ? stemOf(inputs) : output}.rejects.jsonl`;
  const read = new Set(await Promise.all(inputs.map(({ path }) => realpath(path).catch(() => undefined))));
  for (const path of isStdout ? [rejects] : [output, rejects]) {
    const real = await realpath(path).catch(() => undefined);
    if (real !== undefined && read.has(real))
      throw usageError(`${path}: is an input, and would be written over`, 'name another output with -o');
  }
  if (isStdout) {
    const kind = format ?? 'arrow';
    return { kind: 'stdout', path: output, format: kind, extension: kind, rejects, folder: undefined };
  }
  const kind = format ?? formatOf(output);
  const extension = extensionOf(output, kind);
  const folder = join(dirname(output), `.${basename(output)}.rredcot-run`);
  return { kind: 'file', path: output, format: kind, extension, rejects, folder };
}

/** The first input's name without folder and extension. */
export function stemOf(inputs: readonly Input[]): string {
  return fileStem(inputs[0]?.path ?? '-');
}

/**
 * The file's own account: version, resolved configuration, policy. Paths, devices, worker counts and times stay out of
 * it, so that the same input and configuration give the same bytes (DESIGN §4).
 */
export function fileMetadata(
  configuration: Readonly<Record<string, unknown>>,
  policy: PolicyFolder | undefined,
): Record<string, string> {
  return {
    'rredcot.version': VERSION,
    'rredcot.config': JSON.stringify(configuration),
    ...(policy === undefined ? {} : { 'rredcot.policy.sha256': JSON.stringify(policy.files) }),
  };
}
