// Checks a recorded chunk: its bytes, its rows, and whether every input row is accounted for.

import { createReadStream } from 'node:fs';
import { shardOf } from '../io/files/chunks.js';
import { runPaths } from '../io/files/run-paths.js';
import { readJsonRows } from '../io/read/jsonl.js';
import { CONFIG_KEY, POLICY_KEY, RUN_KEY, VERSION_KEY } from '../io/write/output.js';
import { are, plural } from '../plural.js';
import { type RunDescription, rowsPerTrace } from '../run/description.js';
import type { ChunkRecord } from '../run/records.js';
import { hashFindings } from './check-file.js';
import { type Finding, openChecked, type RowChecks, rowFindings } from './check-rows.js';
import type { Cells } from './stored-rows.js';

/** A row of the inputs, read again. */
export interface RereadRow {
  readonly file: string;
  readonly row: number;
  /** a row that cannot be read or mapped is one reject */
  readonly traces: number;
  /** those that could be mapped, in their order */
  readonly expected: readonly ExpectedTrace[];
}

/** What a row of the output has to say of its trace. */
export interface ExpectedTrace {
  readonly id: string;
  readonly group: string | null;
  /** as float32, by `--reward-range`; null where the input has none */
  readonly reward: number | null;
  /** code points of the completion; null where the input has ids alone */
  readonly characters: number | null;
}

export interface ChunkCheck extends RowChecks {
  readonly folder: string;
  readonly description: RunDescription;
}

/** Rejected traces of an input row. */
interface RowRejects {
  count: number;
  isWholeRow: boolean;
}

/** Checks a chunk against its record and the inputs. @param inputs its rows there; undefined where they cannot be read again */
export async function* chunkFindings(
  { folder, description, ...checks }: ChunkCheck,
  record: ChunkRecord,
  inputs: readonly RereadRow[] | undefined,
): AsyncGenerator<Finding> {
  const paths = runPaths(folder);
  const { output: format, shards } = description;
  const shard = shardOf(record.chunk, shards);
  const file = paths.chunk(shard, record.chunk, format);
  const rejectsFile = paths.reject(shard, record.chunk);
  const unknown = 'is there, its record knows of no rejects';
  const changed = [
    ...(await hashFindings(file, record.sha256)),
    ...(await hashFindings(rejectsFile, record.rejects_sha256, { unknown })),
  ];
  yield* changed;
  // what else is wrong with other bytes follows from that
  if (changed.length > 0) return;

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
  yield* advance();
  const opened = await openChecked(file, format);
  if ('text' in opened) return yield opened;
  if (format !== 'jsonl') yield* metadataFindings(file, opened.metadata, description);
  for await (const found of rowFindings(file, opened.rows, checks)) {
    if ('text' in found) {
      yield found;
      continue;
    }
    const { row, sourceRow, ours } = found;
    traces++;
    tokens = tokens === null || found.tokens === null ? null : tokens + found.tokens;
    left--;
    const place = expected.done ? undefined : expected.value;
    if (place?.row !== undefined && sourceRow !== null && sourceRow !== place.row)
      yield { file, row, text: `source_row is ${sourceRow}, expected ${place.row} of ${place.file}` };
    const from = ours?.source_file ?? null;
    if (place?.file !== undefined && from !== null && from !== place.file)
      yield {
        file,
        row,
        text: `source_file is ${JSON.stringify(from)}, expected ${JSON.stringify(place.file)}`,
      };
    if (place?.expected !== undefined && ours !== null)
      for (const text of traceFaults(ours, place.expected)) yield { file, row, text };
    yield* advance();
  }
  if (traces !== record.traces)
    yield { file, text: `holds ${plural(traces, 'trace')}, its record says ${record.traces}` };
  if (tokens !== null && tokens !== record.tokens)
    yield { file, text: `holds ${plural(tokens, 'completion token')}, its record says ${record.tokens}` };
}

/** An input row of a chunk as the record has it. */
interface RecordedRow {
  /** where it stands, as far as that is known */
  readonly file: string | undefined;
  readonly row: number | undefined;
  /** in the chunk */
  readonly traces: number;
  readonly expected?: readonly ExpectedTrace[] | undefined;
  readonly problem?: string;
}

/** What a chunk's metadata have to say of the run. */
function* metadataFindings(
  file: string,
  metadata: ReadonlyMap<string, string>,
  { run, rredcot, config, policy }: RunDescription,
): Generator<Finding> {
  if (metadata.get(RUN_KEY) !== run) {
    yield { file, text: 'is of another run than run.json' };
    return;
  }
  const expected: readonly (readonly [string, string | undefined])[] = [
    [VERSION_KEY, rredcot],
    [CONFIG_KEY, JSON.stringify(config)],
    [POLICY_KEY, policy === null ? undefined : JSON.stringify(policy)],
  ];
  for (const [key, value] of expected)
    if (metadata.get(key) !== value) yield { file, text: `its metadata have another ${key} than run.json` };
}

function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}

/** How a row differs from the trace in the input. */
function traceFaults(row: Cells, expected: readonly ExpectedTrace[]): string[] {
  const { id, group, reward, segments } = row;
  if (!('id' in row)) return [];
  const trace = expected.find((each) => each.id === id);
  if (trace === undefined)
    return [`id is ${shown(id)}, the input row has ${expected.map((each) => shown(each.id)).join(', ')}`];
  const faults: string[] = [];
  const differs = (name: string, found: unknown, wanted: unknown): void => {
    if (name in row && found !== wanted)
      faults.push(`${name} is ${shown(found)}, in the input it is ${shown(wanted)}`);
  };
  differs('group', group, trace.group);
  if (trace.reward !== null)
    differs('reward', typeof reward === 'number' ? Math.fround(reward) : reward, trace.reward);
  const end = Array.isArray(segments) ? segments.at(-1)?.char_end : undefined;
  if (trace.characters !== null && typeof end === 'number' && end > trace.characters)
    faults.push(`segments end at character ${end} of ${trace.characters}`);
  return faults;
}

/** The input rows that a chunk's record stands for, in order, each held against the inputs. */
function* recordedRows(
  run: RunDescription,
  { chunk, rows, traces_per_row: counts }: ChunkRecord,
  rejects: ReadonlyMap<string, RowRejects>,
  inputs: readonly RereadRow[] | undefined,
): Generator<RecordedRow> {
  const { inputs: files, rows_per_chunk: rowsPerChunk } = run;
  const perTrace = rowsPerTrace(run);
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
      known.isWholeRow && traces === 0 ? 1 : (reread?.traces ?? Math.max(1, traces / perTrace + known.count));
    const problem =
      traces / perTrace + known.count === wanted
        ? {}
        : {
            problem: `input row ${file}:${row} has ${plural(wanted, 'trace')}, ${traces} ${are(traces)} in the output and ${known.count} in the rejects`,
          };
    yield { file, row, traces, expected: reread?.expected, ...problem };
  }
}

function placeKey(file: string, row: number): string {
  return `${row}:${file}`;
}

/** a raw line of the largest `--max-line-bytes`, escaped */
const MAX_REJECT_BYTES = 500_000_000;

/** Reasons of a reader that reading again with other limits does not give. */
const READER_CODES: readonly string[] = ['line_too_long', 'column_type'];

/**
 * Reads of each line of a rejects file the input as it was named then, the row in it, and whether that was turned down before it
 * was mapped: then the line stands for all of its traces.
 * @throws Error naming the line that is none of ours
 */
async function* readRejects(path: string) {
  const bytes = createReadStream(path, { highWaterMark: 2 ** 20 }) as AsyncIterable<Buffer>;
  for await (const line of readJsonRows(bytes, { file: path, stem: '', maxLineBytes: MAX_REJECT_BYTES })) {
    if (line.kind === 'bad') throw new Error(`row ${line.row}: ${line.rejection.reason}`);
    const { file, row, code } = line.columns;
    if (typeof file !== 'string' || typeof row !== 'number')
      throw new Error(`row ${line.row}: names no file and row of the input`);
    yield { file, row, isWholeRow: READER_CODES.includes(String(code)) };
  }
}
