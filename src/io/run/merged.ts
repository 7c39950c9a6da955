// The record of a merged folder: what its files are, by which it is verified, and known when it is merged again.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { readJson, writeJson } from '../files/json-file.js';
import { FORMATS } from '../write/output.js';
import { PartSchema } from '../write/part.js';
import type { RunDescription } from './description.js';

const Count = z.int().nonnegative();
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);

const MergedSchema = z.strictObject({
  format: z.literal(1),
  /** identity of the run */
  run: Sha256,
  rredcot: z.string(),
  /** the run's configuration */
  config: z.record(z.string(), z.unknown()),
  /** of the policy; null without one */
  vocab: z.int().positive().nullable(),
  /** format of the files */
  output: z.enum(FORMATS),
  /** how many the run has read */
  inputs: Count,
  /** what has cut the rows out of a data set: `--limit`, or `--partial`; null where nothing has */
  part: PartSchema.nullable(),
  traces: Count,
  rejects: Count,
  /** of the rejects beside the folder; null without any */
  rejects_sha256: Sha256.nullable(),
  files: z
    .array(z.strictObject({ name: z.string().regex(/^[^/\\]+$/), traces: Count, sha256: Sha256 }))
    .min(1),
  /** null where the folder has no dataset card */
  card_sha256: Sha256.nullable(),
});

export type MergedRecord = Readonly<z.infer<typeof MergedSchema>>;

/** Hidden from what reads a folder of data. */
const NAME = '_merged.json';

/** Where a merged folder has it. */
export function mergedPath(folder: string): string {
  return join(folder, NAME);
}

/** Writes it. */
export function writeMerged(folder: string, record: MergedRecord): Promise<void> {
  return writeJson(mergedPath(folder), record);
}

/** undefined where there is none, null for one that cannot be true. */
export async function readMerged(folder: string): Promise<MergedRecord | null | undefined> {
  const present = await readdir(folder).catch((): string[] => []);
  if (!present.includes(NAME)) return undefined;
  const found = MergedSchema.safeParse(await readJson(mergedPath(folder)));
  return found.success ? found.data : null;
}

/** The part of it that the run says. */
export function mergedRun({ run, rredcot, config, vocab, inputs }: RunDescription) {
  return { format: 1 as const, run, rredcot, config, vocab, inputs: inputs.length };
}
