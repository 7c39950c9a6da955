// The first light pass over the inputs: row counts, column types, the rewards of each group.

import { EXIT, RredcotError } from '../errors.js';
import type { BankDump } from '../estimate/bank.js';
import type { Trace } from '../trace.js';
import { describeValue } from './describe.js';
import { type Input, type ReadOptions, readRows } from './inputs.js';
import { readJson, writeJson } from './json-file.js';
import { type FieldMap, mapRow, type Needs } from './map.js';
import { type BadRow, type InputRow, rejectRow } from './rows.js';
import { describeType, findMisfit, inferColumns, type PassThroughColumn } from './schema.js';

/** What the whole of the inputs holds. */
export interface Survey {
  /** all rows, the bad ones too */
  readonly rows: number;
  /** traces that mapped */
  readonly traces: number;
  readonly bytes: number;
  /** columns of the rows that hold a trace, in the order first seen */
  readonly columns: PassThroughColumn[];
  /** known rewards of each group */
  readonly groupRewards: Map<string, GroupRewards>;
  /** answers of each group's correct completions, where the run takes its references from them */
  readonly banks?: BankDump;
}

interface GroupRewards {
  readonly sum: number;
  readonly count: number;
}

export interface SurveyOptions extends Omit<ReadOptions, 'onBytes'> {
  readonly map: FieldMap;
  readonly needs: Needs;
  /** the reward that counts, null where unknown */
  readonly reward: (trace: Trace) => number | null;
  /** whether the columns' types are wanted */
  readonly typed: boolean;
  /** stop after so many traces: for a job that takes no more of them, and needs no group in full */
  readonly limit?: number | undefined;
  /** told of the bytes read so far, after each chunk */
  readonly onProgress?: (bytes: number) => void;
}

/** Reads files once from end to end; stdin cannot be read twice, see `inferFromWindow`. */
export async function surveyInputs(inputs: readonly Input[], opts: SurveyOptions): Promise<Survey> {
  const inference = inferColumns();
  const groupRewards: Survey['groupRewards'] = new Map();
  let rows = 0;
  let traces = 0;
  let bytes = 0;
  const onBytes = (count: number): void => {
    bytes += count;
    opts.onProgress?.(bytes);
  };
  for await (const row of readRows(inputs, { maxLineBytes: opts.maxLineBytes, onBytes })) {
    rows++;
    if (row.kind === 'bad') continue;
    let hasTrace = false;
    for (const trace of mapRow(row, opts.map, opts.needs)) {
      if ('kind' in trace) continue;
      hasTrace = true;
      traces++;
      const reward = trace.group === undefined ? null : opts.reward(trace);
      if (trace.group === undefined || reward === null) continue;
      const group = groupRewards.get(trace.group) ?? { sum: 0, count: 0 };
      groupRewards.set(trace.group, { sum: group.sum + reward, count: group.count + 1 });
    }
    // a row that is set aside is not written, so it has no say in the columns
    if (hasTrace && opts.typed) inference.add(row.columns);
    if (traces >= (opts.limit ?? Number.POSITIVE_INFINITY)) break;
  }
  return { rows, traces, bytes, columns: inference.finish(), groupRewards };
}

/** Keeps a survey for the other processes of a run, and for the next attempt. */
export function writeSurvey(path: string, survey: Survey): Promise<void> {
  return writeJson(path, { ...survey, groupRewards: [...survey.groupRewards] });
}

/** undefined where there is none, or none that can be read: it is made again. */
export async function readSurvey(path: string): Promise<Survey | undefined> {
  const found = await readJson<Omit<Survey, 'groupRewards'> & { groupRewards: [string, GroupRewards][] }>(
    path,
  );
  return found && { ...found, groupRewards: new Map(found.groupRewards) };
}

const WINDOW_ROWS = 1024;
const WINDOW_BYTES = 16 * 2 ** 20;

/**
 * Infers the columns of a stream that can be read only once from its first rows (1,024, or 16 MiB of them),
 * then hands on all rows. A later row that does not fit comes out as a `BadRow` with code `column_type`.
 * @param typed whether the output has types; where it has none there is nothing to infer, and rows of any kind fit
 */
export async function inferFromWindow(
  rows: AsyncGenerator<InputRow | BadRow>,
  typed: boolean,
): Promise<{ columns: PassThroughColumn[]; rows: AsyncGenerator<InputRow | BadRow> }> {
  if (!typed) return { columns: [], rows };
  const inference = inferColumns();
  const window: (InputRow | BadRow)[] = [];
  let bytes = 0;
  while (window.length < WINDOW_ROWS && bytes < WINDOW_BYTES) {
    const next = await rows.next();
    if (next.done) break;
    window.push(next.value);
    bytes += next.value.raw.length;
    if (next.value.kind === 'row') inference.add(next.value.columns);
  }
  const columns = inference.finish();

  async function* all(): AsyncGenerator<InputRow | BadRow> {
    try {
      yield* window.splice(0);
      for await (const row of rows) yield row.kind === 'row' ? fitted(row, columns) : row;
    } finally {
      await rows.return(undefined);
    }
  }
  return { columns, rows: all() };
}

/** @throws RredcotError for a value that another one was at the survey */
export function assertFits(row: InputRow, columns: readonly PassThroughColumn[]): void {
  const misfit = findMisfit(row.columns, columns);
  if (misfit === null) return;
  throw new RredcotError(
    `${row.file}:${row.row}: column ${misfit.path} is ${misfit.found}, expected ${misfit.expected}`,
    { exitCode: EXIT.data, hint: 'it was that when first read: did the file change?' },
  );
}

function fitted(row: InputRow, columns: readonly PassThroughColumn[]): InputRow | BadRow {
  const misfit = findMisfit(row.columns, columns);
  if (misfit !== null) {
    return rejectRow(row, {
      code: 'column_type',
      reason: `column ${misfit.path} is ${misfit.found}, the first rows had ${misfit.expected}: read a file instead of stdin`,
    });
  }
  const known = new Set(columns.map(({ name }) => name));
  const unknown = Object.keys(row.columns).find((name) => !known.has(name) && row.columns[name] !== null);
  if (unknown === undefined) return row;
  const types = columns.map(({ name, type }) => `${name}: ${describeType(type)}`).join(', ');
  return rejectRow(row, {
    code: 'column_type',
    reason: `column ${unknown} is ${describeValue(row.columns[unknown])}, the first rows had no such column (${types.slice(0, 200)}): read a file instead of stdin`,
  });
}
