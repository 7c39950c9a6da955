// A file's bytes in chunks, for reading it once from end to end.
import { createReadStream } from 'node:fs';
import { fileError } from './file-error.js';

const CHUNK_BYTES = 2 ** 20;

/** @throws RredcotError naming the file that cannot be read */
export async function* fileBytes(path: string): AsyncGenerator<Buffer> {
  try {
    yield* createReadStream(path, { highWaterMark: CHUNK_BYTES }) as AsyncIterable<Buffer>;
  } catch (error) {
    throw fileError(error, path, 'read');
  }
}
