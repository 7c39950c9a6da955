// What a file of rows says of itself, in its metadata or beside it: the counts of its rows and rejects, what has cut it out of a data set, and
// the summary of its run, `<output>.summary.json`.
import { basename, dirname } from 'node:path';
import { z } from 'zod';
import { VERSION } from '../../package-files.js';
import { type BadRow, isBad } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import { jsonOf } from '../arrow/json.js';
import { writeText } from '../files/atomic-file.js';
import {
  bytesFault,
  Count,
  factsOf,
  factsText,
  parseFacts,
  Sha256,
  type WrittenFacts,
} from '../files/facts.js';
import { isStored, readJson, sha256OfFile, statIfThere, textOf } from '../files/files.js';
import { filePaths, partNumber, runPaths } from '../files/run-folder.js';
import { findFiles } from '../read/find-files.js';
import { namedFormat, type OutputFormat } from './output.js';

const COUNTED = ['traces', 'rejects', 'tokens', 'padded_traces', 'padding_tokens', 'sigma'] as const;
export type Counts = Record<(typeof COUNTED)[number], number>;

export function sumCounts(all: Iterable<Counts>): Counts {
  const sum = Object.fromEntries(COUNTED.map((name) => [name, 0])) as Counts;
  for (const each of all) for (const name of COUNTED) sum[name] += each[name];
  return sum;
}

/** Counts a row or a reject. */
export function addTo(counts: Counts, item: OutputRow | BadRow): void {
  if (isBad(item)) {
    counts.rejects++;
    return;
  }
  counts.traces++;
  counts.tokens += item.completionIds?.length ?? 0;
  counts.padded_traces += item.trace.padding === undefined ? 0 : 1;
  counts.padding_tokens += item.trace.padding ?? 0;
  counts.sigma += item.sigma?.reduce((sum, s) => sum + s, 0) ?? 0;
}

/** What a part of a run says of itself, JSON lines in a file beside them; undefined for another part under its name. */
export async function factsOfPart(
  folder: string,
  part: number,
  format: OutputFormat,
): Promise<WrittenFacts | undefined> {
  const paths = runPaths(folder);
  const facts =
    format === 'jsonl'
      ? parseFacts(await textOf(paths.factsOf(part)))
      : await factsOf(paths.part(part, format));
  return facts?.number === part ? facts : undefined;
}

/** What a file says of itself: in its metadata, or of JSON lines beside them, as a part of a run or in their summary. */
export async function factsOfFile(path: string): Promise<WrittenFacts | undefined> {
  if (namedFormat(path) !== 'jsonl') return factsOf(path);
  const part = partNumber(basename(path));
  const ofPart = part === undefined ? undefined : await factsOfPart(dirname(path), part, 'jsonl');
  return ofPart ?? parseFacts(await textOf(filePaths(path).summary));
}

/** What is wrong with its bytes: null where nothing is, undefined where nothing says what they were. */
export async function fileFault(path: string): Promise<string | null | undefined> {
  if (!isStored(path) && (await statIfThere(path))?.isDirectory()) return folderFault(path);
  if (namedFormat(path) !== 'jsonl') return bytesFault(path);
  const expected = (await factsOfFile(path))?.sha256;
  if (expected === undefined) return undefined;
  return (await sha256OfFile(path)) === expected
    ? null
    : 'is not the file that was written: its bytes have another hash than what lies beside it says';
}

/** The same of rows that were dealt out to a folder, beside which their summary lies. */
async function folderFault(path: string): Promise<string | null | undefined> {
  const summary = await readSummary(path);
  if (summary === undefined) return undefined;
  let rows = 0;
  for (const file of await findFiles(path)) {
    const fault = await bytesFault(file);
    if (typeof fault === 'string') return `${file} ${fault}`;
    const said = await factsOf(file);
    if (said?.run !== summary.run) return `${file} is of another run than its summary`;
    rows += said.traces;
  }
  return rows === summary.traces ? null : `holds ${rows} traces, expected ${summary.traces}`;
}

/** Puts it there. */
export function writeFactsOfLines(folder: string, part: number, facts: WrittenFacts): Promise<void> {
  return writeText(runPaths(folder).factsOf(part), `${factsText(facts)}\n`);
}

// ------ what has cut rows out of a data set: their file says it in JSON, messages in words

/** The key of a file's metadata under which stands what has cut its rows out; beside JSON lines the summary has it as `part`. */
export const PART_KEY = 'rredcot.part';

/** How it is stored. */
export const PartSchema = z.discriminatedUnion('by', [
  z.object({ by: z.literal('limit'), limit: z.number() }),
  /** with what the file was before */
  z.looseObject({ by: z.literal('filter'), where: z.array(z.string()) }),
  /** chunks of a run, or files of a merged one, together the whole; `of` is null where nobody has counted them */
  z.object({ by: z.literal('pieces'), pieces: z.number(), of: z.number().nullable() }),
]);

/** What has cut rows out of a data set: their groups may lack traces. */
export type Part = Readonly<z.infer<typeof PartSchema>>;

/** What metadata, or a summary, say of it; null for what no rredcot has written there. */
export function parsePart(stored: unknown): Part | null | undefined {
  const { data = null } = PartSchema.safeParse(typeof stored === 'string' ? jsonOf(stored) : stored);
  return stored === undefined ? undefined : data;
}

/** What has befallen a file, as words after its name. */
export function partText(part: Part): string {
  if (part.by === 'filter') return 'was filtered';
  if (part.by === 'limit') return `was cut by --limit ${part.limit}`;
  return `has ${part.of === null ? 'not all' : `${part.pieces} of ${part.of}`} pieces of its run`;
}

/** What has the groups whole. */
export function wholeText({ by }: Part): string {
  if (by === 'filter') return 'the file before it was filtered';
  return by === 'limit' ? 'an output without --limit' : 'the run as a whole, when it is finished';
}

// ------ what lies beside a single file: what its run did, and with which configuration; of JSON lines also their hash

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

/** Writes it before the file is published: a death in between is made good by the next attempt. @param folder where it lies until it is whole */
export async function writeSummary(
  output: string,
  summary: Omit<StoredSummary, 'format'> & Readonly<Record<string, unknown>>,
  folder: string,
): Promise<void> {
  const whole = { format: 2, rredcot: VERSION, ...summary };
  await writeText(filePaths(output).summary, `${JSON.stringify(whole, null, 2)}\n`, folder);
}

/** The summary beside a file; undefined where there is none, or none of ours. */
export async function readSummary(output: string): Promise<StoredSummary | undefined> {
  return SummarySchema.safeParse(await readJson(filePaths(output).summary)).data;
}
