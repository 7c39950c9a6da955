// Files of a folder that somebody else made, a downloaded checkpoint or policy: one rule for all of them.
import { readFile, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { RredcotError, usageError } from '../../errors.js';
import { isAbsent } from './file-error.js';

/** The largest tokenizer.json are some 40 MB. */
const MOST_TEXT_BYTES = 256 * 2 ** 20;

/**
 * Where the bytes of a file really are; undefined where there is no such file. Links may lead to files of the folder, or from
 * a snapshot of a Hugging Face cache to the blobs of the same repository: a folder cannot make us read, or hand on, any other.
 * @throws RredcotError (exit 2) for a link that leads elsewhere, and for a pipe, a device or a folder
 */
export async function foreignFile(folder: string, name: string): Promise<string | undefined> {
  const shown = join(folder, name);
  try {
    const root = await realpath(folder);
    const path = await realpath(join(root, name));
    const roots = [root];
    if (basename(dirname(root)) === 'snapshots') roots.push(resolve(root, '../../blobs'));
    if (!roots.some((allowed) => isInside(allowed, path)))
      throw usageError(
        `${shown}: links to ${path}, outside its folder`,
        'give the folder that the file lies in, or put a hard link or a copy in place of the link',
      );
    if (!(await stat(path)).isFile())
      throw usageError(`${shown}: is no regular file`, 'download the folder again');
    return path;
  } catch (cause) {
    if (isAbsent(cause)) return undefined;
    if (cause instanceof RredcotError) throw cause;
    const why = (cause as Error).message;
    throw usageError(`${shown}: cannot be read (${why})`, 'check the path and its permissions', cause);
  }
}

/** The text of such a file. @throws RredcotError (exit 2) as {@link foreignFile}, and for one that is too large to be read */
export async function foreignText(folder: string, name: string): Promise<string | undefined> {
  const path = await foreignFile(folder, name);
  if (path === undefined) return undefined;
  const { size } = await stat(path);
  if (size > MOST_TEXT_BYTES)
    throw usageError(
      `${join(folder, name)}: has ${size} bytes, expected at most ${MOST_TEXT_BYTES}`,
      'download the folder again',
    );
  return readFile(path, 'utf8');
}

function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`);
}
