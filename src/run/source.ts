// Streams a command's inputs as traces: mapped, checked, and only those that the run has still to do.

import { describeType, findMisfit, inferColumns, type PassThroughColumn } from '../io/arrow/schema.js';
import type { ColumnarColumns } from '../io/arrow/types.js';
import { rowTraces } from '../io/map/map.js';
import type { Input } from '../io/read/inputs.js';
import { describeValue } from '../printable.js';
import type { Log } from '../report/log.js';
import type { Expected } from '../report/progress.js';
import { type BadRow, type InputRow, isBad, rejectRow } from '../rows.js';
import type { Trace } from '../trace.js';
import type { Mapping } from './mapping.js';
import type { JobOptions, Work } from './options.js';
import { assertFits, type Prescan } from './prescan.js';

/** What of a run is known where its traces are made. */
export interface RunContext {
  /** undefined of a stream, and where nobody needs it */
  readonly prescan: Prescan | undefined;
  readonly rowsPerPart: number;
  /** that share it */
  readonly shards: number;
  /** where the run lies, on this machine */
  readonly folder: string | undefined;
  /** whether an input row is of a part that this process has still to make */
  wanted(ordinal: number): boolean;
}

export interface SourceOptions
  extends Pick<Mapping, 'map' | 'read'>,
    Pick<Work, 'needs' | 'reward' | 'rowsPerTrace'>,
    Pick<JobOptions, 'limit' | 'maxLineBytes'> {
  readonly run: RunContext;
  /** traces, rejects among them, that earlier attempts have done */
  readonly done: number;
  /** whether the output has column types, which must be known before the first row is written */
  readonly typed: boolean;
  /** columns of columnar inputs, which bring their types along */
  readonly columnar: ColumnarColumns | null;
  /** asked at the end: throws where an input is no longer what it was when the run began */
  readonly assertUnchanged: () => Promise<void>;
  readonly log: Log;
}

/** In so many steps the done part of the inputs is told. */
const SHARES = 1000;

/** A trace as the first stage takes it. */
interface Traced {
  readonly trace: Trace;
}

/** A command's inputs. */
export interface Source {
  readonly columns: readonly PassThroughColumn[];
  readonly expected: Expected;
  /** what the run has still to do, in input order: traces, and bad rows in their places */
  traces(): AsyncGenerator<Traced | BadRow>;
  /** Reads traces once more, whatever of them is done; of files alone. @param wanted asked for every row in order */
  again(wanted: (ordinal: number) => boolean): AsyncGenerator<Traced | BadRow>;
}

/** Opens inputs, behind the first pass over them where they can be read twice. */
export async function openSource(inputs: readonly Input[], opts: SourceOptions): Promise<Source> {
  const { maxLineBytes, run, read, map, needs, columnar, log } = opts;
  const { done } = opts;
  const { prescan, wanted } = run;
  const isStream = inputs.some(({ size }) => size === null);
  const typed = opts.typed && columnar === null;
  // read of the inputs, done, and passed over since an earlier attempt has done it
  let [bytes, upTo, skipped] = [0, 0, 0];
  // how much of the inputs there is up to each row that is under way: windows of them are read ahead
  const underWay: { readonly ordinal: number; readonly bytes: number }[] = [];
  let noted = 0;
  const onBytes = (count: number): void => {
    bytes += count;
  };
  const size = inputs.reduce((sum, input) => sum + (input.size ?? 0), 0);
  const all = read({ maxLineBytes, wanted, onBytes });
  const window = isStream ? await inferFromWindow(all, typed) : undefined;
  const rows: AsyncIterable<InputRow | BadRow> = window?.rows ?? all;
  const columns = columnar?.columns ?? (typed ? prescan?.columns : undefined) ?? window?.columns ?? [];
  const check = (row: InputRow): void => {
    if (typed && prescan !== undefined) assertFits(row, prescan.columns);
  };
  return {
    columns,
    expected: {
      traces: expectedTraces(prescan, opts, done),
      share(ordinal) {
        while ((underWay[0]?.ordinal ?? Number.POSITIVE_INFINITY) <= ordinal)
          upTo = underWay.shift()?.bytes ?? upTo;
        return isStream || opts.limit !== undefined
          ? undefined
          : Math.min(1, (upTo - skipped) / Math.max(1, size - skipped));
      },
    },
    async *traces() {
      const { limit = Number.POSITIVE_INFINITY } = opts;
      const { lastRow = Number.POSITIVE_INFINITY, lastItems } = prescan ?? {};
      let taken = 0;
      let isFirst = true;
      let group: string | undefined;
      for await (const row of rows) {
        if (isFirst && done > 0) skipped = bytes;
        isFirst = false;
        if (bytes - noted >= size / SHARES) {
          noted = bytes;
          underWay.push({ ordinal: row.ordinal, bytes });
        }
        if (isBad(row) && row.rejection.code === 'truncated')
          log.warn(
            'input_truncated',
            `${row.file}: ${row.rejection.reason}; nothing after row ${row.row} was read`,
          );
        // earlier attempts may have taken some: where the limit ends is known from the first pass
        let left = row.ordinal === lastRow ? lastItems : prescan === undefined ? limit - taken : undefined;
        for (const trace of rowTraces(row, map, needs, check)) {
          if (!isBad(trace)) ({ group } = trace);
          yield isBad(trace) ? trace : { trace };
          taken++;
          if (left !== undefined && --left <= 0) break;
        }
        if (taken >= limit || row.ordinal === lastRow) break;
      }
      if (isStream && taken >= limit && opts.reward !== undefined && group !== undefined)
        log.warn(
          'part_input',
          `--limit ${limit} may have cut the last group, ${JSON.stringify(group)}: what follows of it, such as its mean reward, is of its traces that were read; a file is seen as a whole`,
        );
      await opts.assertUnchanged();
    },
    async *again(wantedAgain) {
      for await (const row of read({ maxLineBytes, wanted: wantedAgain }))
        for (const trace of rowTraces(row, map, needs, check)) yield isBad(trace) ? trace : { trace };
    },
  };
}

/** Traces that are still to come, as far as anybody can tell. */
function expectedTraces(
  prescan: Prescan | undefined,
  { limit, run, rowsPerTrace = 1 }: SourceOptions,
  done: number,
): number | undefined {
  if (typeof prescan?.traces !== 'number') return undefined;
  const own = Math.ceil((prescan.traces + (prescan.rejects ?? 0)) / run.shards);
  return rowsPerTrace * Math.max(0, Math.min(own, limit ?? Number.POSITIVE_INFINITY) - done);
}

const FIRST_ROWS = 1024;
const FIRST_BYTES = 16 * 2 ** 20;

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
  while (window.length < FIRST_ROWS && bytes < FIRST_BYTES) {
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

function fitted(row: InputRow, columns: readonly PassThroughColumn[]): InputRow | BadRow {
  const turnedDown = (why: string) =>
    rejectRow(row, { code: 'column_type', reason: `column ${why}: read a file instead of stdin` });
  const misfit = findMisfit(row.columns, columns);
  if (misfit !== null)
    return turnedDown(`${misfit.path} is ${misfit.found}, the first rows had ${misfit.expected}`);
  const known = new Set(columns.map(({ name }) => name));
  const unknown = Object.keys(row.columns).find((name) => !known.has(name) && row.columns[name] !== null);
  if (unknown === undefined) return row;
  const types = columns.map(({ name, type }) => `${name}: ${describeType(type)}`).join(', ');
  const found = describeValue(row.columns[unknown]);
  return turnedDown(`${unknown} is ${found}, the first rows had no such column (${types.slice(0, 200)})`);
}
