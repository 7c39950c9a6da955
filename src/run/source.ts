// Opens a command's inputs, and streams them as traces: mapped, checked, and only those that the run has still to do.

import { assertFits, inferFromWindow, type PassThroughColumn } from '../io/arrow/schema.js';
import type { ColumnarColumns } from '../io/arrow/types.js';
import { rowTraces } from '../io/map/map.js';
import { type Mapping, type MappingOptions, resolveMapping } from '../io/map/mapping.js';
import { type Input, resolveInputs } from '../io/read/inputs.js';
import type { Log } from '../report/log.js';
import type { Expected } from '../report/progress.js';
import { type BadRow, type InputRow, isBad } from '../rows.js';
import type { Trace } from '../trace.js';
import type { JobOptions, Work } from './options.js';
import { openPadding } from './padding.js';
import type { Prescan } from './prescan.js';

/** What a command reads. */
export interface JobInputs {
  readonly inputs: readonly Input[];
  readonly mapping: Mapping;
}

/** Finds the inputs, and where in their rows the fields of a trace are. */
export async function openInputs(
  paths: readonly string[],
  opts: MappingOptions & { readonly policy: string | null },
  log: Log,
): Promise<JobInputs> {
  const inputs = await resolveInputs(paths);
  const notice = terminalNotice(inputs.map(({ path }) => path));
  if (notice !== undefined) log.info(notice);
  const mapping = await resolveMapping(inputs, opts);
  const map = { ...mapping.map, unpadded: await openPadding(opts.policy) };
  return { inputs, mapping: { ...mapping, map } };
}

/** What is told of inputs for which the user has to do something; undefined where nobody has to be told. @param paths of the inputs, `-` for stdin */
export function terminalNotice(
  paths: readonly string[],
  stdin: { readonly isTTY?: boolean } = process.stdin,
): string | undefined {
  if (stdin.isTTY !== true || !paths.includes('-')) return undefined;
  return 'waits for rows from this terminal, to be ended with Ctrl-D; a file is named behind the command';
}

/** Tells the user what was found. */
export function logMapping({ choice, join, hasRow }: Mapping, { preset }: MappingOptions, log: Log): void {
  if (choice !== undefined)
    log.info(`preset ${choice.preset.name} (${choice.why}); --map overrides a field, --preset none all`);
  else if (!hasRow) log.warn('no_row', 'there is no row in the input that can be read');
  else if (preset === 'auto')
    log.info('no preset fits the first row: fields are taken by their names or --map');
  if (join !== undefined) log.info(`joined as ${join.name} on ${join.on}`);
}

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
    Pick<Work, 'needs' | 'reward'>,
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
  const { limit = Number.POSITIVE_INFINITY } = opts;
  const { prescan, wanted } = run;
  const isStream = inputs.some(({ size }) => size === null);
  const typed = opts.typed && columnar === null;
  // the first row that is not passed over since an earlier attempt has done it
  let first: number | undefined;
  const all = read({ maxLineBytes, wanted, onLoss: (code, message) => log.warn(code, message) });
  const window = isStream ? await inferFromWindow(all, typed) : undefined;
  const rows: AsyncIterable<InputRow | BadRow> = window?.rows ?? all;
  const columns = columnar?.columns ?? (typed ? prescan?.columns : undefined) ?? window?.columns ?? [];
  const check = (row: InputRow): void => {
    if (typed && prescan !== undefined) assertFits(row, prescan.columns);
  };
  const counted = typeof prescan?.traces === 'number' ? prescan.traces + (prescan.rejects ?? 0) : undefined;
  const own = counted && Math.min(Math.ceil(counted / run.shards), limit) - opts.done;
  return {
    columns,
    expected: {
      traces: own && Math.max(0, own),
      share(ordinal) {
        if (prescan === undefined || opts.limit !== undefined) return undefined;
        const from = first ?? 0;
        return Math.min(1, (ordinal + 1 - from) / Math.max(1, prescan.rows - from));
      },
    },
    async *traces() {
      const { lastRow = Number.POSITIVE_INFINITY, lastItems } = prescan ?? {};
      let taken = 0;
      let group: string | undefined;
      for await (const row of rows) {
        first ??= row.ordinal;
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
