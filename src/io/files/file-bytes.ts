// Bytes of files, all of a range or none, and their hashes; bytes of a stream, which can be looked into before they are read.
import { createHash } from 'node:crypto';
import { constants, createReadStream, fstatSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { usageError } from '../../errors.js';
import { failed, fileError, statIfThere } from './file-error.js';
import { isStored, type OpenFile, objectBytes } from './opened.js';

/** How a file is opened that has to be a regular one: a pipe would hold the program up until somebody writes to it. */
export const READ_AT_ONCE = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

const CHUNK_BYTES = 2 ** 20;
const LEAST_BYTES = 2 ** 12;

/** @throws RredcotError naming the file that cannot be read, or is no regular one */
export async function* fileBytes(path: string): AsyncGenerator<Buffer> {
  if (isStored(path)) return yield* objectBytes(path);
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

/** Fills `bytes` from a place in the file. @throws Error where the file ends before */
export async function readWhole<T extends Uint8Array>(
  file: Pick<OpenFile, 'read'>,
  bytes: T,
  position: number,
  name = 'the file',
): Promise<T> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesRead } = await file.read(bytes, done, bytes.length - done, position + done);
    if (bytesRead === 0) throw new Error(`${name} has become shorter`);
    done += bytesRead;
  }
  return bytes;
}

/** Writes at a place in the file; null: where the last write ended. */
export async function writeWhole(
  file: FileHandle,
  bytes: Uint8Array,
  position: number | null = null,
): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const at = position === null ? null : position + done;
    done += (await file.write(bytes.subarray(done), 0, undefined, at)).bytesWritten;
  }
}

export const STDIN = '-';
/** So many bytes tell every format. */
export const HEAD_BYTES = 8;
const READ_CHUNK_BYTES = 2 ** 20;

/** Bytes that can be read once. */
export interface ByteSource {
  /** the first bytes, up to `HEAD_BYTES` of them; they stay to be read, and can be asked for at any time */
  head(): Promise<Buffer>;
  bytes(): AsyncGenerator<Buffer>;
}

/** Node takes a folder for a stream that has ended. @throws RredcotError (exit 2) */
export function openStdin(): Readable {
  if (fstatSync(0).isDirectory())
    throw usageError('stdin: is a folder, expected bytes', 'name the folder in the command');
  return process.stdin;
}

/** Opens stdin (`-`), a pipe, a file or an object; nothing is read before it is asked for. */
export function openByteSource(path: string): ByteSource {
  let iterator: AsyncIterator<Buffer> | null = null;
  let held: Buffer[] = [];
  let head: Promise<Buffer> | null = null;

  async function next(): Promise<Buffer | null> {
    if (iterator === null) {
      const stream =
        path === STDIN
          ? openStdin()
          : isStored(path)
            ? objectBytes(path)
            : createReadStream(path, { highWaterMark: READ_CHUNK_BYTES });
      iterator = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    }
    const { done, value } = await iterator.next().catch(failed(path, 'read'));
    return done ? null : value;
  }
  async function readHead(): Promise<Buffer> {
    let length = 0;
    while (length < HEAD_BYTES) {
      const chunk = await next();
      if (chunk === null) break;
      held.push(chunk);
      length += chunk.length;
    }
    // a copy: what is held may be gone when this is looked at again
    return Buffer.concat(held).subarray(0, HEAD_BYTES);
  }
  return {
    head() {
      head ??= readHead();
      return head;
    },
    async *bytes() {
      try {
        yield* held.splice(0);
        for (let chunk = await next(); chunk !== null; chunk = await next()) yield chunk;
      } finally {
        held = [];
        await iterator?.return?.();
      }
    },
  };
}
