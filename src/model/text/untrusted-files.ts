// Files of a folder that somebody else made, a downloaded checkpoint or policy: one rule for all of them.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { RredcotError, usageError } from '../../errors.js';
import { isAbsent, isStored, statIfThere } from '../../io/files/files.js';
import { addressError, HUB, hubDownload } from '../../io/files/remote-paths.js';
import { shellWord } from '../../printable.js';

/** The largest tokenizer.json are some 40 MB. */
const MOST_TEXT_BYTES = 256 * 2 ** 20;

/**
 * Where the bytes of a file really are; undefined where there is no such file. Links may lead to files of the folder, or from
 * a snapshot of a Hugging Face cache to the blobs of the same repository: a folder cannot make us read, or hand on, any other.
 * @throws RredcotError (exit 2) for a link that leads elsewhere, and for a pipe, a device or a folder
 */
export async function untrustedFile(folder: string, name: string): Promise<string | undefined> {
  const shown = join(folder, name);
  try {
    const root = await realpath(folder);
    const path = await realpath(join(root, name));
    const roots = [root];
    if (basename(dirname(root)) === 'snapshots') roots.push(resolve(root, '../../blobs'));
    const ways = roots.map((allowed) => relative(allowed, path));
    if (!ways.some((way) => way !== '' && way !== '..' && !way.startsWith(`..${sep}`)))
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

/** The text of such a file. @throws RredcotError (exit 2) as {@link untrustedFile}, and for one that is too large to be read */
export async function untrustedText(folder: string, name: string): Promise<string | undefined> {
  const path = await untrustedFile(folder, name);
  if (path === undefined) return undefined;
  const { size } = await stat(path);
  if (size > MOST_TEXT_BYTES)
    throw usageError(
      `${join(folder, name)}: has ${size} bytes, expected at most ${MOST_TEXT_BYTES}`,
      'download the folder again',
    );
  return readFile(path, 'utf8');
}

/** Of a file's bytes, all or those from one to another. */
export async function sha256(path: string, start = 0, end = Number.POSITIVE_INFINITY): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { start, end })) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

/** How models are called there; a path that begins with a dot is one of this machine. */
const HUB_NAME = /^(?!\.)[\w.-]+\/[\w.-]+$/;

/** That a model's folder is there. @param hint what mends any other path @throws RredcotError (exit 2), saying how to get it where its name tells */
export async function assertModelFolder(path: string, expected: string, hint: string): Promise<void> {
  const found = isStored(path) ? null : await statIfThere(path);
  if (found?.isDirectory()) return;
  if (found !== null) throw usageError(`${path}: is a file, expected ${expected}`, hint);
  const [, datasets, ofAddress] = HUB.exec(path) ?? [];
  const repository = ofAddress ?? (HUB_NAME.test(path) ? path : undefined);
  if (repository === undefined || datasets !== undefined)
    throw addressError(path) ?? usageError(`${path}: no such folder, expected ${expected}`, hint);
  throw usageError(
    `${path}: no such folder; a model of the Hugging Face Hub has to be downloaded first`,
    `${hubDownload(repository)} (of old: huggingface-cli download), then rredcot policy build ${shellWord(basename(repository))} -o <folder>`,
  );
}

// ------ JSON in them

/** @throws RredcotError (exit 2) naming the file */
export function parseJson(text: string, path: string, hint?: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw usageError(`${path}: not JSON (${(cause as Error).message})`, hint, cause);
  }
}
