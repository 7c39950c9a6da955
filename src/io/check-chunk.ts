// A recorded chunk in, what is wrong with it out: its bytes, its rows, and whether every input row is accounted for.

import { are, plural } from '../plural.js';
import { type CheckedRow, checkRow } from './check-row.js';
import type { ChunkReader } from './chunk-reader.js';
import type { OutputFormat } from './output.js';
import type { RunDescription } from './run-description.js';
import { type ChunkRecord, runPaths, sha256OfFile } from './run-folder.js';
import { firstOrdinal, type Shard } from './shard.js';
import { readRejects } from './stored-rejects.js';
import { openRows, type StoredRow, withOurs } from './stored-rows.js';

/** Something that is not as it should be. */
export interface Finding {
  readonly file: string;
  /** 0-based row of that file; undefined where the file as a whole is meant */
  readonly row?: number;
  readonly text: string;
}

/** Where a row of the inputs stands. */
export interface Place {
  readonly file: string;
  readonly row: number;
}

/** The rows of all inputs, in order. */
export interface InputRows {
  /** traces of each row; a row that cannot be read or mapped is one reject */
  readonly traces: Uint32Array; // (rows)
  place(ordinal: number): Place;
}

export interface ChunkCheck {
  readonly folder: string;
  readonly description: RunDescription;
  readonly format: OutputFormat;
  /** undefined where the inputs cannot be read again */
  readonly inputs: InputRows | undefined;
  readonly parquet: ChunkReader;
}

/** Rejected traces of an input row. */
interface RowRejects {
  count: number;
  isWholeRow: boolean;
}

/** Checks a chunk against its record and the inputs. */
export async function* chunkFindings(
  check: ChunkCheck,
  shard: Shard,
  record: ChunkRecord,
): AsyncGenerator<Finding> {
  const { folder, description, format, parquet } = check;
  const paths = runPaths(folder);
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

  const walk = inputRows(check, shard, record, rejects);
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
function* inputRows(
  { description, inputs }: ChunkCheck,
  shard: Shard,
  record: ChunkRecord,
  rejects: ReadonlyMap<string, RowRejects>,
): Generator<RecordedRow> {
  const files = description.inputs;
  const layout = { shard, rowsPerChunk: description.rows_per_chunk };
  const first = firstOrdinal(record.chunk, layout);
  const counts = record.traces_per_row;
  for (let k = 0; k < record.rows; k++) {
    const ordinal = first + k * shard.count;
    const traces = counts === null ? 1 : (counts[k] ?? 0);
    const place = placeOf(ordinal, files, inputs);
    if (place === undefined) {
      yield { file: undefined, row: undefined, traces };
      continue;
    }
    const { file, row } = place;
    const known = rejects.get(placeKey(file, row)) ?? { count: 0, isWholeRow: false };
    // without the inputs all that can be said is that no row may vanish
    const wanted =
      known.isWholeRow && traces === 0 ? 1 : (inputs?.traces[ordinal] ?? Math.max(1, traces + known.count));
    const problem =
      traces + known.count === wanted
        ? {}
        : {
            problem: `input row ${file}:${row} has ${plural(wanted, 'trace')}, ${traces} ${are(traces)} in the output and ${known.count} in the rejects`,
          };
    yield { file, row, traces, ...problem };
  }
}

/** Where an input row stands; undefined where nobody knows how many rows the files before it have. */
function placeOf(
  ordinal: number,
  files: RunDescription['inputs'],
  inputs: InputRows | undefined,
): Place | undefined {
  if (inputs !== undefined) return inputs.place(ordinal);
  const [only] = files;
  return files.length === 1 && only !== undefined ? { file: only.path, row: ordinal } : undefined;
}

function placeKey(file: string, row: number): string {
  return `${row}:${file}`;
}

function changeText(found: string | null, expected: string | null): string {
  if (found === null) return 'is missing';
  return expected === null ? 'is there, its record knows of no rejects' : 'has changed since it was written';
}
