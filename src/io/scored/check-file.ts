// Checks files of rows: one by itself, by its own hash and the summary beside it; those of a merged folder, by its record.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { plural } from '../../plural.js';
import { sha256OfFile } from '../files/file-bytes.js';
import { CARD_NAME, rejectsPath } from '../files/run-paths.js';
import { type MergedRecord, mergedPath, type StoredSummary } from '../run/summary-file.js';
import { EXPORT_FORMS, EXPORTS, type ExportName } from '../write/exports.js';
import { INPUTS_KEY, type OutputFormat, RUN_KEY, VOCAB_KEY } from '../write/output.js';
import { bytesFault, ownSummary } from './as-written.js';
import { type Finding, openChecked, type RowChecks, rowFindings } from './check-rows.js';
import { type Cells, storedConfig } from './stored-rows.js';

/** What a file says of itself before its rows are read. */
export interface FileFacts {
  /** undefined where it has no row and no columns */
  readonly columns: readonly string[] | undefined;
  /** the export whose columns it has in place of ours */
  readonly export: ExportName | undefined;
  readonly chosen: readonly string[] | undefined;
  /** empty where it tells none */
  readonly config: Cells;
  readonly vocab: number | undefined;
  /** files that its rows come from */
  readonly inputs: number | undefined;
}

export interface FileCheck {
  readonly path: string;
  readonly format: OutputFormat;
  /** How the rows are checked. @throws RredcotError for a file that cannot be */
  readonly checksOf: (facts: FileFacts) => RowChecks;
  /** told where nothing says what the file's bytes were */
  readonly onUnsealed: () => void;
  /** told what of the file cannot be checked, and why */
  readonly onProblem: (problem: string) => void;
}

/** Checks a file; null after every trace that is there. */
export async function* fileFindings(check: FileCheck): AsyncGenerator<Finding | null> {
  const { path: file, format } = check;
  const isText = format === 'jsonl';
  const fault = await bytesFault(file, isText);
  // its rows are looked at all the same: they may show where
  if (typeof fault === 'string') yield { file, text: fault };
  const opened = await openChecked(file, format);
  if ('text' in opened) return yield opened;
  const { columns, metadata, rows } = opened;
  const isOurs = [...metadata.keys()].some((key) => key.startsWith('rredcot.'));
  if (fault === undefined && isOurs) yield { file, text: 'has lost the hash of its bytes' };
  const { summary, findings, problem } = await ownSummary(file, metadata.get(RUN_KEY));
  yield* findings;
  const config = (isText ? summary?.config : storedConfig(metadata)) ?? {};
  const checks = check.checksOf({
    ...{ columns, export: columns && exportOf(columns), config },
    chosen: (config as { columns?: readonly string[] }).columns,
    vocab: numberOf(metadata.get(VOCAB_KEY)),
    inputs: numberOf(metadata.get(INPUTS_KEY)),
  });
  if (fault === undefined) check.onUnsealed();
  if (problem !== undefined) check.onProblem(problem);
  let traces = 0;
  for await (const found of rowFindings(file, rows, checks)) {
    if (!('text' in found)) traces++;
    yield 'text' in found ? found : null;
  }
  if (summary !== undefined) yield* summaryFindings(file, summary, traces);
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

/** The export whose columns a file has in place of ours; undefined where it has ours. */
function exportOf(columns: readonly string[]): ExportName | undefined {
  if (columns.includes('status') || columns.includes('sigma')) return undefined;
  return EXPORTS.find((form) => EXPORT_FORMS[form].columns.every(({ name }) => columns.includes(name)));
}

/** The file and its rejects against its summary. @param traces that the file holds */
async function* summaryFindings(
  file: string,
  { traces: expected, rejects, rejects_sha256: sha256 }: StoredSummary,
  traces: number,
): AsyncGenerator<Finding> {
  if (traces !== expected)
    yield { file, text: `holds ${plural(traces, 'trace')}, its summary says ${expected}` };
  yield* await hashFindings(rejectsPath(file), sha256, {
    missing: `is missing, with ${plural(rejects, 'reject')}`,
    unknown: 'is there, though no trace was rejected',
  });
}

/** Checks a folder that `merge` has made; null after every trace that is there. */
export async function* mergedFindings(
  folder: string,
  record: MergedRecord,
  checks: RowChecks,
): AsyncGenerator<Finding | null> {
  yield* await hashFindings(rejectsPath(folder), record.rejects_sha256);
  yield* await hashFindings(join(folder, CARD_NAME), record.card_sha256);
  const known = new Set(record.files.map(({ name }) => name));
  for (const name of (await readdir(folder)).sort())
    if (!/^[._]/.test(name) && name !== CARD_NAME && !known.has(name))
      yield { file: join(folder, name), text: `is not in ${mergedPath(folder)}` };
  let total = 0;
  for (const { name, traces, sha256 } of record.files) {
    const file = join(folder, name);
    total += traces;
    const changed = await hashFindings(file, sha256);
    yield* changed;
    if (changed.length > 0) continue;
    const opened = await openChecked(file, record.output);
    if ('text' in opened) {
      yield opened;
      continue;
    }
    if (record.output !== 'jsonl' && opened.metadata.get(RUN_KEY) !== record.run)
      yield { file, text: `is of another run than ${mergedPath(folder)}` };
    let found = 0;
    for await (const each of rowFindings(file, opened.rows, checks)) {
      if (!('text' in each)) found++;
      yield 'text' in each ? each : null;
    }
    if (found !== traces) yield { file, text: `holds ${plural(found, 'trace')}, its record says ${traces}` };
  }
  if (total !== record.traces)
    yield {
      file: mergedPath(folder),
      text: `counts ${plural(record.traces, 'trace')}, its files ${total} together`,
    };
}

/** A file against the hash that something says of it; null: there is to be none. @param told what of that is said */
export async function hashFindings(
  file: string,
  expected: string | null,
  { missing = 'is missing', unknown = 'is there, its record knows of none' } = {},
): Promise<Finding[]> {
  const found = await sha256OfFile(file);
  if (found === expected) return [];
  if (found === null) return [{ file, text: missing }];
  return [{ file, text: expected === null ? unknown : 'has changed since it was written' }];
}
