// Opens scored traces: whether they are of one run and as they were written, how they were made, and what their rows hold.

import { basename } from 'node:path';
import { type CreditOptions, creditConfig, storedValues } from '../credit/credit.js';
import { requestedColumns } from '../credit/requested.js';
import { type Rejection, usageError } from '../errors.js';
import type { OutputColumn } from '../io/arrow/output-columns.js';
import type { PassThroughColumn } from '../io/arrow/schema.js';
import { hashSaid } from '../io/files/facts.js';
import { filePaths } from '../io/files/run-folder.js';
import { isJson } from '../io/read/input-file.js';
import { type Input, readRows, resolveInputs } from '../io/read/inputs.js';
import { PART_KEY, type Part } from '../io/write/facts.js';
import { CONFIG_KEY, type Config, RUN_KEY } from '../io/write/output.js';
import { shellWord } from '../printable.js';
import type { Log } from '../report/log.js';
import { type BadRow, type InputRow, type ReadOptions, rejectRow } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { checkRow } from './check-row.js';
import { type Cells, OUR_COLUMNS, type OurColumn, oursOf, storedRow } from './columns.js';
import {
  type Account,
  accountOf,
  assertWritten,
  columnsOf,
  configIn,
  partOf,
  REDISTRIBUTED_KEY,
} from './stored-run.js';

/** Scored traces, of one run. */
export interface ScoredFiles {
  readonly inputs: readonly Input[];
  /** what the run was made with */
  readonly config: Config;
  readonly credit: CreditOptions;
  /** what the first of the files says of itself */
  readonly account: Account;
  /** what it was made of, which stays true of what is made of it, by key of the metadata; `part` among it */
  readonly provenance: Readonly<Record<string, string>>;
  /** what has cut it out of a data set; undefined where nothing has */
  readonly part: Part | undefined;
  /** columns in their order; of JSON lines the first row's */
  readonly columns: readonly string[];
  /** those of them that are ours */
  readonly ours: readonly OurColumn[];
  /** those that came with its values */
  readonly valued: readonly OutputColumn[];
  /** these, and what was asked for beside them: all that is not the input's */
  readonly made: ReadonlySet<string>;
  /** the types of columns that bring them along; null of JSON lines */
  readonly typed: readonly PassThroughColumn[] | null;
  read(opts: ReadOptions): AsyncGenerator<InputRow | BadRow>;
}

/** What a configuration says, for who knows the estimators. */
export interface ConfigReader {
  /** @throws RredcotError (exit 2) naming what of it this version does not know */
  creditOf(path: string, config: Config): CreditOptions;
  /** the columns that come with the values */
  valueColumns(config: Config): readonly OutputColumn[];
  /** commands beside `score` whose rows are taken */
  readonly takes?: readonly string[];
}

/** Columns without which no credit can be made again. */
export const NEEDED = [
  ...(['segments', 'value_start', 'reward', 'baseline'] as const),
  ...(['reference_utilities', 'status'] as const),
] as const;

/**
 * Opens a scored file, or the parts of a run.
 * @throws RredcotError: exit 2 for what `score` has not written, or in another form; 65 for bytes that it has not written
 */
export async function openScored(
  path: string,
  reader: ConfigReader,
  log?: Pick<Log, 'warn'>,
): Promise<ScoredFiles> {
  if (path === '-') throw usageError('a scored file is read twice, which stdin cannot be', 'name the file');
  const inputs = await resolveInputs([path]);
  const { account, config } = await oneRun(path, inputs);
  await assertWritten(inputs, log);
  const { command = 'another program' } = config;
  if (command !== 'score' && !reader.takes?.some((name) => name === command))
    throw usageError(
      `${path}: was made by ${config.command === undefined ? '' : 'rredcot '}${command}, expected a file of rredcot score`,
      'rredcot score makes one, with values and σ',
    );
  const part = (await partOf(inputs))?.part;
  const origin = account.get(REDISTRIBUTED_KEY);
  const credit = reader.creditOf(path, config);
  const { typed, columns = [] } = await columnsOf(inputs);
  const ours = ourColumns(columns, config);
  const valued = reader.valueColumns(config);
  return {
    ...{ inputs, config, credit, account, part, columns, ours, valued, typed },
    provenance: {
      ...(origin !== undefined && { [REDISTRIBUTED_KEY]: origin }),
      ...(part && { [PART_KEY]: JSON.stringify(part) }),
    },
    made: new Set([...ours, ...[...requestedColumns(credit), ...valued].map(({ name }) => name)]),
    read: (opts) => readRows(inputs, opts),
  };
}

/** All files say the same of themselves, but for their own hashes. @throws RredcotError (exit 2) */
async function oneRun(path: string, inputs: readonly Input[]) {
  let first: { readonly path: string; readonly account: Account; readonly config: Config } | undefined;
  for (const input of inputs) {
    const account = await accountOf(input);
    const config = configIn(account);
    if (config === undefined)
      throw usageError(
        `${input.path}: nothing says that rredcot score has made it, ${isJson(input.layout) ? `neither a run nor ${basename(filePaths(input.path).summary)} beside it` : `its metadata have no ${CONFIG_KEY}`}`,
        `rredcot score ${shellWord(path)} -o scored.parquet, then scored.parquet in its place`,
      );
    first ??= { path: input.path, account, config };
    for (const key of [CONFIG_KEY, RUN_KEY])
      if (first.account.get(key) !== account.get(key))
        throw usageError(
          `${input.path}: is of another run than ${first.path}: their ${key} differ`,
          'name the files of one run, each run for itself',
        );
  }
  if (first === undefined) throw usageError(`${path}: there is no file`, 'name a file of rredcot score');
  return first;
}

/** What a file is made of, for the metadata of another: identity of the run, hash of the file and its credit, as far as it says them. */
export function originOf({ account, credit, inputs }: ScoredFiles): Record<string, unknown> {
  return {
    run: account.get(RUN_KEY),
    sha256: inputs.length === 1 ? hashSaid(account) : undefined,
    credit: creditConfig(credit),
  };
}

/**
 * Reads a scored row: what the file lacks is null, what is none of ours is passed on. One that is not as `score` writes it is
 * rejected (`scored`).
 */
export function storedTrace(row: InputRow, source: ScoredFiles): OutputRow | BadRow {
  const { ours, valued, made, credit, config } = source;
  const cells = oursOf(row.columns, [...ours, ...valued.map(({ name }) => name)]);
  const [fault] = checkRow(cells, config.command === 'score');
  if (fault !== undefined)
    return rejected(row, { code: 'scored', reason: `${fault}: rredcot verify tells more` });
  const stored = storedRow(cells, row, valued);
  const [valueStart = null] = storedValues(stored, credit.estimator);
  return { ...stored, valueStart, trace: { ...stored.trace, source: passedOn(row, made, cells) } };
}

/** Rejects a scored row, under the id that it has. */
export function rejected(row: InputRow, why: Rejection): BadRow {
  const { id } = row.columns;
  return rejectRow(row, why, typeof id === 'string' ? id : undefined);
}

/** The cells of the input's own columns. @param made names of ours */
export function inputColumns({ columns }: InputRow, made: ReadonlySet<string>): Cells {
  return Object.fromEntries(Object.entries(columns).filter(([name]) => !made.has(name)));
}

/** The row as the input's own columns have it, in the place where the input had it. */
function passedOn(row: InputRow, made: ReadonlySet<string>, cells: Cells): OutputRow['trace']['source'] {
  const { source_file: file, source_row: at } = cells;
  const { ordinal, byteOffset, arrow } = row;
  let columns: Cells | undefined;
  return {
    ...{ file: String(file ?? row.file), row: Number(at ?? row.row), ordinal, byteOffset },
    ...(arrow && { arrow }),
    get columns() {
      columns ??= inputColumns(row, made);
      return columns;
    },
    get raw() {
      return row.raw;
    },
  };
}

/** Which of the columns are ours: those that were chosen, or all from the id on; before it stand the input's. */
function ourColumns(columns: readonly string[], { columns: chosen }: Config): readonly OurColumn[] {
  const written = Array.isArray(chosen) ? (chosen as unknown[]) : undefined;
  const first = columns.indexOf('id');
  return OUR_COLUMNS.filter((name) => {
    if (!columns.includes(name)) return false;
    return written === undefined ? columns.indexOf(name) >= first : written.includes(name);
  });
}
