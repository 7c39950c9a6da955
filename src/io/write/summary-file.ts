// What lies beside a single file, `<output>.summary.json`: what its run did, and with which configuration; of JSON lines also their hash.
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { VERSION } from '../../package-files.js';
import { putInPlace } from '../files/atomic-file.js';
import { Sha256 } from '../files/facts.js';
import { fileError, readJson } from '../files/files.js';
import { summaryPath } from '../files/run-folder.js';
import { PartSchema } from './part.js';

/** A place beside the output that is not ours to write, or another disk's: no reason to fail. */
const NOT_OURS = new Set(['EACCES', 'EPERM', 'EROFS', 'EXDEV']);

const Count = z.int().nonnegative();

const SummarySchema = z.object({
  format: z.literal(2),
  /** identity of the run */
  run: Sha256,
  config: z.record(z.string(), z.unknown()),
  traces: Count,
  rejects: Count,
  /** Σσ over all rows */
  sigma: z.number(),
  /** of the rejects file; null where there is none */
  rejects_sha256: Sha256.nullable(),
  /** of a file of JSON lines; others have their checksum in themselves */
  sha256: Sha256.optional(),
  /** what a file was made of, where it was made of another, and what has cut it out of a data set, as the metadata of columnar files say it */
  redistributed: z.record(z.string(), z.unknown()).optional(),
  part: PartSchema.optional(),
});

/** What of a summary the file beside it can be compared with. */
export type StoredSummary = Readonly<z.infer<typeof SummarySchema>>;

/**
 * Writes it, before the file is published: a death in between is made good by the next attempt.
 * @param folder where it lies until it is whole
 * @returns what is to be said where it could not be written
 * @throws RredcotError (exit 75) where the disk is full, or fails
 */
export async function writeSummary(
  output: string,
  summary: Omit<StoredSummary, 'format'> & Readonly<Record<string, unknown>>,
  folder: string,
): Promise<string | undefined> {
  const path = summaryPath(output);
  const own = join(folder, `.summary.json.${process.pid}.tmp`);
  const whole = { format: 2, rredcot: VERSION, ...summary };
  try {
    await writeFile(own, `${JSON.stringify(whole, null, 2)}\n`);
    await putInPlace(own, path);
    return undefined;
  } catch (error) {
    await rm(own, { force: true }).catch(() => {});
    const { code, message } = error as NodeJS.ErrnoException;
    if (NOT_OURS.has(code ?? '')) return `${path}: the summary cannot be written: ${message}`;
    throw fileError(error, path, 'written');
  }
}

/** The summary beside a file; undefined where there is none, or none of ours. */
export async function readSummary(output: string): Promise<StoredSummary | undefined> {
  return SummarySchema.safeParse(await readJson(summaryPath(output))).data;
}
