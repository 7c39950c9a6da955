// Opens scored traces: checks that they are ours and as they were written, and finds the configuration that made them.
import { basename, dirname } from 'node:path';
import { usageError } from '../../errors.js';
import type { CreditOptions } from '../../estimate/credit.js';
import { requestedColumns } from '../../estimate/requested.js';
import { valueColumns } from '../../estimators/registry.js';
import { storedCredit } from '../../estimators/stored-credit.js';
import { OUR_COLUMNS, type OurColumn, type OutputColumn } from '../../io/arrow/output-columns.js';
import type { PassThroughColumn } from '../../io/arrow/schema.js';
import { summaryPath } from '../../io/files/run-paths.js';
import { HASH_KEY } from '../../io/files/seal.js';
import { statIfThere } from '../../io/files/stat-if-there.js';
import { columnarColumns, type Input, inputMetadata, readRows, resolveInputs } from '../../io/read/inputs.js';
import { assertRecorded, bytesFault, edited } from '../../io/scored/as-written.js';
import { partOf, REDISTRIBUTED_KEY } from '../../io/scored/origins.js';
import { CONFIG_KEY, RUN_KEY, VERSION_KEY } from '../../io/write/output.js';
import { PART_KEY, type Part } from '../../io/write/part.js';
import { shellWord } from '../../printable.js';
import type { Log } from '../../report/log.js';
import { type BadRow, type InputRow, isBad, type ReadOptions } from '../../rows.js';
import { accountBeside, type Config } from './account-beside.js';

/** Scored traces, of one run. */
export interface Scored {
  readonly inputs: readonly Input[];
  /** what the run was made with */
  readonly config: Config;
  readonly credit: CreditOptions;
  /** the files' account of themselves; none of JSON lines */
  readonly metadata: ReadonlyMap<string, string>;
  /** what it was made of, which stays true of what is made of it, by key of the metadata; `part` among it */
  readonly origins: Readonly<Record<string, string>>;
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

/**
 * Opens a scored file, a run folder or a merged folder.
 * @throws RredcotError: exit 2 for what `score` has not written, or in another form; 65 for bytes that it has not written
 */
export async function openScored(path: string, log: Log): Promise<Scored> {
  if (path === '-') throw usageError('a scored file is read twice, which stdin cannot be', 'name the file');
  const inputs = await resolveInputs([path]);
  const isText = inputs.every(({ layout }) => layout?.format === 'json');
  const stored = isText
    ? {
        ...((await accountBeside(path)) ?? (await refuseUnsaid(path, inputs))),
        metadata: new Map<string, string>(),
      }
    : await ownAccount(path, inputs);
  await assertWritten(path, inputs, stored.metadata, (file) =>
    log.warn('no_hash', `${file}: nothing says which bytes were written`),
  );
  const { config, metadata } = stored;
  refuseOthers(path, config);
  const part = (await partOf(inputs))?.part;
  const origins = { ...stored.origins, ...(part && { [PART_KEY]: JSON.stringify(part) }) };
  const credit = storedCredit(config);
  if (credit === undefined)
    throw usageError(
      `${path}: was scored in a way that this version does not know`,
      'score the traces again',
    );
  const typed = isText ? null : ((await columnarColumns(inputs))?.columns ?? []);
  const columns = typed === null ? await firstKeys(inputs) : typed.map(({ name }) => name);
  const ours = ourColumns(columns, config);
  const valued = valueColumns(config);
  const beside = [...requestedColumns(credit), ...valued].map(({ name }) => name);
  const made = new Set<string>([...ours, ...beside]);
  return {
    ...{ inputs, config, credit, metadata, origins, part, columns, ours, valued, made, typed },
    read: (opts) => readRows(inputs, opts),
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
function refuseOthers(path: string, { command, export: form }: Config): void {
  if (command !== 'score')
    throw usageError(
      `${path}: was made by ${command === undefined ? 'another program' : `rredcot ${String(command)}`}, expected a file of rredcot score`,
      'rredcot score makes one, with values and σ',
    );
  if (form !== undefined)
    throw usageError(
      `${path}: has the columns of --export ${String(form)} in place of ours`,
      'score without --export; redistribute reads our columns',
    );
}

/** What columnar files say of themselves: all of them the same, but for their own hashes. */
async function ownAccount(path: string, inputs: readonly Input[]) {
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
  const metadata = first?.metadata ?? new Map<string, string>();
  const origin = metadata.get(REDISTRIBUTED_KEY);
  return {
    metadata,
    origins: origin === undefined ? {} : { [REDISTRIBUTED_KEY]: origin },
    config: JSON.parse(metadata.get(CONFIG_KEY) ?? '{}') as Config,
  };
}

async function refuseUnsaid(path: string, inputs: readonly Input[]): Promise<never> {
  await refuseUnscored(path, inputs);
  throw usageError(
    `${path}: JSON lines do not say how they were made, and ${basename(summaryPath(path))} is not beside them`,
    `put the summary that score wrote into ${dirname(path)}, or score to .parquet`,
  );
}

/**
 * Holds a scored file or folder against its hashes.
 * @param onUnknown told of a file that has none
 * @throws RredcotError (exit 65) for a file whose bytes are not those that were written
 */
export async function assertWritten(
  path: string,
  inputs: readonly Input[],
  metadata: ReadonlyMap<string, string>,
  onUnknown: (file: string) => void,
): Promise<void> {
  const isFolder = (await statIfThere(path))?.isDirectory() === true;
  const isText = metadata.size === 0;
  // the hashes of JSON lines in a folder stand in its records
  if (isFolder && isText) return assertRecorded(path);
  for (const { path: file } of inputs) {
    // a stream that was kept as a file has no hash, nor have JSON lines that were printed
    const fault = isText || metadata.has(HASH_KEY) ? await bytesFault(file, isText) : undefined;
    if (typeof fault === 'string') throw edited(file, fault);
    if (fault === undefined) onUnknown(file);
  }
}

async function firstKeys(inputs: readonly Input[]): Promise<readonly string[]> {
  for await (const row of readRows(inputs)) if (!isBad(row)) return Object.keys(row.columns);
  return [];
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
