// Work in the folder in which a file is made until it is whole, and its end where another process takes that folder away.
import { resolve, sep } from 'node:path';
import { EXIT, RredcotError } from '../../errors.js';
import { statIfThere } from '../../io/files/stat-if-there.js';
import { sweepFolder } from '../../io/run/claim.js';
import type { Target } from './target.js';

/** Tells a run's folder that was taken away from a failure of the machine. */
export async function inFolder<T>(target: Target, work: () => Promise<T>): Promise<T> {
  const started = Date.now();
  try {
    return await work();
  } catch (error) {
    const { folder, path, kind } = target;
    if (folder === undefined || !hasLostFile(error, folder)) throw error;
    // what the other process could not remove, since this one still wrote there
    const isMade = ((await statIfThere(path))?.mtimeMs ?? 0) >= started;
    if (kind === 'file') await sweepFolder(folder, isMade).catch(() => {});
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
