// A recorded chunk in, what is wrong with it out: its bytes, its rows, and whether every input row is accounted for.

import { are, plural } from '../../plural.js';
import { shardOf } from '../layout/chunks.js';
import { runPaths } from '../layout/run-paths.js';
import type { ChunkReader } from '../parquet/chunk-reader.js';
import type { RunDescription } from '../run/description.js';
import { type ChunkRecord, sha256OfFile } from '../run/records.js';
import type { OutputFormat } from '../write/output.js';
import { type CheckedRow, checkRow } from './check-row.js';
import { readRejects } from './stored-rejects.js';
import { openRows, type StoredRow, withOurs } from './stored-rows.js';

/** Something that is not as it should be. */
export interface Finding {
  readonly file: string;
  /** 0-based row of that file; undefined where the file as a whole is meant */
  readonly row?: number;
  readonly text: string;
}

/** A row of the inputs, read again. */
export interface RereadRow {
  readonly file: string;
  readonly row: number;
  /** a row that cannot be read or mapped is one reject */
  readonly traces: number;
}

export interface ChunkCheck {
  readonly folder: string;
  readonly description: RunDescription;
  readonly format: OutputFormat;
  readonly parquet: ChunkReader;
}

/** Rejected traces of an input row. */
interface RowRejects {
  count: number;
  isWholeRow: boolean;
}

/** Checks a chunk against its record and the inputs. @param inputs its rows there; undefined where they cannot be read again */
export async function* chunkFindings(
  { folder, description, format, parquet }: ChunkCheck,
  record: ChunkRecord,
  inputs: readonly RereadRow[] | undefined,
): AsyncGenerator<Finding> {
  const paths = runPaths(folder);
  const shard = shardOf(record.chunk, description.shards);
  const file = paths.chunk(shard, record.chunk, description.output);
  const rejectsFile = paths.reject(shard, record.chunk);
  let isChanged = false;
  for (const [path, expected] of [
    [file, record.sha256],
    [rejectsFile, record.rejects_sha256],
  ] as const) {
    const found = await sha256OfFile(path);
    if (found === expected) continue;
    isChanged = true;
    yield { file: path, text: changeText(found, expected) };
  }
  // what else is wrong with other bytes follows from that
  if (isChanged) return;

  const rejects = new Map<string, RowRejects>();
  let rejected = 0;
  try {
    if (record.rejects_sha256 !== null)
      for await (const { file: from, row, isWholeRow } of readRejects(rejectsFile)) {
        rejected++;
        const known = rejects.get(placeKey(from, row)) ?? { count: 0, isWholeRow };
        known.count++;
        rejects.set(placeKey(from, row), known);
      }
  } catch (error) {
    yield { file: rejectsFile, text: `cannot be read: ${(error as Error).message}` };
    return;
  }
  if (rejected !== record.rejects)
    yield {
      file: rejectsFile,
      text: `holds ${plural(rejected, 'reject')}, its record says ${record.rejects}`,
    };

  if (inputs !== undefined && inputs.length !== record.rows)
    yield {
      file: paths.record(shard, record.chunk),
      text: `counts ${plural(record.rows, 'row')}, the inputs have ${inputs.length} for chunk ${record.chunk}`,
    };
  const walk = recordedRows(description, record, rejects, inputs);
  let traces = 0;
  let tokens: number | null = 0;
  let expected = walk.next();
  let left = expected.done ? 0 : expected.value.traces;
  const advance = function* (): Generator<Finding> {
    while (left === 0 && !expected.done) {
      if (expected.value.problem !== undefined) yield { file, text: expected.value.problem };
      expected = walk.next();
      left = expected.done ? 0 : expected.value.traces;
    }
  };
  try {
    yield* advance();
    const { rows } = await openRows(file, format, parquet);
    const { columns, export: form } = description.config as Chosen;
    // a trainer's form has none of our columns
    for await (const found of rowFindings(file, rows, form === undefined ? columns : null)) {
      if ('text' in found) {
        yield found;
        continue;
      }
      const { row, sourceRow } = found;
      traces++;
      tokens = tokens === null || found.tokens === null ? null : tokens + found.tokens;
      left--;
      const place = expected.done ? undefined : expected.value;
      if (place?.row !== undefined && sourceRow !== null && sourceRow !== place.row)
        yield { file, row, text: `source_row is ${sourceRow}, expected ${place.row} of ${place.file}` };
      yield* advance();
    }
  } catch (error) {
    yield { file, text: `cannot be read: ${(error as Error).message}` };
    return;
  }
  if (traces !== record.traces)
    yield { file, text: `holds ${plural(traces, 'trace')}, its record says ${record.traces}` };
  if (tokens !== null && tokens !== record.tokens)
    yield { file, text: `holds ${plural(tokens, 'completion token')}, its record says ${record.tokens}` };
}

/** What of a run's configuration says which columns are ours. */
interface Chosen {
  readonly columns?: readonly string[];
  readonly export?: string;
}

/** A row that was looked at. */
export type RowSeen = Pick<CheckedRow, 'sourceRow' | 'tokens'> & { readonly row: number };

/**
 * What a file's rows say by themselves, and each row's own account after that.
 * @param chosen of our columns those that were written; undefined: any that is there; null: none, rows are counted
 */
export async function* rowFindings(
  file: string,
  rows: AsyncIterable<StoredRow>,
  chosen: readonly string[] | undefined | null,
): AsyncGenerator<Finding | RowSeen> {
  for await (const row of rows) {
    if (chosen === null) {
      yield { row: row.number, sourceRow: null, tokens: null };
      continue;
    }
    const { faults, tokens, sourceRow, id } = checkRow(withOurs(row, chosen));
    for (const text of faults)
      yield { file, row: row.number, text: id === '' ? text : `(id ${JSON.stringify(id)}) ${text}` };
    yield { row: row.number, sourceRow, tokens };
  }
}

/** An input row of a chunk as the record has it. */
interface RecordedRow {
  /** where it stands, as far as that is known */
  readonly file: string | undefined;
  readonly row: number | undefined;
  /** in the chunk */
  readonly traces: number;
  readonly problem?: string;
}

/** The input rows that a chunk's record stands for, in order, each held against the inputs. */
function* recordedRows(
  { inputs: files, rows_per_chunk: rowsPerChunk }: RunDescription,
  { chunk, rows, traces_per_row: counts }: ChunkRecord,
  rejects: ReadonlyMap<string, RowRejects>,
  inputs: readonly RereadRow[] | undefined,
): Generator<RecordedRow> {
  const [only] = files;
  for (let k = 0; k < rows; k++) {
    const traces = counts === null ? 1 : (counts[k] ?? 0);
    const reread = inputs?.[k];
    // nobody knows how many rows the files before a row have, unless there is none before
    const isKnown = reread !== undefined || (files.length === 1 && only !== undefined);
    if (!isKnown) {
      yield { file: undefined, row: undefined, traces };
      continue;
    }
    const { file, row } = reread ?? { file: only?.path ?? '', row: chunk * rowsPerChunk + k };
    const known = rejects.get(placeKey(file, row)) ?? { count: 0, isWholeRow: false };
    // without the inputs all that can be said is that no row may vanish
    const wanted =
      known.isWholeRow && traces === 0 ? 1 : (reread?.traces ?? Math.max(1, traces + known.count));
    const problem =
      traces + known.count === wanted
        ? {}
        : {
            problem: `input row ${file}:${row} has ${plural(wanted, 'trace')}, ${traces} ${are(traces)} in the output and ${known.count} in the rejects`,
          };
    yield { file, row, traces, ...problem };
  }
}

function placeKey(file: string, row: number): string {
  return `${row}:${file}`;
}

function changeText(found: string | null, expected: string | null): string {
  if (found === null) return 'is missing';
  return expected === null ? 'is there, its record knows of no rejects' : 'has changed since it was written';
}
