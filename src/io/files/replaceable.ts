// Says before the work why no file could take a name at its end.
import { lstat, open, readFile, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

const STICKY = 0o1000;
/** Where the system keeps what is no file of ours: /dev/stdout is a link there, which a rename would replace. */
const OF_THE_SYSTEM = /^\/(dev(?!\/shm(\/|$))|proc)(\/|$)/;

/** @returns half a sentence; undefined where nothing is there, or nothing speaks against it */
export async function whyUnreplaceable(path: string): Promise<string | undefined> {
  const present = await lstat(path).catch(() => null);
  const place = await realpath(dirname(path)).catch(() => '');
  if (OF_THE_SYSTEM.test(place)) return `would be a file in ${place}; stdout is called -`;
  if (present === null) return undefined;
  // the link itself is replaced, whatever it points to
  if (!present.isSymbolicLink()) {
    const mounts = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '');
    const real = await realpath(path).catch(() => path);
    if (mountPoints(mounts).has(real)) return 'is mounted by itself, and cannot be replaced';
    if (present.isFile() && (await isImmutable(path))) return 'is marked as one that must not be changed';
  }
  const folder = await stat(dirname(path)).catch(() => null);
  const user = process.getuid?.() ?? 0;
  const isSticky = folder !== null && (folder.mode & STICKY) !== 0 && user !== 0;
  if (isSticky && user !== present.uid && user !== folder.uid)
    return 'belongs to another user, in a folder where only that one may replace it';
  return undefined;
}

/** Where something is mounted. @param mountinfo as Linux tells it (proc(5)): the fifth field, blanks as \040 */
export function mountPoints(mountinfo: string): Set<string> {
  const points = mountinfo.split('\n').map((line) => line.split(' ')[4] ?? '');
  return new Set(
    points.map((point) =>
      point.replaceAll(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8))),
    ),
  );
}

/** What is closed to us alone can be replaced all the same. */
async function isImmutable(path: string): Promise<boolean> {
  try {
    await (await open(path, 'r+')).close();
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
