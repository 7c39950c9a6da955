// Where a command's output and rejects go, and what the file says about how it was made.
import type { OutputFormat } from '../io/output.js';
import { formatOf } from '../io/output.js';
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
 * `-o` and `--format`, with the command's default for the first.
 * @param stem of the input, names the rejects where the output is stdout
 */
export function resolveTarget(output: string, format: OutputFormat | undefined, stem: string): Target {
  if (output.endsWith('/')) throw usageError(`${output}: is a folder, expected a file`, '-o scored.parquet');
  const isStdout = output === '-';
  return {
    path: output,
    format: format ?? (isStdout ? 'arrow' : formatOf(output)),
    rejects: `${isStdout ? stem : output}.rejects.jsonl`,
  };
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
