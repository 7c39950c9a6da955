// A file's bytes in chunks, for reading it once from end to end, and their hash.
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { usageError } from '../../errors.js';
import { fileError } from './file-error.js';
import { statIfThere } from './stat-if-there.js';

/** How a file is opened that has to be a regular one: a pipe would hold the program up until somebody writes to it. */
export const READ_AT_ONCE = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

const CHUNK_BYTES = 2 ** 20;
const LEAST_BYTES = 2 ** 12;

/** @throws RredcotError naming the file that cannot be read, or is no regular one */
export async function* fileBytes(path: string): AsyncGenerator<Buffer> {
  try {
    await using file = await open(path, READ_AT_ONCE);
    const found = await file.stat();
    if (!found.isFile()) throw usageError(`${path}: is no regular file`, 'put the file itself in its place');
    const { size } = found;
    // a run has hundreds of thousands of small files: a stream would take a megabyte for each
    const length = Math.min(CHUNK_BYTES, Math.max(LEAST_BYTES, size + 1));
    for (;;) {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, null);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } catch (error) {
    throw fileError(error, path, 'read');
  }
}

/** sha256 of a file in hex; null where there is none. */
export async function sha256OfFile(path: string): Promise<string | null> {
  return (await statIfThere(path)) === null ? null : sha256OfFiles([path]);
}

/** The same of several files, one after the other. */
export async function sha256OfFiles(paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const path of paths) for await (const bytes of fileBytes(path)) hash.update(bytes);
  return hash.digest('hex');
}
