// `<output>.summary.json`: what a run did and with which configuration, for programs and for `verify`.
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { VERSION } from '../../version.js';
import { fileError } from '../files/file-error.js';
import { readJson } from '../files/json-file.js';
import { summaryPath } from '../files/run-paths.js';
import { PartSchema } from '../write/part.js';

/** A place beside the output that is not ours to write, or another disk's: no reason to fail. */
const NOT_OURS = new Set(['EACCES', 'EPERM', 'EROFS', 'EXDEV']);

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);

const SummarySchema = z.object({
  format: z.literal(1),
  /** identity of the run */
  run: Sha256,
  traces: z.int().nonnegative(),
  rejects: z.int().nonnegative(),
  /** of the rejects file beside a single file; null where there is none */
  rejects_sha256: Sha256.nullable(),
  config: z.record(z.string(), z.unknown()),
  /** what a file was made of, where it was made of another, and what has cut it out of a data set, as the metadata of columnar files say it */
  redistributed: z.record(z.string(), z.unknown()).optional(),
  part: PartSchema.optional(),
});

/** What of a summary the file beside it can be held against. */
export type StoredSummary = Readonly<z.infer<typeof SummarySchema>>;

/** What a summary is of. */
export interface SummarisedRun {
  /** its identity */
  readonly run: string;
  readonly config: Readonly<Record<string, unknown>>;
  /** in whose folder the file is made */
  readonly folder: string;
  readonly rejectsSha256: string | null;
}

/**
 * Writes a run's summary beside its output, before that is published: a death in between is made good by the next attempt.
 * @param figures the record with which the log ends
 * @returns what is to be said where it could not be written
 * @throws RredcotError (exit 75) where the disk is full, or fails
 */
export async function writeSummary(
  output: string,
  { run, config, folder, rejectsSha256 }: SummarisedRun,
  figures: Readonly<Record<string, unknown>>,
): Promise<string | undefined> {
  const path = summaryPath(output);
  const own = join(folder, `.summary.json.${process.pid}.tmp`);
  const summary = { format: 1, rredcot: VERSION, run, ...figures, rejects_sha256: rejectsSha256, config };
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

/** The summary beside a file; undefined where there is none, or none of ours. */
export async function readSummary(output: string): Promise<StoredSummary | undefined> {
  const found = SummarySchema.safeParse(await readJson(summaryPath(output)));
  return found.success ? found.data : undefined;
}
