// Files that are read, on this machine or in an object store: what is there, their bytes and hashes, and whose fault a failure is.

import { createHash } from 'node:crypto';
import { constants, createReadStream, fstatSync, openSync } from 'node:fs';
import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import { constants as system } from 'node:os';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { interruptedError, RredcotError, usageError } from '../../errors.js';
import { jsonOf } from '../arrow/json.js';
import type { FileFacts, ObjectVersion } from '../store/http.js';
import { addressError } from './remote-paths.js';

/** An open file: Node's own handle, or an object. */
export interface OpenFile extends AsyncDisposable {
  stat(): Promise<FileFacts>;
  read<T extends Uint8Array>(
    buffer: T,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ readonly bytesRead: number; readonly buffer: T }>;
  close(): Promise<void>;
}

/** Whether a path is the address of objects that are opened. Nothing else makes the program open a connection. */
export function isStored(path: string): boolean {
  return /^(s3:\/\/|hf:\/\/datasets\/)/i.test(path);
}

/** What speaks to a store, loaded for such a path alone. */
export const objects = () => import('../store/object.js');

/** Opens what is read at places in it. @param version of an object, where it was looked at before */
export async function openFile(path: string, version?: ObjectVersion): Promise<OpenFile> {
  return isStored(path) ? (await objects()).StoredObject.open(path, version) : open(path, 'r');
}

/** What is there. @throws Error of the file system where nothing is, of an object one with its code */
export async function factsOf(path: string): Promise<FileFacts> {
  if (!isStored(path)) return stat(path);
  const { lookAtObject, noObject } = await objects();
  const found = await lookAtObject(path);
  if (found === null) throw noObject(path);
  return found;
}

/** The addresses that begin with one, sorted. */
export async function listObjects(prefix: string): Promise<string[]> {
  return (await objects()).listObjects(prefix);
}

/** What the user has to fix before the same command can work; everything else the machine did. */
const CALL_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder',
  ENOTDIR: 'a part of the path is no folder',
  EISDIR: 'is a folder',
  EEXIST: 'is a file, expected a folder',
  EACCES: 'no permission',
  EPERM: 'not permitted',
  EROFS: 'read-only file system',
  ENAMETOOLONG: 'the name is too long',
};

const MACHINE_ERRORS: Readonly<Record<string, string>> = {
  ENOSPC: 'no space left on the device',
  EDQUOT: 'disk quota is used up',
  EIO: 'the device reports an I/O error',
  EMFILE: 'too many open files',
  ESTALE: 'the file server no longer knows the file',
};

/**
 * Names the file in an error of the file system: exit 2 where the path is wrong, 75 where the machine failed and the same
 * command may well succeed later. Other errors are handed back as they are.
 */
export function fileError(error: unknown, path: string, action: 'read' | 'written'): unknown {
  const code = systemCode(error);
  if (error instanceof RredcotError || code === undefined) return error;
  const ofCall = CALL_ERRORS[code];
  const again = /^E(NOSPC|DQUOT)$/.test(code) ? 'free some space and start again' : 'the same command again';
  const other = action === 'written' ? 'choose another place with -o' : 'check the path and its permissions';
  const failure = `${path}: cannot be ${action}: ${ofCall ?? MACHINE_ERRORS[code] ?? code}`;
  return ofCall === undefined ? interruptedError(failure, again, error) : usageError(failure, other, error);
}

export function failed(path: string, action: 'read' | 'written') {
  return (error: unknown): never => {
    throw fileError(error, path, action);
  };
}

/** Work that leaves nothing behind where it fails; what fails while that is tidied up says nothing new. */
export function orAbort<T>(work: Promise<T>, abort: (error: unknown) => Promise<void>): Promise<T> {
  return work.catch(async (error: unknown) => {
    await abort(error).catch(() => {});
    throw error;
  });
}

/** What the system calls an error, by its number where Node has no name for it (EDQUOT: `Unknown system error -122`); undefined for others. */
function systemCode(error: unknown): string | undefined {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (typeof code !== 'string' || /^E[A-Z0-9]+$/.test(code)) return code;
  const [, number] = /^Unknown system error -(\d+)$/.exec(code) ?? [];
  if (number === undefined) return undefined;
  const named = Object.entries(system.errno).find(([, errno]) => errno === Number(number));
  return named?.[0] ?? `error ${number} of the system`;
}

/** null only where nothing is there. @throws RredcotError where nobody can tell */
export async function statIfThere(path: string): Promise<FileFacts | null> {
  try {
    return await factsOf(path);
  } catch (error) {
    if (isAbsent(error)) return null;
    throw fileError(error, path, 'read');
  }
}

/** Whether an error says that there is nothing under a name, rather than that one could not look. */
export function isAbsent(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** How a file is opened that has to be a regular one: a pipe would hold the program up until somebody writes to it. */
const READ_AT_ONCE = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

const CHUNK_BYTES = 2 ** 20;
const LEAST_BYTES = 2 ** 12;

/** A file or an object from its beginning to its end. @throws RredcotError naming what cannot be read, or is no regular file */
export async function* fileBytes(path: string, chunkBytes = CHUNK_BYTES): AsyncGenerator<Buffer> {
  let file: FileHandle | undefined;
  const reading = new AbortController();
  readings.add(reading);
  try {
    if (isStored(path)) return yield* (await (await objects()).StoredObject.open(path)).bytes();
    file = await open(path, READ_AT_ONCE);
    const found = await file.stat();
    if (!found.isFile()) throw usageError(`${path}: is no regular file`, 'put the file itself in its place');
    const { size } = found;
    // a run has hundreds of thousands of small files: a stream would take a megabyte for each
    const length = Math.min(chunkBytes, Math.max(LEAST_BYTES, size + 1));
    for (;;) {
      reading.signal.throwIfAborted();
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, null);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } catch (error) {
    throw fileError(error, path, 'read');
  } finally {
    readings.delete(reading);
    await file?.close();
  }
}

// ------ small files as a whole

/** undefined where the file is missing or no JSON: what it told of is done again. @throws RredcotError where it is there and cannot be read */
export async function readJson<T>(path: string): Promise<T | undefined> {
  return jsonOf((await textOf(path)) ?? '') as T | undefined;
}

/** What is in a file that a flag names, which may be a pipe. @param hint what such a file is @throws RredcotError (exit 2) for what is no JSON */
export async function readGivenJson(flag: string, path: string, hint: string): Promise<unknown> {
  const found = await readFile(path, 'utf8').catch((error: unknown) => {
    throw addressError(path) ?? fileError(error, path, 'read');
  });
  try {
    return JSON.parse(found.replace(/^\uFEFF/, '')); // which editors of Windows put in front
  } catch (error) {
    throw usageError(`${flag} ${path}: is not JSON: ${(error as Error).message}`, hint);
  }
}

/** A file's text; undefined where there is no such file. @throws RredcotError where it is there and the machine cannot read it */
export async function textOf(path: string): Promise<string | undefined> {
  if ((await statIfThere(path)) === null) return undefined;
  return text(fileBytes(path));
}

/** sha256 of a file in hex; null where there is none. */
export async function sha256OfFile(path: string): Promise<string | null> {
  if ((await statIfThere(path)) === null) return null;
  const hash = createHash('sha256');
  for await (const bytes of fileBytes(path)) hash.update(bytes);
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

/** What is being read. */
const readings = new Set<Readable | AbortController>();

/** Ends all that: who waits at a pipe, or for the end of a line of gigabytes, would hear of no interruption. */
export function endReading(): void {
  for (const reading of [process.stdin, ...readings])
    reading instanceof AbortController ? reading.abort() : reading.destroy();
}

/** Waits at a pipe without a thread, which nothing could end; elsewhere than on Linux one without a writer seems to be at its end. */
function openPipe(path: string): Readable {
  const stream =
    process.platform === 'linux'
      ? new Socket({ fd: openSync(path, READ_AT_ONCE), writable: false })
      : createReadStream(path, { highWaterMark: CHUNK_BYTES });
  readings.add(stream);
  return stream.once('close', () => readings.delete(stream));
}

/** Opens stdin (`-`) or a pipe; nothing is read before it is asked for. */
export function openByteSource(path: string): ByteSource {
  const chunks = (async function* (): AsyncGenerator<Buffer> {
    try {
      yield* path === STDIN ? openStdin() : openPipe(path);
    } catch (error) {
      throw fileError(error, path, 'read');
    }
  })();
  let held: Buffer[] = [];
  let head: Promise<Buffer> | null = null;

  async function readHead(): Promise<Buffer> {
    for (let length = 0; length < HEAD_BYTES; ) {
      const { done, value } = await chunks.next();
      if (done) break;
      held.push(value);
      length += value.length;
    }
    // a copy: what is held may be gone when this is looked at again
    return Buffer.concat(held).subarray(0, HEAD_BYTES);
  }
  return {
    head: () => (head ??= readHead()),
    async *bytes() {
      try {
        yield* held.splice(0);
        yield* chunks;
      } finally {
        held = [];
        await chunks.return(undefined);
      }
    },
  };
}
