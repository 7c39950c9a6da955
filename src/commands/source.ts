// Opens a command's inputs as a stream of traces: checked, surveyed where they can be read twice, mapped.

import { throwIfInterrupted } from '../errors.js';
import type { GroupBanks } from '../estimate/bank.js';
import { type RowBlock, readBlocks } from '../io/blocks.js';
import { guessColumns } from '../io/guess.js';
import { columnarColumns, type Input } from '../io/inputs.js';
import { type FieldMap, mapRow, type Needs, rowTraces } from '../io/map.js';
import type { ReadRows } from '../io/peek.js';
import { type BadRow, type InputRow, isBad } from '../io/rows.js';
import { runPaths } from '../io/run-folder.js';
import type { PassThroughColumn, Seen } from '../io/schema.js';
import { chunkOf } from '../io/shard.js';
import {
  assertFits,
  inferFromWindow,
  readSurvey,
  type Survey,
  surveyInputs,
  writeSurvey,
} from '../io/survey.js';
import { watchInputs } from '../io/unchanged.js';
import { count } from '../plural.js';
import type { Log } from '../report/log.js';
import type { Ahead } from '../report/progress.js';
import type { Trace } from '../trace.js';
import type { Run } from './run.js';

export interface SourceOptions {
  readonly run: Run;
  /** the inputs' rows; of streams once */
  readonly read: ReadRows;
  readonly map: FieldMap;
  readonly needs: Needs;
  /** take so many traces at most, rejected ones counted */
  readonly limit: number | undefined;
  readonly maxLineBytes: number | undefined;
  /** whether the output has column types, which must be known before the first row is written */
  readonly typed: boolean;
  /** whether the types may come from the first rows: if they change, `traces` throws TypesChangedError, and all begins anew */
  readonly mayGuess?: boolean;
  /** the reward that counts, for the groups' means; undefined where nobody needs these */
  readonly reward: ((trace: Trace) => number | null) | undefined;
  /** filled by the survey, for references from a trace's group */
  readonly banks?: GroupBanks | undefined;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** A command's inputs. */
export interface Source {
  /** the first light pass; undefined for a stream, which can be read only once */
  readonly survey: Survey | undefined;
  readonly columns: readonly PassThroughColumn[];
  readonly ahead: Ahead;
  /** what the first rows had, where the types of `columns` are a guess */
  readonly guessed: Seen | undefined;
  /** what the run has still to do, in input order: traces, and bad rows in their places */
  traces(): AsyncGenerator<Traced | BadRow>;
  /** the same of files of JSON in blocks, unparsed and unchecked; without `limit` */
  blocks(): AsyncGenerator<RowBlock | BadRow>;
  /** told of each of these, in order, when it is done: the share that is done is theirs */
  blockDone(): void;
}

/** A trace as the first stage takes it. */
export interface Traced {
  readonly trace: Trace;
}

/** Opens checked inputs. Files are read twice where types or group means are wanted, streams once. */
export async function openSource(inputs: readonly Input[], opts: SourceOptions): Promise<Source> {
  const { maxLineBytes, run, read } = opts;
  const { wanted } = run;
  const isFile = inputs.every((input) => input.size !== null);
  const assertUnchanged = await watchInputs(inputs);
  // a columnar input brings its types along
  const columnar = opts.typed ? await columnarColumns(inputs) : null;
  for (const warning of columnar?.warnings ?? []) opts.log.warn('column_changed', warning);
  const typed = opts.typed && columnar === null;
  const guess = isFile && typed ? await guessOnce(opts) : undefined;
  const survey =
    isFile && guess === undefined && (typed || opts.reward)
      ? await surveyOnce(inputs, { ...opts, typed }, assertUnchanged)
      : undefined;
  // of the inputs; and how many of them an earlier attempt has done, over which this one only skips
  let [bytes, skipped] = [0, 0];
  /** how much had been read when the last block that is done was handed on, and each of those that are not */
  let done: number | undefined;
  const readAt: number[] = [];
  const onBytes = (count: number): void => {
    bytes += count;
  };
  const size = sizeOf(inputs);
  const all = read({ maxLineBytes, wanted, onBytes });
  const window = isFile ? undefined : await inferFromWindow(all, typed);
  const columns = columnar?.columns ?? survey?.columns ?? guess?.columns ?? window?.columns ?? [];
  const rows: AsyncIterable<InputRow | BadRow> = window?.rows ?? all;
  const before = run.before.traces + run.before.rejects;
  const check = (row: InputRow): void => {
    guess?.watch(row);
    if (survey !== undefined) assertFits(row, survey.columns);
  };
  const warnIfCut = (row: InputRow | RowBlock | BadRow): void => {
    if (isBad(row) && row.rejection.code === 'truncated')
      opts.log.warn(
        'input_truncated',
        `${row.file}: ${row.rejection.reason}; nothing after row ${row.row} was read`,
      );
  };
  return {
    survey,
    columns,
    guessed: guess?.seen,
    ahead: {
      traces: survey && expectedTraces(survey, opts) - before,
      share: () =>
        isFile && opts.limit === undefined
          ? Math.min(1, ((done ?? bytes) - skipped) / Math.max(1, size - skipped))
          : undefined,
    },
    async *traces() {
      const { limit = Number.POSITIVE_INFINITY } = opts;
      let taken = before;
      for await (const row of rows) {
        if (taken >= limit) break;
        if (taken === before && before > 0) skipped = bytes;
        warnIfCut(row);
        for (const trace of rowTraces(row, opts.map, opts.needs, check)) {
          yield isBad(trace) ? trace : { trace };
          if (++taken >= limit) break;
        }
        if (taken >= limit) break;
      }
      await assertUnchanged();
    },
    async *blocks() {
      done = 0;
      const chunk = (ordinal: number): number => chunkOf(ordinal, run.layout);
      for await (const block of readBlocks(inputs, { maxLineBytes, wanted, onBytes, chunkOf: chunk })) {
        if (before > 0 && skipped === 0) skipped = done = bytes;
        warnIfCut(block);
        readAt.push(bytes);
        yield block;
      }
      await assertUnchanged();
    },
    blockDone() {
      done = readAt.shift() ?? done;
    },
  };
}

function sizeOf(inputs: readonly Input[]): number {
  return inputs.reduce((sum, input) => sum + (input.size ?? 0), 0);
}

/** A run can begin anew only where nothing has left the machine and no other shard has its chunks. */
async function guessOnce({ mayGuess, run, reward, read, map, needs, limit, maxLineBytes }: SourceOptions) {
  const { folder, layout } = run;
  if (mayGuess !== true || reward !== undefined || folder === undefined || layout.shard.count > 1)
    return undefined;
  if ((await readSurvey(runPaths(folder).survey)) !== undefined) return undefined;
  const tracesOf = (row: InputRow): number =>
    [...mapRow(row, map, needs)].filter((found) => !isBad(found)).length;
  return guessColumns(read({ maxLineBytes }), tracesOf, limit);
}

function expectedTraces(survey: Survey, { limit, run }: SourceOptions): number {
  return Math.min(Math.ceil(survey.traces / run.layout.shard.count), limit ?? Number.POSITIVE_INFINITY);
}

/** The survey of a run is made by its first process, and read by those that resume it or do its other shards. */
async function surveyOnce(
  inputs: readonly Input[],
  opts: SourceOptions,
  assertUnchanged: () => Promise<void>,
): Promise<Survey> {
  const { folder } = opts.run;
  if (folder === undefined) return surveyFiles(inputs, opts);
  const { survey: path } = runPaths(folder);
  const known = await readSurvey(path);
  if (known !== undefined) {
    opts.banks?.restore(known.banks ?? []);
    return known;
  }
  const survey = await surveyFiles(inputs, opts);
  await assertUnchanged();
  await writeSurvey(path, { ...survey, ...(opts.banks && { banks: opts.banks.dump() }) });
  return survey;
}

async function surveyFiles(
  inputs: readonly Input[],
  { map, needs, reward, banks, limit, maxLineBytes, typed, log, signal }: SourceOptions,
): Promise<Survey> {
  const total = sizeOf(inputs);
  return surveyInputs(inputs, {
    map,
    needs,
    reward(trace) {
      const found = reward?.(trace) ?? null;
      banks?.add(trace, found);
      return found;
    },
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
