// A folder that is there in the end, with those above it.
import { mkdir, readlink, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { usageError } from '../../errors.js';
import { statIfThere } from './stat-if-there.js';

/** Node's own recursive mkdir never returns where the parent is there and makes no folders (/proc). */
export async function makeFolder(path: string): Promise<void> {
  const parent = dirname(path);
  const hasParent = await stat(parent).then(
    () => true,
    () => false,
  );
  if (!hasParent && parent !== path) await makeFolder(parent);
  await mkdir(path).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
    const isLost = (await statIfThere(path)) === null && (await readlink(path).catch(() => null)) !== null;
    if (isLost)
      throw usageError(
        `${path}: is a link to a folder that is not there`,
        'make that folder, or choose another place with -o',
      );
  });
}
