// Opens scored traces: whose they are, whether they are as they were written, how they were made, and what their rows hold.

import { basename, dirname } from 'node:path';
import { type CreditOptions, creditConfig, storedValues } from '../credit/credit.js';
import { requestedColumns } from '../credit/requested.js';
import { dataError, type Rejection, usageError } from '../errors.js';
import { knownCredit } from '../estimate/credit-flags.js';
import { valueColumns } from '../estimate/registry.js';
import type { OutputColumn } from '../io/arrow/output-columns.js';
import type { PassThroughColumn } from '../io/arrow/schema.js';
import { hashSaid } from '../io/files/facts.js';
import { readJson } from '../io/files/json-file.js';
import { partNumber, runPaths, summaryPath } from '../io/files/run-folder.js';
import { isJson } from '../io/read/formats.js';
import { type Input, inputMetadata, readRows, resolveInputs } from '../io/read/inputs.js';
import { fileFault } from '../io/write/facts.js';
import type { Config } from '../io/write/output.js';
import { CONFIG_KEY, POLICY_KEY, RUN_KEY, VERSION_KEY, VOCAB_KEY } from '../io/write/output.js';
import { PART_KEY, type Part } from '../io/write/part.js';
import { readSummary } from '../io/write/summary-file.js';
import { shellWord } from '../printable.js';
import type { Log } from '../report/log.js';
import { type BadRow, type InputRow, isBad, type ReadOptions, rejectRow } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { checkRow } from './check-row.js';
import { OUR_COLUMNS, type OurColumn } from './columns.js';
import { partOf, REDISTRIBUTED_KEY } from './provenance.js';
import { type Cells, columnsOf, oursOf, storedConfig, storedRow } from './stored-rows.js';

/** What files of rows say of how they were made. */
export interface StoredRun {
  /** of the first of them; none of JSON lines */
  readonly metadata: ReadonlyMap<string, string>;
  /** undefined where nothing of ours tells */
  readonly config: Config | undefined;
  /** sha256 of the policy's files; undefined where nothing tells */
  readonly policy: Readonly<Record<string, string>> | undefined;
  /** what they were made of, by the keys under which columnar files say it */
  readonly provenance: Readonly<Record<string, string>>;
}

/** Whether all of them are JSON. */
export function isText(inputs: readonly Input[]): boolean {
  return inputs.every(({ layout }) => isJson(layout));
}

/**
 * Columnar files tell it themselves, of JSON lines the summary beside them, or what describes their folder.
 * @param path that stands for the inputs
 */
export async function storedRunOf(path: string, inputs: readonly Input[]): Promise<StoredRun> {
  const [first] = inputs;
  const metadata = first === undefined ? new Map<string, string>() : await inputMetadata(first);
  if (isText(inputs)) return { metadata, ...(await runBeside(first?.path ?? path)) };
  const origin = metadata.get(REDISTRIBUTED_KEY);
  const policy = metadata.get(POLICY_KEY);
  return {
    metadata,
    config: storedConfig(metadata),
    policy: policy === undefined ? undefined : (JSON.parse(policy) as StoredRun['policy']),
    provenance: origin === undefined ? {} : { [REDISTRIBUTED_KEY]: origin },
  };
}

/** What lies beside a file, or in a folder. */
export async function runBeside(path: string): Promise<Omit<StoredRun, 'metadata'>> {
  const { config, redistributed } = (await readSummary(path)) ?? {};
  const provenance =
    redistributed === undefined ? {} : { [REDISTRIBUTED_KEY]: JSON.stringify(redistributed) };
  if (config !== undefined) return { config, policy: undefined, provenance };
  const folder = partNumber(basename(path)) === undefined ? path : dirname(path);
  const found = await readJson<Partial<StoredRun> & { rredcot?: unknown }>(runPaths(folder).run);
  const isRun = typeof found?.rredcot === 'string' && typeof found.config === 'object';
  return { config: isRun ? found.config : undefined, policy: found?.policy ?? undefined, provenance: {} };
}

/** Scored traces, of one run. */
export interface ScoredFiles {
  readonly inputs: readonly Input[];
  /** what the run was made with */
  readonly config: Config;
  readonly credit: CreditOptions;
  /** the files' account of themselves; none of JSON lines */
  readonly metadata: ReadonlyMap<string, string>;
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

/** Columns without which no credit can be made again. */
export const NEEDED = [
  ...(['segments', 'value_start', 'reward', 'baseline'] as const),
  ...(['reference_utilities', 'status'] as const),
] as const;

/**
 * Opens a scored file, or the parts of a run.
 * @throws RredcotError: exit 2 for what `score` has not written, or in another form; 65 for bytes that it has not written
 */
export async function openScored(path: string, log: Log): Promise<ScoredFiles> {
  if (path === '-') throw usageError('a scored file is read twice, which stdin cannot be', 'name the file');
  const inputs = await resolveInputs([path]);
  const stored = await storedRunOf(path, inputs);
  const { metadata, config } = stored;
  if (!isText(inputs)) await assertOneRun(path, inputs);
  if (config === undefined) return refuseUnsaid(path, inputs);
  await assertWritten(inputs, (file) =>
    log.warn('no_hash', `${file}: nothing says which bytes were written`),
  );
  refuseOthers(path, config);
  const part = (await partOf(inputs))?.part;
  const provenance = { ...stored.provenance, ...(part && { [PART_KEY]: JSON.stringify(part) }) };
  const credit = knownCredit(path, config);
  const { typed, columns = [] } = await columnsOf(inputs);
  const ours = ourColumns(columns, config);
  const valued = valueColumns(config);
  const beside = [...requestedColumns(credit), ...valued].map(({ name }) => name);
  const made = new Set<string>([...ours, ...beside]);
  return {
    ...{ inputs, config, credit, metadata, provenance, part, columns, ours, valued, made, typed },
    read: (opts) => readRows(inputs, opts),
  };
}

/** What a file is made of, for the metadata of another: identity of the run, hash of the file and its credit, as far as it says them. */
export function originOf({ metadata, credit, inputs }: ScoredFiles): Record<string, unknown> {
  return {
    run: metadata.get(RUN_KEY),
    sha256: inputs.length === 1 ? hashSaid(metadata) : undefined,
    credit: creditConfig(credit),
  };
}

/**
 * Reads a scored row: what the file lacks is null, what is none of ours is passed on. One that is not as `score` writes it is set
 * aside (`scored`).
 */
export function storedTrace(row: InputRow, { ours, valued, made, credit }: ScoredFiles): OutputRow | BadRow {
  const cells = oursOf(row.columns, [...ours, ...valued.map(({ name }) => name)]);
  const [fault] = checkRow(cells, { isScored: true }).faults;
  if (fault !== undefined)
    return setAside(row, { code: 'scored', reason: `${fault}: rredcot verify tells more` });
  const stored = storedRow(cells, row, valued);
  const [valueStart = null] = storedValues(stored, credit.estimator);
  return { ...stored, valueStart, trace: { ...stored.trace, source: passedOn(row, made, cells) } };
}

/** Turns a scored row down, under the id that it has. */
export function setAside(row: InputRow, why: Rejection): BadRow {
  const { id } = row.columns;
  return rejectRow(row, why, typeof id === 'string' ? id : undefined);
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
      columns ??= Object.fromEntries(Object.entries(row.columns).filter(([name]) => !made.has(name)));
      return columns;
    },
    get raw() {
      return row.raw;
    },
  };
}

/** What a file of traces lacks before `score`. @throws RredcotError (exit 2) for one whose first row has no values and no σ */
async function refuseUnscored(path: string, inputs: readonly Input[]): Promise<void> {
  for await (const row of readRows(inputs)) {
    if (isBad(row)) continue;
    const { segments, value_start: start, sigma } = row.columns;
    if (segments !== undefined || start !== undefined || sigma !== undefined) return;
    throw usageError(
      `${path}: is not scored: its rows have no values and no σ`,
      `rredcot score ${shellWord(path)} -o scored.parquet, then scored.parquet in its place`,
    );
  }
}

/** @throws RredcotError (exit 2) for rows that are no scored traces, or another program's form of them */
function refuseOthers(path: string, { command }: Config): void {
  if (command !== 'score')
    throw usageError(
      `${path}: was made by ${command === undefined ? 'another program' : `rredcot ${String(command)}`}, expected a file of rredcot score`,
      'rredcot score makes one, with values and σ',
    );
}

/** Columnar files say of themselves all the same, but for their own hashes. @throws RredcotError (exit 2) */
async function assertOneRun(path: string, inputs: readonly Input[]): Promise<void> {
  let first: { readonly path: string; readonly metadata: ReadonlyMap<string, string> } | undefined;
  for (const input of inputs) {
    const metadata = await inputMetadata(input);
    if (!metadata.has(VERSION_KEY) || !metadata.has(CONFIG_KEY)) {
      await refuseUnscored(path, inputs);
      throw usageError(
        `${input.path}: no rredcot has written this file: its metadata have no ${CONFIG_KEY}`,
        'rredcot score makes one that has',
      );
    }
    first ??= { path: input.path, metadata };
    for (const key of [CONFIG_KEY, RUN_KEY])
      if (first.metadata.get(key) !== metadata.get(key))
        throw usageError(
          `${input.path}: is of another run than ${first.path}: their ${key} differ`,
          'name the files of one run, each run for itself',
        );
  }
}

async function refuseUnsaid(path: string, inputs: readonly Input[]): Promise<never> {
  await refuseUnscored(path, inputs);
  throw usageError(
    `${path}: JSON lines do not say how they were made, and ${basename(summaryPath(path))} is not beside them`,
    `put the summary that score wrote into ${dirname(path)}, or score to .parquet`,
  );
}

/**
 * Compares scored files with their hashes.
 * @param onUnknown told of a file that has none: a stream that was kept as a file, or lines that were printed
 * @throws RredcotError (exit 65) for a file whose bytes are not those that were written
 */
export async function assertWritten(
  inputs: readonly Input[],
  onUnknown: (file: string) => void = () => {},
): Promise<void> {
  for (const { path } of inputs) {
    const fault = await fileFault(path);
    if (typeof fault === 'string')
      throw dataError(`${path}: ${fault}`, 'take the file as score wrote it; to edit rows, score them again');
    if (fault === undefined) onUnknown(path);
  }
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

/** Tokens of the vocabulary of the policy that scored a file; undefined where it does not say. */
export function vocabOf({ metadata }: Pick<StoredRun, 'metadata'>): number | undefined {
  const vocab = Number(metadata.get(VOCAB_KEY));
  return vocab > 1 ? vocab : undefined;
}
