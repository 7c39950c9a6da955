// The small JSON files of a run: `survey.json` in its folder, `<output>.summary.json`, what it did and with which configuration, and the record of a merged folder.
import { createHash } from 'node:crypto';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { putInPlace } from '../io/files/atomic-file.js';
import { sha256OfFile } from '../io/files/file-bytes.js';
import { fileError } from '../io/files/file-error.js';
import { readJson, textOf, writeJson, writeSum, writeText } from '../io/files/json-file.js';
import { summaryPath } from '../io/files/run-paths.js';
import { FORMATS } from '../io/write/output.js';
import { PartSchema } from '../io/write/part.js';
import { VERSION } from '../package-files.js';
import type { RunDescription } from './description.js';
import { Count, Sha256 } from './records.js';

/** A place beside the output that is not ours to write, or another disk's: no reason to fail. */
const NOT_OURS = new Set(['EACCES', 'EPERM', 'EROFS', 'EXDEV']);

const SummarySchema = z.object({
  format: z.literal(1),
  /** identity of the run */
  run: Sha256,
  traces: Count,
  rejects: Count,
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
 * @param ready asked right before it gets its name
 * @returns what is to be said where it could not be written
 * @throws RredcotError (exit 75) where the disk is full, or fails
 */
export async function writeSummary(
  output: string,
  { run, config, folder, rejectsSha256 }: SummarisedRun,
  figures: Readonly<Record<string, unknown>>,
  ready?: () => Promise<void>,
): Promise<string | undefined> {
  const path = summaryPath(output);
  const own = join(folder, `.summary.json.${process.pid}.tmp`);
  const summary = { format: 1, rredcot: VERSION, run, ...figures, rejects_sha256: rejectsSha256, config };
  try {
    await writeFile(own, `${JSON.stringify(summary, null, 2)}\n`, { flush: true });
    await ready?.();
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
  const found = SummarySchema.safeParse(await readJson(summaryPath(output)));
  return found.success ? found.data : undefined;
}

/**
 * Writes the hash of a file of JSON lines beside it, and that of its run's summary: with this the configuration is told of a file that
 * has no metadata.
 * @param run its identity
 * @param folder where what is half written lies
 */
export async function writeSums(path: string, sha256: string, run: string, folder: string): Promise<void> {
  const hashes = new Map([[path, sha256]]);
  const summary = summaryPath(path);
  const own = (await readSummary(path))?.run === run ? await sha256OfFile(summary) : null;
  await writeSum(path, own === null ? hashes : hashes.set(summary, own), folder);
}

const BEGIN = /^\{"sha256":"([0-9a-f]{64})",/;

/** Writes it. @param run identity of the run */
export function writeSurveyFile(path: string, run: string, survey: object): Promise<void> {
  const rest = `${JSON.stringify({ run, ...survey }).slice(1)}\n`;
  return writeText(path, `{"sha256":"${hashOf(rest)}",${rest}`);
}

/** What was written; undefined where there is none of this run, or it was changed: it is made again. */
export async function readSurveyFile<T>(path: string, run: string): Promise<T | undefined> {
  const text = await textOf(path);
  if (text === undefined || faultOf(text, run) !== undefined) return undefined;
  const { sha256: _, run: __, ...survey } = JSON.parse(text);
  return survey as T;
}

function faultOf(text: string, run: string): string | undefined {
  const [begin, sha256] = BEGIN.exec(text) ?? [];
  const rest = begin === undefined ? '' : text.slice(begin.length);
  if (sha256 === undefined || hashOf(rest) !== sha256) return 'was changed since it was written';
  return rest.startsWith(`"run":${JSON.stringify(run)}`) ? undefined : 'is of another run than run.json';
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

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
const MERGED_NAME = '_merged.json';

/** Where a merged folder has it. */
export function mergedPath(folder: string): string {
  return join(folder, MERGED_NAME);
}

/** Writes it. */
export function writeMerged(folder: string, record: MergedRecord): Promise<void> {
  return writeJson(mergedPath(folder), record);
}

/** undefined where there is none, null for one that cannot be true. */
export async function readMerged(folder: string): Promise<MergedRecord | null | undefined> {
  const present = await readdir(folder).catch((): string[] => []);
  if (!present.includes(MERGED_NAME)) return undefined;
  const found = MergedSchema.safeParse(await readJson(mergedPath(folder)));
  return found.success ? found.data : null;
}

/** The part of it that the run says. */
export function mergedRun({ run, rredcot, config, vocab, inputs }: RunDescription) {
  return { format: 1 as const, run, rredcot, config, vocab, inputs: inputs.length };
}
