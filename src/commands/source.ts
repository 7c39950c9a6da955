// Opens a command's inputs as a stream of traces: checked, surveyed where they can be read twice, mapped.
import { type Input, readRows, resolveInputs } from '../io/inputs.js';
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
  /** take so many traces at most */
  readonly limit: number | undefined;
  /** the reward that counts, for the groups' means */
  readonly reward: (trace: Trace) => number | null;
  readonly log: Log;
}

/** A command's inputs. */
export interface Source {
  /** name for outputs that the user did not name: the first file's stem */
  readonly stem: string;
  /** the first light pass; undefined for a stream, which can be read only once */
  readonly survey: Survey | undefined;
  readonly columns: readonly PassThroughColumn[];
  /** traces to come, where a survey has counted them */
  readonly expected: number | undefined;
  /** the traces in input order; bad rows go to `reject` */
  traces(reject: (bad: BadRow) => Promise<void>): AsyncGenerator<Trace>;
}

/** @throws RredcotError (exit 2) for an input that cannot be read */
export async function openSource(paths: readonly string[], opts: SourceOptions): Promise<Source> {
  const inputs = await resolveInputs(paths);
  const survey = inputs.every((input) => input.size !== null) ? await surveyFiles(inputs, opts) : undefined;
  const window = survey === undefined ? await inferFromWindow(readRows(inputs)) : undefined;
  const columns = survey?.columns ?? window?.columns ?? [];
  const rows: AsyncIterable<InputRow | BadRow> = window?.rows ?? readRows(inputs);
  const first = inputs[0]?.path ?? '-';
  return {
    stem: first === '-' ? 'stdin' : (first.split('/').at(-1) ?? first).replace(/\.[^.]+$/, ''),
    survey,
    columns,
    expected: survey && Math.min(survey.traces, opts.limit ?? Number.POSITIVE_INFINITY),
    async *traces(reject) {
      let taken = 0;
      for await (const row of rows) {
        if (row.kind === 'bad') {
          await reject(row);
          continue;
        }
        for (const trace of mapRow(row, opts.map, opts.needs)) {
          if (taken === opts.limit) return;
          if ('kind' in trace) await reject(trace);
          else {
            taken++;
            yield trace;
          }
        }
      }
    },
  };
}

async function surveyFiles(
  inputs: readonly Input[],
  { map, needs, reward, log }: SourceOptions,
): Promise<Survey> {
  const total = inputs.reduce((sum, input) => sum + (input.size ?? 0), 0);
  return surveyInputs(inputs, {
    map,
    needs,
    reward,
    onProgress: (bytes) =>
      log.progress(
        `reading: ${count(Math.round(bytes / 2 ** 20))} of ${count(Math.round(total / 2 ** 20))} MiB`,
        { bytes },
      ),
  });
}
