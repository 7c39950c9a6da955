// `rredcot merge`: the chunks of a run as one file, or as files of a bounded size, in input order.
import { readdir, realpath, stat } from 'node:fs/promises';
import { EXIT, type ExitCode, RredcotError, throwIfInterrupted, usageError } from '../errors.js';
import { shardName } from '../io/files/chunks.js';
import { assertWritable } from '../io/files/elsewhere.js';
import { sumPath } from '../io/files/json-file.js';
import { rejectsPath, summaryPath } from '../io/files/run-paths.js';
import type { OutputFormat } from '../io/write/output.js';
import { count, plural } from '../plural.js';
import { shellWord } from '../printable.js';
import type { Log } from '../report/log.js';
import { type MergeTarget, mergeRun } from '../run/merge.js';
import { sumCounts } from '../run/records.js';
import { assertSame, refuseOther, standing } from '../run/standing.js';
import { locateRun, type RunState, readRunState } from '../run/state.js';
import { readMerged } from '../run/summary-file.js';
import { formatOfFile, refuseInputs, refuseUnreplaceable } from '../run/target.js';
import { ranges } from './status.js';

export interface MergeOptions {
  readonly output: string;
  readonly format: OutputFormat | undefined;
  /** bytes a file at most; undefined: the default for a folder, none for a file */
  readonly fileSize: number | undefined;
  /** take what is done of a run that is not finished */
  readonly partial: boolean;
  readonly overwrite: boolean;
  readonly signal: AbortSignal;
}

const MIB = 2 ** 20;
const DEFAULT_FILE_BYTES = 1024 * MIB;
const MIN_FILE_BYTES = MIB / 16;
/** well below 4 GiB, where Parquet offsets of 32 bits end */
const MAX_FILE_SIZE = 3 * 1024 * MIB;

/** Merges a run; one that was merged into the folder before is left as it is. @throws RredcotError: exit 75 where the run is not finished, 65 where a chunk is damaged */
export async function merge(out: string, opts: MergeOptions, log: Log): Promise<ExitCode> {
  const folder = await locateRun(out);
  if (folder === undefined) throw usageError(`${out}: is a file already`, 'name a run folder');
  const state = await readRunState(folder);
  checkFinished(out, state, opts.partial);
  const target = await resolveMergeTarget(state, opts);
  if (target === undefined || (!opts.overwrite && (await isMergedFile(target, state)))) {
    log.info(`${opts.output}: holds this run already, merged before; nothing was done`);
    return EXIT.done;
  }
  const { traces: total } = sumCounts(state.shards.map(({ counts }) => counts));
  const { traces, rejects, files } = await mergeRun(state, target, (traces) => {
    throwIfInterrupted(opts.signal);
    log.progress(`merging: ${count(traces)} of ${plural(total, 'trace')}`, { traces });
  });
  log.record('merged', { traces, rejects, files: files.length, output: opts.output });
  const where = files.length === 1 ? files[0] : `${files.length} files in ${target.path}`;
  log.info(`${plural(traces, 'trace')} written to ${where}`);
  if (rejects > 0) log.info(`${plural(rejects, 'reject')} written to ${target.rejects}`);
  return EXIT.done;
}

function checkFinished(out: string, { isFinished, shards }: RunState, partial: boolean): void {
  if (isFinished || (partial && shards.some(({ chunks }) => chunks > 0))) return;
  const open = shards.filter(({ isDone, missing }) => !isDone || missing.length > 0);
  const [first] = open;
  const chunks =
    first === undefined || first.missing.length === 0 ? '' : `, e.g. chunks ${ranges(first.missing)}`;
  const what = first === undefined ? '' : ` (${shardName(first.shard)}${chunks})`;
  throw new RredcotError(
    `${out}: the run is not finished: chunks are missing in ${open.length} of ${plural(shards.length, 'shard')}${what}`,
    {
      exitCode: EXIT.interrupted,
      hint: `rredcot status ${shellWord(out)}; ${partial ? 'no chunk is done yet' : '--partial takes what is done'}`,
    },
  );
}

async function resolveMergeTarget(
  state: RunState,
  { output, format, fileSize, overwrite: replaces }: MergeOptions,
): Promise<MergeTarget | undefined> {
  const { description } = state;
  assertWritable(output);
  const named = output.replace(/(?<=.)\/+$/, '');
  const present = await stat(named).catch(() => null);
  const isFolder = named !== output || present?.isDirectory() === true;
  // a folder is put in the place of an empty one, not of a link to it
  const path = isFolder && present !== null ? await realpath(named) : named;
  const chunks = description.output;
  const kind = isFolder ? (format ?? chunks) : formatOfFile(path, format);
  if (kind === 'jsonl' && chunks !== 'jsonl')
    throw usageError(
      `the chunks are ${chunks}, whose columns do not tell which keys a row had: they cannot be merged as jsonl`,
      `-o all.parquet, then duckdb -c "COPY (FROM 'all.parquet') TO 'all.jsonl' (FORMAT json)", which writes null for a key that a row lacks`,
    );
  if (kind !== 'jsonl' && chunks === 'jsonl')
    throw usageError(
      `the chunks are jsonl, whose columns have no types: they cannot be merged as ${kind}`,
      `-o all.jsonl, or the command that made the run with --format ${kind} and another -o`,
    );
  const rejects = rejectsPath(path);
  await refuseInputs([path, rejects], description.inputs);
  const beside = kind === 'jsonl' && !isFolder ? [summaryPath(path), sumPath(path)] : [];
  for (const each of [path, rejects, ...beside]) await refuseUnreplaceable(each);
  if (!isFolder) {
    if (fileSize !== undefined)
      throw usageError(`--file-size needs a folder, but ${path} is one file`, `-o ${shellWord(`${path}/`)}`);
    return { path, fileBytes: undefined, format: kind, rejects, replaces };
  }
  const others = present === null ? [] : await readdir(path);
  if (others.length > 0 && (await isMerged(path, kind, state))) return undefined;
  if (others.length > 0)
    throw usageError(
      `${path}: holds ${others[0]}, expected a new folder or an empty one`,
      'name another with -o',
    );
  return { path, fileBytes: fileSize ?? DEFAULT_FILE_BYTES, format: kind, rejects, replaces };
}

/** Whether a file is what merging the run would make of it. @throws RredcotError (exit 2) for another one that stands there */
async function isMergedFile(
  { path, fileBytes }: MergeTarget,
  { description, part }: RunState,
): Promise<boolean> {
  const found = fileBytes === undefined ? await standing(path) : undefined;
  if (found === undefined) return false;
  refuseOther(found, description);
  if (!(await assertSame(found, description.run))) return false;
  if (found.part === (part && JSON.stringify(part))) return true;
  throw usageError(`${path}: holds another part of this run`, '--overwrite puts the new one in its place');
}

/** Whether a folder is what merging the run would make of it, as its own record says. */
async function isMerged(folder: string, format: OutputFormat, state: RunState): Promise<boolean> {
  const found = await readMerged(folder);
  const { traces, rejects } = sumCounts(state.shards.map(({ counts }) => counts));
  const isSame = found?.run === state.description.run && found.output === format;
  if (!isSame || found.traces !== traces || found.rejects !== rejects) return false;
  const present = await readdir(folder);
  return found.files.every(({ name }) => present.includes(name));
}

const SIZE_UNITS: Readonly<Record<string, number>> = { B: 1, KiB: 1024, MiB: MIB, GiB: 1024 * MIB };

/** Reads `--file-size 512MiB`. @throws RredcotError (exit 2) */
export function parseFileSize(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, number, unit = 'B'] = /^(\d+(?:\.\d+)?)(B|KiB|MiB|GiB)?$/.exec(text) ?? [];
  const bytes = Math.floor(Number(number) * (SIZE_UNITS[unit] as number));
  if (number === undefined || bytes < MIN_FILE_BYTES || bytes > MAX_FILE_SIZE)
    throw usageError(`--file-size ${text}: expected 64KiB to 3GiB`, '--file-size 512MiB');
  return bytes;
}
