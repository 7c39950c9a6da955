// A file's bytes in chunks, for reading it once from end to end.
import { open } from 'node:fs/promises';
import { fileError } from './file-error.js';

const CHUNK_BYTES = 2 ** 20;
const LEAST_BYTES = 2 ** 12;

/** @throws RredcotError naming the file that cannot be read */
export async function* fileBytes(path: string): AsyncGenerator<Buffer> {
  try {
    await using file = await open(path, 'r');
    const { size } = await file.stat();
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
