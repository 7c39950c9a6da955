// A run that is asked for in, the folder's own run compared with it, or a new one begun there.
import { link, readdir, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { shellWord } from '../../printable.js';
import { syncFolder } from '../files/atomic-file.js';
import { fileError } from '../files/file-error.js';
import { againWhereTaken } from '../files/json-file.js';
import { makeFolder } from '../files/make-folder.js';
import { runPaths } from '../files/run-paths.js';
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
import type { InputPrint } from './fingerprint.js';

/**
 * The run that a folder holds, where it is the one that is asked for.
 * @param withOthers the folder may hold other files although it holds no run
 * @returns undefined where there is none
 * @throws RredcotError (exit 2) naming the field in which the run that is there differs
 */
export async function findRun(
  folder: string,
  asked: AskedRun,
  withOthers = false,
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
  throw new OtherRunError(`${folder}: holds another run: in run.json, ${difference}`);
}

/** Another run than the one that is asked for. */
export class OtherRunError extends RredcotError {
  constructor(message: string) {
    const hint = 'give the same flags and inputs, name another -o, or start again with --overwrite';
    super(message, { exitCode: EXIT.usage, hint });
  }
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

/** How a file system says that it has no hard links. */
const NO_HARD_LINKS: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

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
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST') return false;
      if (!NO_HARD_LINKS.has(code ?? '')) throw error;
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
