// A command's work in its run's folder: the run opened, its work done once, and a word where the folder was taken away.
import { resolve, sep } from 'node:path';
import { EXIT, type ExitCode, RredcotError } from '../errors.js';
import type { Input } from '../io/inputs.js';
import type { RunDescription } from '../io/run-description.js';
import { removeRunFolder } from '../io/run-folder.js';
import { isBegun } from '../io/run-remains.js';
import { statIfThere } from '../io/stat-if-there.js';
import { plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { isWorker } from '../report/worker-log.js';
import { checkRejects, type MaxRejects } from './options.js';
import { openRun, type Run, type RunOptions } from './run.js';
import type { Target } from './target.js';

interface LimitedRejects {
  readonly maxRejects: MaxRejects | undefined;
}

/**
 * Finds or makes the run's folder, and does the command's work in it; where the work is done, says so.
 * @throws RredcotError (exit 2) where the folder holds another run, naming the field that differs; (exit 75) where it was
 * removed meanwhile
 */
export async function inRun(
  target: Target,
  inputs: readonly Input[],
  described: Pick<RunDescription, 'command' | 'config' | 'policy' | 'runs'>,
  opts: RunOptions & LimitedRejects,
  log: Log,
  work: (run: Run) => Promise<void>,
): Promise<ExitCode> {
  const started = Date.now();
  try {
    await using run = await openRun(target, inputs, described, opts, log);
    if (run.isDone) return alreadyDone(target, run, opts, log);
    await work(run);
    return EXIT.done;
  } catch (error) {
    const { folder, path, kind } = target;
    if (folder === undefined || !hasLostFile(error, folder)) throw error;
    // what the other process could not remove, since this one still wrote there
    const isMade = ((await statIfThere(path))?.mtimeMs ?? 0) >= started;
    if (kind === 'file' && (isMade || !(await isBegun(folder))))
      await removeRunFolder(folder).catch(() => {});
    throw new RredcotError(
      `${folder}: was removed while this process was at work in it: another one has made ${path}, or dropped the run`,
      { exitCode: EXIT.interrupted, hint: `if ${path} is not there, the same command again`, cause: error },
    );
  }
}

/** Whether a run's folder, or something in it, was no longer there: nobody removes a part of it. */
function hasLostFile(error: unknown, folder: string): boolean {
  const whole = resolve(folder);
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { code, path, syscall } = cause as NodeJS.ErrnoException;
    if (code !== 'ENOENT' || path === undefined) continue;
    // where the folder cannot be made, it never was there
    if (resolve(path).startsWith(`${whole}${sep}`) || (resolve(path) === whole && syscall !== 'mkdir'))
      return true;
  }
  return false;
}

/**
 * A shard that was done before: nothing is touched.
 * @throws RredcotError (exit 65) where it has more rejects than this call allows
 */
function alreadyDone(
  target: Target,
  { layout, before }: Run,
  { maxRejects }: LimitedRejects,
  log: Log,
): ExitCode {
  const { shard } = layout;
  // a worker's share is a part of what its parent counts
  if (!isWorker()) checkRejects(before, maxRejects, target, true);
  const what = shard.count === 1 ? target.path : `${target.path}: shard ${shard.index}/${shard.count}`;
  log.info(`${what} is already done: ${plural(before.traces, 'trace')}, ${plural(before.rejects, 'reject')}`);
  return EXIT.done;
}
