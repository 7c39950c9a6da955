// Counts the rows and rejects of a part, or of a file, as they are written; and what parts of JSON lines have beside them.
import { basename, dirname } from 'node:path';
import { type BadRow, isBad } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import { writeText } from '../files/atomic-file.js';
import { bytesFault, type Facts, factsOf, factsText, parseFacts, type WrittenFacts } from '../files/facts.js';
import { sha256OfFile, textOf } from '../files/files.js';
import { partNumber, runPaths, summaryPath } from '../files/run-folder.js';
import { namedFormat, type OutputFormat } from './output.js';

const COUNTED = ['traces', 'rejects', 'tokens', 'sigma'] as const;
export type Counts = Pick<Facts, (typeof COUNTED)[number]>;

export function sumCounts(all: Iterable<Counts>): Counts {
  const sum = { traces: 0, rejects: 0, tokens: 0, sigma: 0 };
  for (const each of all) for (const name of COUNTED) sum[name] += each[name];
  return sum;
}

/** Counts the rows and rejects of a part. */
export class FactCounter {
  readonly counts = { traces: 0, rejects: 0, tokens: 0, sigma: 0 };

  /** @param run its identity @param number of the part */
  constructor(
    private readonly run: string,
    private readonly number: number,
  ) {}

  add(item: OutputRow | BadRow): void {
    const { counts } = this;
    if (isBad(item)) {
      counts.rejects++;
      return;
    }
    counts.traces++;
    counts.tokens += item.completionIds?.length ?? 0;
    counts.sigma += item.sigma?.reduce((sum, s) => sum + s, 0) ?? 0;
  }

  facts(rejectsSha256: string | null): Facts {
    return { run: this.run, number: this.number, ...this.counts, rejects_sha256: rejectsSha256 };
  }
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
  return ofPart ?? parseFacts(await textOf(summaryPath(path)));
}

/** What is wrong with its bytes: null where nothing is, undefined where nothing says what they were. */
export async function fileFault(path: string): Promise<string | null | undefined> {
  if (namedFormat(path) !== 'jsonl') return bytesFault(path);
  const expected = (await factsOfFile(path))?.sha256;
  if (expected === undefined) return undefined;
  return (await sha256OfFile(path)) === expected
    ? null
    : 'is not the file that was written: its bytes have another hash than what lies beside it says';
}

/** Puts it there. */
export function writeFactsOfLines(folder: string, part: number, facts: WrittenFacts): Promise<void> {
  return writeText(runPaths(folder).factsOf(part), `${factsText(facts)}\n`);
}
