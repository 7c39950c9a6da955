// Runs begun: the one that is asked for found in a folder, compared with what is there, or made.
import { link, readdir, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { EXIT, RredcotError, usageError } from '../errors.js';
import { makeFolder, NO_HARD_LINKS, syncFolder } from '../io/files/atomic-file.js';
import { fileError } from '../io/files/file-error.js';
import { againWhereTaken, readSmallFile } from '../io/files/json-file.js';
import { runPaths } from '../io/files/run-paths.js';
import type { InputPrint } from '../io/read/unchanged.js';
import { shellWord } from '../printable.js';
import {
  type AskedRun,
  firstDifference,
  RUN_FORMAT,
  type RunDescription,
  readRunDescription,
  runIdentity,
  type SameRun,
  sameOf,
} from './description.js';
import { dropRun, hiddenFolders, isBegun, isWorthKeeping, removeHidden } from './remove.js';

/**
 * The run that a folder holds, where it is the one that is asked for.
 * @param withOthers the folder may hold other files although it holds no run
 * @param hasLooked there was none a moment ago: another command, with other flags, may have been faster
 * @returns undefined where there is none
 * @throws RredcotError (exit 2) naming the field in which the run that is there differs
 */
export async function findRun(
  folder: string,
  asked: AskedRun,
  withOthers: boolean,
  hasLooked = false,
): Promise<RunDescription | undefined> {
  const present: string[] = await readdir(folder).catch((error: NodeJS.ErrnoException): string[] => {
    if (error.code !== 'ENOENT') throw fileError(error, folder, 'written');
    return [];
  });
  if (!withOthers && present.some((name) => !name.startsWith('.')) && !present.includes('run.json'))
    throw usageError(
      `${folder}: holds other files and no run.json, expected a run folder or an empty one`,
      'name another folder with -o',
    );
  if (!present.includes('run.json')) return undefined;
  const found = await readRunDescription(folder);
  const wanted = { ...asked, rows_per_chunk: asked.rows_per_chunk ?? found.rows_per_chunk };
  const difference = firstDifference(sameOf(found), JSON.parse(JSON.stringify(sameOf(wanted))));
  if (difference === undefined) return found;
  const touched = onlyTouched(found.inputs, asked.inputs);
  if (touched !== undefined && difference.startsWith('inputs.'))
    throw usageError(
      `${folder}: holds a run on ${touched.path} as it was on ${time(touched.before)}; since then it was written, on ${time(touched.now)}`,
      `start again with --overwrite; or, if its rows are the same: touch -d ${time(touched.before)} ${shellWord(touched.path)}`,
    );
  const other = `${folder}: holds another run: in run.json, ${difference}`;
  if (hasLooked)
    throw usageError(
      `${other}; another command has begun it after this one had looked`,
      'wait for that command, or name another output with -o',
    );
  throw usageError(other, 'give the same flags and inputs, name another -o, or start again with --overwrite');
}

/**
 * Creates the folder for a run. Any number of processes may do so at a time: one of them succeeds.
 * @param stamps of the policy's files
 * @returns whether it was this one
 */
export function createRun(
  folder: string,
  same: SameRun,
  stamps: RunDescription['policy_files'],
): Promise<boolean> {
  const description: RunDescription = {
    format: RUN_FORMAT,
    run: runIdentity(same),
    ...same,
    made_by: { host: hostname(), pid: process.pid, at: new Date().toISOString() },
    policy_files: stamps,
  };
  const content = `${JSON.stringify(description, null, 2)}\n`;
  return againWhereTaken(() => createExclusively(runPaths(folder).run, content, folder));
}

/** Makes the file with its whole content, unless it is there. Two processes that try at once: one of them succeeds. */
async function createExclusively(path: string, content: string, folder: string): Promise<boolean> {
  try {
    await makeFolder(folder);
    const own = join(folder, `.run.json.${process.pid}.${Date.now()}.tmp`);
    try {
      await writeFile(own, content, { flush: true });
      await link(own, path);
      return true;
    } catch (error) {
      if (!NO_HARD_LINKS.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
      // the content is not there at once, but the name is ours alone
      await writeFile(path, content, { flag: 'wx', flush: true });
      return true;
    } finally {
      await rm(own, { force: true });
      // chunks that outlive a power failure without their run.json could not be resumed
      await syncFolder(folder);
      await syncFolder(dirname(folder));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw fileError(error, path, 'written');
  }
}

const time = (ms: number): string => new Date(ms).toISOString();

/** The first input with another time, where size and edges of all are the same; undefined where more than times differ. */
function onlyTouched(
  found: readonly InputPrint[],
  wanted: readonly InputPrint[],
): { readonly path: string; readonly before: number; readonly now: number } | undefined {
  const timeless = (prints: readonly InputPrint[]) => prints.map((print) => ({ ...print, mtime_ms: null }));
  if (firstDifference(timeless(found), timeless(wanted)) !== undefined) return undefined;
  const n = wanted.findIndex(({ mtime_ms }, n) => mtime_ms !== found[n]?.mtime_ms);
  const [before, now] = [found[n]?.mtime_ms, wanted[n]?.mtime_ms];
  if (typeof before !== 'number' || typeof now !== 'number') return undefined;
  return { path: (wanted[n] as InputPrint).path, before, now };
}

export interface ClaimOptions {
  /** a folder of our own beside a single file, named by what the run is */
  readonly isHidden: boolean;
  /** drop the run that is there */
  readonly overwrite: boolean;
  /** the input cannot be read again, so a run cannot be resumed */
  readonly isStream: boolean;
  /** Says how large a chunk is, where the run has still to be begun. */
  readonly describe: () => Promise<{
    readonly run: SameRun;
    readonly stamps: RunDescription['policy_files'];
  }>;
}

/**
 * Finds the run in a folder or begins it. Nobody is asked who works there: two attempts at one run may meet, and one whose run
 * is dropped finds that out before it keeps anything ({@link assertSameRun}).
 * @returns what it is, and whether this process has begun it
 * @throws RredcotError (exit 2) where another run is there, naming the field that differs
 */
export async function claimRun(
  folder: string,
  asked: AskedRun,
  { isHidden, overwrite, isStream, describe }: ClaimOptions,
): Promise<{ readonly description: RunDescription; readonly isOurs: boolean }> {
  const taken = (): RredcotError =>
    usageError(
      `${folder}: holds a run, and a stream cannot be read again to resume it`,
      'name another output with -o, or start again with --overwrite',
    );
  if (overwrite) await (isHidden ? removeHidden(folder) : dropRun(folder));
  if (isStream && (await isBegun(folder))) throw taken();
  for (;;) {
    const found = await findRun(folder, asked, isHidden || overwrite, overwrite);
    if (found !== undefined) return { description: found, isOurs: false };
    const { run, stamps } = await describe();
    const isOurs = await createRun(folder, run, stamps);
    if (!isOurs && isStream) throw taken();
    // another process may have been faster, or has dropped it again
    const description = await findRun(folder, run, true, true);
    if (description !== undefined) return { description, isOurs };
  }
}

/**
 * Asked before anything gets its name in a run's folder.
 * @throws RredcotError (exit 75) where it has become another run's, ENOENT where it is gone
 */
export async function assertSameRun(folder: string, { run, shards }: RunDescription): Promise<void> {
  const text = await readSmallFile(runPaths(folder).run);
  try {
    const found = JSON.parse(text) as Partial<RunDescription>;
    if (found.run === run && found.shards === shards) return;
  } catch {
    // half written by one that has begun anew
  }
  throw new RredcotError(`${folder}: has become another run, of a command with other flags or inputs`, {
    exitCode: EXIT.interrupted,
    hint: 'name another output with -o',
  });
}

/**
 * The folder in which an earlier attempt has done a part of the run: its own, or one of the same run by other words.
 * @throws RredcotError (exit 2) where there is none, and another run could be gone on with: naming the field that differs
 */
export async function leftBy(output: string, own: string, asked: AskedRun): Promise<string> {
  if (await isWorthKeeping(own)) return own;
  let other: unknown;
  for (const folder of await hiddenFolders(output)) {
    if (resolve(folder) === resolve(own) || !(await isWorthKeeping(folder))) continue;
    try {
      if ((await findRun(folder, asked, true)) !== undefined) return folder;
    } catch (error) {
      other ??= error;
    }
  }
  if (other !== undefined) throw other;
  return own;
}
