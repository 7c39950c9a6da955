// Where a command's output and rejects go, and what the file says about how it was made.
import { realpath } from 'node:fs/promises';
import { fileStem, type Input } from '../io/inputs.js';
import { formatOf, type OutputFormat } from '../io/output.js';
import type { PolicyFolder } from '../policy/folder.js';
import { VERSION } from '../version.js';
import { usageError } from './options.js';

export interface Target {
  /** `-` is stdout */
  readonly path: string;
  readonly format: OutputFormat;
  /** the rejects file */
  readonly rejects: string;
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
  if (output.endsWith('/')) throw usageError(`${output}: is a folder, expected a file`, '-o scored.parquet');
  const isStdout = output === '-';
  const rejects = `${isStdout ? stemOf(inputs) : output}.rejects.jsonl`;
  const read = new Set(await Promise.all(inputs.map(({ path }) => realpath(path).catch(() => undefined))));
  for (const path of isStdout ? [rejects] : [output, rejects]) {
    const real = await realpath(path).catch(() => undefined);
    if (real !== undefined && read.has(real))
      throw usageError(`${path}: is an input, and would be written over`, 'name another output with -o');
  }
  return { path: output, format: format ?? (isStdout ? 'arrow' : formatOf(output)), rejects };
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
