// Checks a file of rows by itself: its bytes against its own hash, then its rows.

import { sealFault } from '../files/seal.js';
import { readSum } from '../files/sum-file.js';
import type { ChunkReader } from '../parquet/chunk-reader.js';
import { EXPORT_FORMS, EXPORTS, type ExportName } from '../write/exports.js';
import { INPUTS_KEY, type OutputFormat, RUN_KEY, VOCAB_KEY } from '../write/output.js';
import { ownSummary, sumFault, summaryFindings } from './check-beside.js';
import { type RowChecks, rowFindings } from './check-rows.js';
import type { Finding } from './finding.js';
import { openRows, storedConfig } from './stored-rows.js';

/** What a file says of itself before its rows are read. */
export interface FileFacts {
  /** undefined where it has no row and no columns */
  readonly columns: readonly string[] | undefined;
  /** the export whose columns it has in place of ours */
  readonly export: ExportName | undefined;
  readonly chosen: readonly string[] | undefined;
  /** empty where it tells none */
  readonly config: Readonly<Record<string, unknown>>;
  readonly vocab: number | undefined;
  /** files that its rows come from */
  readonly inputs: number | undefined;
}

export interface FileCheck {
  readonly path: string;
  readonly format: OutputFormat;
  readonly parquet: ChunkReader;
  /** How the rows are checked. @throws RredcotError for a file that cannot be */
  readonly checksOf: (facts: FileFacts) => RowChecks;
  /** told where nothing says what the file's bytes were */
  readonly onUnsealed: () => void;
  /** told what of the file cannot be checked, and why */
  readonly onProblem: (problem: string) => void;
}

/** Checks a file; null after every trace that is there. Errors of a file that cannot be read are thrown as they come. */
export async function* fileFindings(check: FileCheck): AsyncGenerator<Finding | null> {
  const { path: file, format, parquet } = check;
  const sum = format === 'jsonl' ? await readSum(file) : undefined;
  const fault = format === 'jsonl' ? await sumFault(file, sum) : await sealFault(file);
  // its rows are looked at all the same: they may show where
  if (typeof fault === 'string') yield { file, text: fault };
  const { columns, chosen, metadata, rows } = await openRows(file, format, parquet);
  const isOurs = [...metadata.keys()].some((key) => key.startsWith('rredcot.'));
  if (fault === undefined && isOurs) yield { file, text: 'has lost the hash of its bytes' };
  const { summary, findings, problem } = await ownSummary(file, metadata.get(RUN_KEY), sum);
  yield* findings;
  const config = format === 'jsonl' ? (summary?.config ?? {}) : storedConfig(metadata);
  const checks = check.checksOf({
    ...{ columns, export: columns && exportOf(columns), config },
    chosen: chosen ?? (config as { columns?: readonly string[] }).columns,
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
