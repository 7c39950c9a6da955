// What lies beside a single file, `<output>.summary.json`: what its run did, and with which configuration; of JSON lines also their hash.
import { z } from 'zod';
import { VERSION } from '../../package-files.js';
import { writeText } from '../files/atomic-file.js';
import { Sha256 } from '../files/facts.js';
import { readJson } from '../files/files.js';
import { summaryPath } from '../files/run-folder.js';
import { PartSchema } from './part.js';

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
 * @throws RredcotError where it cannot be written
 */
export async function writeSummary(
  output: string,
  summary: Omit<StoredSummary, 'format'> & Readonly<Record<string, unknown>>,
  folder: string,
): Promise<void> {
  const whole = { format: 2, rredcot: VERSION, ...summary };
  await writeText(summaryPath(output), `${JSON.stringify(whole, null, 2)}\n`, folder);
}

/** The summary beside a file; undefined where there is none, or none of ours. */
export async function readSummary(output: string): Promise<StoredSummary | undefined> {
  return SummarySchema.safeParse(await readJson(summaryPath(output))).data;
}
