// Bytes of a file or a stream, which can be looked into before they are read.

import { createReadStream, fstatSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { usageError } from '../../errors.js';
import { fileError } from './file-error.js';

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

/** Opens stdin (`-`), a pipe or a file; nothing is read before it is asked for. */
export function openByteSource(path: string): ByteSource {
  let iterator: AsyncIterator<Buffer> | null = null;
  let held: Buffer[] = [];
  let head: Promise<Buffer> | null = null;

  async function next(): Promise<Buffer | null> {
    if (iterator === null) {
      const stream =
        path === STDIN ? openStdin() : createReadStream(path, { highWaterMark: READ_CHUNK_BYTES });
      iterator = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    }
    try {
      const { done, value } = await iterator.next();
      return done ? null : value;
    } catch (error) {
      throw fileError(error, path, 'read');
    }
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
