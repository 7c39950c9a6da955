// Work in the folder in which a file is made until it is whole, and its end where another process takes that folder away.
import { resolve, sep } from 'node:path';
import { EXIT, RredcotError } from '../../errors.js';
import { hiddenFolderAround, runPaths } from '../../io/files/run-paths.js';
import { statIfThere } from '../../io/files/stat-if-there.js';
import { removeHidden } from '../../io/run/hidden.js';
import type { Target } from './target.js';

/** Tells a run's folder that was taken away from a failure of the machine. */
export async function inFolder<T>(target: Target, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { path, kind } = target;
    const folder = lostFolder(error, target);
    if (folder === undefined) throw error;
    // what this process has still made there
    if (kind === 'file' && (await statIfThere(runPaths(folder).run)) === null) await removeHidden(folder);
    throw new RredcotError(
      `${folder}: was removed while this process was at work in it: another one has made ${path}, or dropped the run`,
      { exitCode: EXIT.interrupted, hint: `if ${path} is not there, the same command again`, cause: error },
    );
  }
}

/** The run's folder, where it or something in it was no longer there: nobody removes a part of it. */
function lostFolder(error: unknown, { kind, path: output }: Target): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { code, path, syscall } = cause as NodeJS.ErrnoException;
    if (code !== 'ENOENT' || path === undefined) continue;
    const whole = kind === 'folder' ? resolve(output) : hiddenFolderAround(resolve(output), resolve(path));
    if (whole === undefined) continue;
    // where the folder cannot be made, it never was there
    if (resolve(path).startsWith(`${whole}${sep}`) || (resolve(path) === whole && syscall !== 'mkdir'))
      return whole;
  }
  return undefined;
}
