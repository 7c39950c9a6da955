// Checks files of rows: one by itself, by its own hash and the summary beside it; those of a merged folder, by its record; and a run's records by each other, `_SUCCESS` and the card, with files of no record.
import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { chunkCount, ownChunks } from '../io/files/chunks.js';
import { sha256OfFile } from '../io/files/file-bytes.js';
import { readJson, textOf } from '../io/files/json-file.js';
import { CARD_NAME, chunkNumber, rejectsPath, runPaths } from '../io/files/run-paths.js';
import { EXPORT_FORMS, EXPORTS, type ExportName } from '../io/write/exports.js';
import { INPUTS_KEY, type OutputFormat, RUN_KEY, VOCAB_KEY } from '../io/write/output.js';
import { plural } from '../plural.js';
import { type ShardRecord, sumCounts } from '../run/records.js';
import type { RunState } from '../run/state.js';
import { runEnd, successOf } from '../run/success.js';
import { type MergedRecord, mergedPath, surveyFault } from '../run/summary-file.js';
import { bytesFault, ownSummary } from './as-written.js';
import { type Finding, openChecked, type RowChecks, rowFindings } from './check-rows.js';
import { type Cells, type StoredFile, storedConfig } from './stored-rows.js';

/** What a file says of itself before its rows are read. */
export interface StoredFacts {
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
  /** nothing says what its bytes were */
  readonly isUnsealed: boolean;
  /** what of it cannot be checked, and why */
  readonly problem: string | undefined;
}

/** Checks a file; null after every trace that is there. @param checksOf may throw for a file that cannot be checked */
export async function* fileFindings(
  file: string,
  format: OutputFormat,
  checksOf: (facts: StoredFacts) => RowChecks,
): AsyncGenerator<Finding | null> {
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
  const checks = checksOf({
    ...{ columns, export: columns && exportOf(columns), config, isUnsealed: fault === undefined, problem },
    chosen: (config as { columns?: readonly string[] }).columns,
    vocab: numberOf(metadata.get(VOCAB_KEY)),
    inputs: numberOf(metadata.get(INPUTS_KEY)),
  });
  yield* countedFindings(file, rows, checks, summary?.traces, 'summary');
  if (summary !== undefined)
    yield* await hashFindings(rejectsPath(file), summary.rejects_sha256, {
      missing: `is missing, with ${plural(summary.rejects, 'reject')}`,
      unknown: 'is there, though no trace was rejected',
    });
}

/** What a file's rows say; null after each. @param expected how many there are by what is called `by` */
async function* countedFindings(
  file: string,
  rows: StoredFile['rows'],
  checks: RowChecks,
  expected: number | undefined,
  by: 'record' | 'summary',
): AsyncGenerator<Finding | null> {
  let traces = 0;
  for await (const found of rowFindings(file, rows, checks)) {
    if (!('text' in found)) traces++;
    yield 'text' in found ? found : null;
  }
  if (expected !== undefined && traces !== expected)
    yield { file, text: `holds ${plural(traces, 'trace')}, its ${by} says ${expected}` };
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

/** The export whose columns a file has in place of ours; undefined where it has ours. */
function exportOf(columns: readonly string[]): ExportName | undefined {
  if (columns.includes('status') || columns.includes('sigma')) return undefined;
  return EXPORTS.find((form) => EXPORT_FORMS[form].columns.every(({ name }) => columns.includes(name)));
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
    yield* countedFindings(file, opened.rows, checks, traces, 'record');
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

/** What the records of shards say of their chunks, and the files that no record knows. */
export async function* recordFindings(state: RunState): AsyncGenerator<Finding> {
  const { folder, description, shards, rows } = state;
  const paths = runPaths(folder);
  const fault = await surveyFault(paths.survey, description.run);
  if (fault !== undefined) yield { file: paths.survey, text: fault };
  for (const { shard } of shards) {
    const file = paths.done(shard);
    const done = await readJson<ShardRecord>(file);
    if (done === undefined || !Array.isArray(done.chunks)) continue;
    const sum = sumCounts(done.chunks);
    for (const field of ['rows', 'traces', 'rejects', 'tokens'] as const)
      if (done[field] !== sum[field])
        yield {
          file,
          text: `counts ${plural(done[field], field.slice(0, -1))}, its chunks ${sum[field]} together`,
        };
    for (const own of done.chunks) {
      const path = paths.record(shard, own.chunk);
      const record = await readJson(path);
      if (record !== undefined && !isDeepStrictEqual(record, own))
        yield { file: path, text: `is not what ${basename(file)} says of the chunk` };
    }
    const chunks = rows === null ? undefined : chunkCount(rows, description.rows_per_chunk);
    const expected = chunks === undefined ? done.chunks.length : ownChunks(chunks, shard);
    const known = new Set(done.chunks.map(({ chunk }) => chunk));
    for (let k = 0, chunk = shard.index; k < expected; k++, chunk += shard.count)
      if (!known.has(chunk)) yield { file, text: `knows no chunk ${chunk}` };
    const names = { [paths.chunks(shard)]: description.output, [paths.rejects(shard)]: 'jsonl' };
    for (const [at, extension] of Object.entries(names))
      for (const name of (await readdir(at).catch((): string[] => [])).sort())
        if (!name.startsWith('.') && !(name.endsWith(`.${extension}`) && known.has(chunkNumber(name))))
          yield { file: join(at, name), text: 'is in no record, though its shard is done' };
  }
  yield* endFindings(state);
}

/** `_SUCCESS` and the dataset card against the records. */
async function* endFindings({ folder, description, shards, hasSuccess }: RunState): AsyncGenerator<Finding> {
  const { success, card } = runPaths(folder);
  const isDone = shards.every((shard) => shard.isDone);
  if (hasSuccess && !isDone) yield { file: success, text: 'is there, though not every shard is done' };
  if (isDone && !hasSuccess) yield { file: success, text: 'is missing, though every shard is done' };
  if (!hasSuccess || !isDone) return;
  if (!isDeepStrictEqual(await readJson(success), successOf(description)))
    yield { file: success, text: 'is not that of the run in run.json' };
  const end = await runEnd(folder, description);
  const text = await textOf(card);
  if (end?.card !== undefined && text !== end.card)
    yield {
      file: card,
      text: text === undefined ? 'is missing' : "is not the card that the run's records make",
    };
}
