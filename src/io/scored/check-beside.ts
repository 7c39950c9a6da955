// What lies beside a file of rows in (its hash, its run's summary, its rejects), what does not belong to it out.
import { basename } from 'node:path';
import { plural } from '../../plural.js';
import { sha256OfFile } from '../files/file-bytes.js';
import { rejectsPath, summaryPath } from '../files/run-paths.js';
import { sumPath } from '../files/sum-file.js';
import { readSummary, type StoredSummary } from '../run/summary-file.js';
import type { Finding } from './finding.js';

type Sum = ReadonlyMap<string, string> | null | undefined;

/** What is wrong with the bytes of a file of lines: null where nothing is, undefined where nobody knows its hash. */
export async function sumFault(file: string, sum: Sum): Promise<string | null | undefined> {
  if (sum === undefined) return undefined;
  if (sum === null) return `${basename(sumPath(file))} beside it is damaged, and says no hash of it`;
  const [expected] = sum.values();
  return (await sha256OfFile(file)) === expected
    ? null
    : `is not the file that was written: its bytes have another hash than ${basename(sumPath(file))}`;
}

/** The summary beside a file, where it is that of the file's own run. */
export interface OwnSummary {
  readonly summary: StoredSummary | undefined;
  readonly findings: readonly Finding[];
  /** what cannot be checked without it */
  readonly problem?: string;
}

/**
 * Finds the summary of a file's run.
 * @param run identity in the file's metadata; a file of lines has none, and the hash of its summary in `sum`
 */
export async function ownSummary(file: string, run: string | undefined, sum: Sum): Promise<OwnSummary> {
  const path = summaryPath(file);
  const summary = await readSummary(file);
  if (run !== undefined) return { summary: summary?.run === run ? summary : undefined, findings: [] };
  const [, expected] = [...(sum ?? [])].find(([name]) => name.endsWith(summaryPath(''))) ?? [];
  // without a hash of it there is no telling whose it is
  if (expected === undefined) return { summary: undefined, findings: [] };
  const found = await sha256OfFile(path);
  if (found === null) {
    const problem = `${path} is not there: σ and what it follows from are not computed again`;
    return { summary: undefined, findings: [], problem };
  }
  if (found === expected && summary !== undefined) return { summary, findings: [] };
  const text = `is not the summary that was written: it has another hash than ${basename(sumPath(file))} says`;
  return { summary: undefined, findings: [{ file: path, text }] };
}

/** The file and its rejects against its summary. @param traces that the file holds */
export async function* summaryFindings(
  file: string,
  { traces: expected, rejects, rejects_sha256: sha256 }: StoredSummary,
  traces: number,
): AsyncGenerator<Finding> {
  if (traces !== expected)
    yield { file, text: `holds ${plural(traces, 'trace')}, its summary says ${expected}` };
  const path = rejectsPath(file);
  const found = await sha256OfFile(path);
  if (found === sha256) return;
  const text =
    found === null
      ? `is missing, with ${plural(rejects, 'reject')}`
      : sha256 === null
        ? 'is there, though no trace was rejected'
        : 'has changed since it was written';
  yield { file: path, text };
}
