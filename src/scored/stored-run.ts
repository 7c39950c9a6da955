// What files of rows say of how they were made: their configuration, their run, and what has cut them out of a data set.
import { basename, dirname } from 'node:path';
import { dataError } from '../errors.js';
import { jsonOf } from '../io/arrow/json.js';
import { readJson } from '../io/files/files.js';
import { partNumber, runPaths } from '../io/files/run-folder.js';
import { isJson } from '../io/read/input-file.js';
import { columnarColumns, type Input, inputMetadata, readRows } from '../io/read/inputs.js';
import { factsOfFile, fileFault, PART_KEY, type Part, parsePart, readSummary } from '../io/write/facts.js';
import {
  CONFIG_KEY,
  type Config,
  POLICY_KEY,
  RUN_KEY,
  TEXT_KEY,
  VERSION_KEY,
  VOCAB_KEY,
} from '../io/write/output.js';
import type { Log } from '../report/log.js';
import { isBad } from '../rows.js';

/** The key of a file's metadata under which stands what it was redistributed from. */
export const REDISTRIBUTED_KEY = 'rredcot.redistributed';

/** What a file says of itself, by key. */
export type Account = ReadonlyMap<string, string>;

/**
 * Columnar files say it in their metadata; of JSON lines the run does of which they are a part, or the summary beside them, here under the
 * same keys. A stream of JSON lines says nothing.
 */
export async function accountOf(input: Input): Promise<Account> {
  if (!isJson(input.layout)) return inputMetadata(input);
  if (input.stream !== null) return new Map();
  const { path } = input;
  const ofRun = partNumber(basename(path)) !== undefined;
  const beside = (ofRun ? await readJson(runPaths(dirname(path)).run) : await readSummary(path)) ?? {};
  const { rredcot, run, config, policy, redistributed, part, parts } = beside as Record<string, unknown>;
  const whole: Part | undefined =
    Number(parts) > 1 ? { by: 'pieces', pieces: 1, of: Number(parts) } : undefined;
  const said = {
    ...{ [VERSION_KEY]: rredcot, [RUN_KEY]: run, [CONFIG_KEY]: config, [POLICY_KEY]: policy },
    ...{ [REDISTRIBUTED_KEY]: redistributed, [PART_KEY]: part ?? whole },
  };
  return new Map(
    Object.entries(said).flatMap(([key, value]) => {
      if (value === undefined || value === null) return [];
      return [[key, typeof value === 'string' ? value : JSON.stringify(value)]];
    }),
  );
}

/** What the first of some files says of itself; nothing of none. */
export async function firstAccount([first]: readonly Input[]): Promise<Account> {
  return first === undefined ? new Map() : accountOf(first);
}

/** What stands under a key; undefined for what is no JSON object, which no rredcot has written. */
function objectIn<T extends object>(account: Account, key: string): T | undefined {
  const found = jsonOf(account.get(key) ?? '');
  return typeof found === 'object' && found !== null ? (found as T) : undefined;
}

/** The configuration; undefined where a file does not say it. */
export function configIn(account: Account): Config | undefined {
  return objectIn(account, CONFIG_KEY);
}

/** sha256 of the policy's files; undefined where a file does not say it. */
export function policyIn(account: Account): Readonly<Record<string, string>> | undefined {
  return objectIn(account, POLICY_KEY);
}

/** The columns in which the prompt's text and the completion's stand, as far as a file says it. */
export function textColumnsIn(account: Account): Readonly<Record<string, unknown>> {
  return objectIn(account, TEXT_KEY) ?? {};
}

/** Tokens of the vocabulary of the policy that scored a file; undefined where it does not say. */
export function vocabIn(account: Account): number | undefined {
  const vocab = Number(account.get(VOCAB_KEY));
  return vocab > 1 ? vocab : undefined;
}

/** A file that is a part of a data set. */
export interface FoundPart {
  readonly path: string;
  readonly part: Part;
}

/**
 * The first of the inputs that is a part of a data set, or a run, some parts of which are not among the inputs.
 * @throws RredcotError (exit 65) for metadata that no rredcot has written
 */
export async function partOf(inputs: readonly Input[]): Promise<FoundPart | undefined> {
  const runs = new Map<string, { readonly path: string; pieces: number; readonly of: number | null }>();
  for (const input of inputs) {
    const { path } = input;
    const account = await accountOf(input);
    const part = parsePart(account.get(PART_KEY));
    if (part === null)
      throw dataError(
        `${path}: nobody can read what its metadata say under ${PART_KEY}`,
        'score the traces again, or write the rows to a file without these metadata',
      );
    if (part === undefined) continue;
    const run = account.get(RUN_KEY);
    if (part.by !== 'pieces' || part.pieces !== 1 || run === undefined) return { path, part };
    const found = runs.get(run) ?? { path, pieces: 0, of: part.of };
    found.pieces++;
    runs.set(run, found);
  }
  for (const { path, pieces, of } of runs.values())
    if (pieces !== of) return { path, part: { by: 'pieces', pieces, of } };
  return undefined;
}

/** How many traces of the run of scored files were rejected, as far as they say so: they are not in them, and were of their groups. */
export async function rejectsOf(inputs: readonly Input[]): Promise<number> {
  const facts = await Promise.all(inputs.map(({ path }) => factsOfFile(path)));
  return facts.reduce((sum, found) => sum + (found?.rejects ?? 0), 0);
}

/** Compares scored files with their hashes, and says of which there is none. @throws RredcotError (exit 65) for bytes that are not those that were written */
export async function assertWritten(inputs: readonly Input[], log?: Pick<Log, 'warn'>): Promise<void> {
  for (const { path, size } of inputs) {
    if (size === null) continue; // a stream is read but once
    const fault = await fileFault(path);
    if (fault === undefined) log?.warn('no_hash', `${path}: nothing says which bytes were written`);
    if (typeof fault === 'string')
      throw dataError(`${path}: ${fault}`, 'take the file as score wrote it; to edit rows, score them again');
  }
}

/** The columns of files in their order, and their types where these bring them along; of JSON lines the first row's. */
export async function columnsOf(inputs: readonly Input[]) {
  const typed = (await columnarColumns(inputs))?.columns ?? null;
  if (typed !== null) return { typed, columns: typed.map(({ name }) => name) };
  for await (const row of readRows(inputs))
    if (!isBad(row)) return { typed, columns: Object.keys(row.columns) };
  return { typed, columns: undefined };
}
