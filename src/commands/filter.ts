// `rredcot filter`: keeps those traces of a scored file that fit the conditions, as they are.

import { valueNameOf } from '../credit/nature.js';
import { dataError, EXIT, type ExitCode, usageError } from '../errors.js';
import { STORED } from '../estimate/credit-flags.js';
import { PART_KEY, type Part } from '../io/write/facts.js';
import { namedFormat, type OutputFormat } from '../io/write/output.js';
import { resolveTarget, stemOf } from '../io/write/target.js';
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { Log } from '../report/log.js';
import { type BadRow, type InputRow, isBad } from '../rows.js';
import { writeScored } from '../run/write-scored.js';
import { type Condition, parseWhere } from '../scored/choose.js';
import {
  type ConfigReader,
  openScored,
  originOf,
  type ScoredFiles,
  storedTrace,
} from '../scored/open-scored.js';
import type { OutputRow } from '../scored.js';

export interface FilterOptions {
  /** all of them have to hold; none keeps all traces, as of the parts of a run in one file */
  readonly where: readonly string[];
  readonly output: string | undefined;
  readonly overwrite: boolean;
  readonly signal: AbortSignal;
}

/** Rows that were cut and not scored are passed on as well; conditions on what they lack are refused. */
const ANY_ROWS: ConfigReader = {
  ...STORED,
  takes: ['segment'],
  creditOf: (path, config) => STORED.creditOf(path, config.command === 'segment' ? UNSCORED : config),
};
/** Stands where there is no credit. */
const UNSCORED = { estimator: 'pr', rule: 'share' };

/** What a condition has removed. */
interface Removed {
  readonly where: string;
  /** traces that do not fit it */
  removed: number;
  /** those of them that fit all others */
  alone: number;
}

/**
 * Keeps the traces that fit.
 * @throws RredcotError: exit 2 for a condition that cannot be asked, or another format; 65 for a file that was changed, or of
 * which no trace is kept: nothing is written then
 */
export async function filter(path: string, opts: FilterOptions, log: Log): Promise<ExitCode> {
  const { signal, overwrite } = opts;
  const source = await openScored(path, ANY_ROWS, log);
  const conditions = opts.where.map((text) => parseWhere(text, path, source));
  const format = formatOf(source);
  const output = opts.output ?? `${stemOf(source.inputs)}.filtered.${format}`;
  const onStdout = format === 'parquet' ? 'arrow' : format;
  const target = await resolveTarget(output, output === '-' ? onStdout : undefined, source.inputs);
  if (target.kind === 'folder')
    throw usageError(`${target.path}: filter writes one file`, `-o <file>.${format}`);
  if (target.path !== '-' && target.format !== format)
    throw usageError(
      `${target.path}: filter writes the format that it reads, ${format}`,
      `-o <file>.${format}; rredcot redistribute writes another`,
    );

  const removed: Removed[] = conditions.map(({ text }) => ({ where: text, removed: 0, alone: 0 }));
  let [kept, traces] = [0, 0];
  let firstBad: BadRow | undefined;
  async function* rows(): AsyncGenerator<OutputRow | BadRow> {
    for await (const row of source.read({})) {
      const trace = isBad(row) ? row : storedTrace(row, source);
      if (isBad(trace)) {
        firstBad ??= trace;
        yield trace;
        continue;
      }
      traces++;
      if (!fits(trace, conditions, removed)) continue;
      kept++;
      // as it is: all columns are passed on
      yield { ...trace, trace: { ...trace.trace, source: row as InputRow } };
    }
    if (kept === 0) throw nothingKept(path, traces, removed, firstBad);
  }
  const figures = () => ({ kept, of: traces, conditions: removed });
  const part: Part = { by: 'filter', where: [...opts.where], ...originOf(source) };
  const isWritten = await writeScored(rows(), {
    ...{ command: 'filter', target, inputs: source.inputs, overwrite, signal, log, figures },
    ourColumns: [],
    passThrough: source.typed ?? [],
    names: new Set(source.columns),
    metadata: source.account,
    config: source.config,
    made: { ...source.provenance, ...(conditions.length > 0 && { [PART_KEY]: JSON.stringify(part) }) },
    valueName: valueNameOf(source.credit.estimator),
  });
  if (!isWritten) return EXIT.done;
  log.text(() => `kept ${count(kept)} of ${plural(traces, 'trace')}`);
  for (const each of removed) log.text(() => `  ${removedText(each)}`);
  return EXIT.done;
}

/** An empty file would pass for data. */
function nothingKept(path: string, traces: number, removed: readonly Removed[], bad: BadRow | undefined) {
  const why =
    traces === 0
      ? `no trace in it${bad === undefined ? '' : `: ${bad.file}:${bad.row}: ${bad.rejection.reason}`}`
      : `none of ${plural(traces, 'trace')} fits: ${removed.map(removedText).join('; ')}`;
  return dataError(
    `${path}: ${why}; nothing was written`,
    "other conditions, or a file that 'rredcot verify' passes",
  );
}

function removedText({ where, removed, alone }: Removed): string {
  return `${escapeControls(where)}: removed ${count(removed)}, ${count(alone)} of them alone`;
}

/** Asks all conditions, so that each is counted. */
function fits(
  trace: Parameters<Condition['holds']>[0],
  conditions: readonly Condition[],
  removed: Removed[],
): boolean {
  const failed = removed.filter((_, n) => conditions[n]?.holds(trace) === false);
  for (const each of failed) each.removed++;
  if (failed.length === 1) (failed[0] as Removed).alone++;
  return failed.length === 0;
}

/** What the file is written as; a stream that was kept, or a file without a known name, is Arrow. */
function formatOf({ inputs, typed }: ScoredFiles): OutputFormat {
  if (typed === null) return 'jsonl';
  return inputs.every(({ path, layout }) => layout === 'parquet' || namedFormat(path) === 'parquet')
    ? 'parquet'
    : 'arrow';
}
