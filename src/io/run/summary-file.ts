// `<output>.summary.json`: what a run did and with which configuration, for programs, and for `--config`.
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { VERSION } from '../../version.js';
import { fileError } from '../files/file-error.js';
import { summaryPath } from '../layout/run-paths.js';

/** A place beside the output that is not ours to write, or another disk's: no reason to fail. */
const NOT_OURS = new Set(['EACCES', 'EPERM', 'EROFS', 'EXDEV']);

/**
 * Writes a run's summary beside its output, before that is published: a death in between is made good by the next attempt.
 * @param folder the run's, in which the file is made
 * @param figures the record with which the log ends
 * @returns what is to be said where it could not be written
 * @throws RredcotError (exit 75) where the disk is full, or fails
 */
export async function writeSummary(
  output: string,
  folder: string,
  config: Readonly<Record<string, unknown>>,
  figures: Readonly<Record<string, unknown>>,
): Promise<string | undefined> {
  const path = summaryPath(output);
  const own = join(folder, `.summary.json.${process.pid}.tmp`);
  const summary = { format: 1, rredcot: VERSION, ...figures, config };
  try {
    await writeFile(own, `${JSON.stringify(summary, null, 2)}\n`, { flush: true });
    await rename(own, path);
    return undefined;
  } catch (error) {
    await rm(own, { force: true }).catch(() => {});
    const { code, message } = error as NodeJS.ErrnoException;
    if (NOT_OURS.has(code ?? '')) return `${path}: the summary cannot be written: ${message}`;
    throw fileError(error, path, 'written');
  }
}
