// Opens a command's inputs as a stream of traces: checked, surveyed where they can be read twice, mapped.
import { throwIfInterrupted } from '../errors.js';
import { guessColumns } from '../io/guess.js';
import { columnarColumns, type Input, readRows } from '../io/inputs.js';
import { type FieldMap, mapRow, type Needs } from '../io/map.js';
import type { BadRow, InputRow } from '../io/rows.js';
import type { PassThroughColumn } from '../io/schema.js';
import { inferFromWindow, type Survey, surveyInputs } from '../io/survey.js';
import type { Log } from '../report/log.js';
import { count } from '../report/progress.js';
import type { Trace } from '../trace.js';

export interface SourceOptions {
  readonly map: FieldMap;
  readonly needs: Needs;
  /** take so many traces at most, rejected ones counted */
  readonly limit: number | undefined;
  readonly maxLineBytes: number | undefined;
  /** whether the output has column types, which must be known before the first row is written */
  readonly typed: boolean;
  /** guess the types from the first rows, so that files are read once; see `TypesChangedError` */
  readonly guessTypes?: boolean;
  /** the reward that counts, for the groups' means; undefined where nobody needs these */
  readonly reward: ((trace: Trace) => number | null) | undefined;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** A command's inputs. */
export interface Source {
  /** the first light pass; undefined for a stream, which can be read only once */
  readonly survey: Survey | undefined;
  readonly columns: readonly PassThroughColumn[];
  /** traces to come, where a survey has counted them */
  readonly expected: number | undefined;
  /**
   * The traces in input order; bad rows go to `reject`.
   * @throws TypesChangedError where types were guessed and turn out to be others: start again without guessing
   */
  traces(reject: (bad: BadRow) => Promise<void>): AsyncGenerator<Trace>;
}

/** Opens checked inputs. Files are read twice where types or group means are wanted, streams once. */
export async function openSource(inputs: readonly Input[], opts: SourceOptions): Promise<Source> {
  const { maxLineBytes } = opts;
  const isFile = inputs.every((input) => input.size !== null);
  const columnar = opts.typed ? await columnarColumns(inputs) : null;
  for (const warning of columnar?.warnings ?? []) opts.log.warn('column_changed', warning);
  const typed = opts.typed && columnar === null;
  const guess =
    isFile && typed && opts.guessTypes && opts.reward === undefined
      ? await guessColumns(readRows(inputs, { maxLineBytes }), (row) => holdsTrace(row, opts))
      : undefined;
  const survey =
    isFile && guess === undefined && (typed || opts.reward)
      ? await surveyFiles(inputs, { ...opts, typed })
      : undefined;
  const window = isFile ? undefined : await inferFromWindow(readRows(inputs, { maxLineBytes }), typed);
  const columns = columnar?.columns ?? survey?.columns ?? guess?.columns ?? window?.columns ?? [];
  const rows: AsyncIterable<InputRow | BadRow> =
    guess?.rows ?? window?.rows ?? readRows(inputs, { maxLineBytes });
  return {
    survey,
    columns,
    expected: survey && Math.min(survey.traces, opts.limit ?? Number.POSITIVE_INFINITY),
    async *traces(reject) {
      let taken = 0;
      for await (const row of rows) {
        const found = row.kind === 'bad' ? [row] : [...mapRow(row, opts.map, opts.needs)];
        if (row.kind === 'row' && found.some((trace) => !('kind' in trace))) guess?.check(row);
        for (const trace of found) {
          taken++;
          if ('kind' in trace) await reject(trace);
          else yield trace;
          if (taken === opts.limit) return;
        }
      }
    },
  };
}

function holdsTrace(row: InputRow, { map, needs }: SourceOptions): boolean {
  for (const trace of mapRow(row, map, needs)) if (!('kind' in trace)) return true;
  return false;
}

async function surveyFiles(
  inputs: readonly Input[],
  { map, needs, reward, limit, maxLineBytes, typed, log, signal }: SourceOptions,
): Promise<Survey> {
  const total = inputs.reduce((sum, input) => sum + (input.size ?? 0), 0);
  return surveyInputs(inputs, {
    map,
    needs,
    reward: reward ?? (() => null),
    typed,
    limit: reward === undefined ? limit : undefined,
    maxLineBytes,
    onProgress(bytes) {
      throwIfInterrupted(signal);
      log.progress(
        `reading: ${count(Math.round(bytes / 2 ** 20))} of ${count(Math.round(total / 2 ** 20))} MiB`,
        { bytes },
      );
    },
  });
}
