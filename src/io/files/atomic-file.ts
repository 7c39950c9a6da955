// Files that appear under their names whole or not at all.
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { usageError } from '../../errors.js';
import { type Facts, writeFacts } from './facts.js';
import { failed, fileError, isStored, objects, statIfThere, writeWhole } from './files.js';

/** Gives a whole file its name. @param replaces of an object: whatever is there, else the store refuses; on this machine the caller has the name */
export async function putInPlace(from: string, to: string, replaces = true): Promise<void> {
  if (isStored(to)) {
    await (await objects()).putObject(from, to, replaces);
    return rm(from, { force: true });
  }
  await rename(from, to);
  await syncFolder(dirname(to));
}

/** A rename would put a file in the place of a pipe or /dev/null. @throws RredcotError (exit 2) where something else than a file has the name */
export async function assertFilePlace(path: string): Promise<void> {
  const present = await statIfThere(path);
  if (present === null || present.isFile()) return;
  const found = present.isDirectory() ? 'a folder' : 'no regular file';
  throw usageError(`${path}: is ${found}, expected a file or nothing`, 'name another output with -o');
}

/** Removes a file that may not be there. */
export async function removeFile(path: string): Promise<void> {
  await (isStored(path) ? (await objects()).removeObject(path) : rm(path, { force: true }));
}

/** Temporary files of this process: what an interruption leaves behind. */
const temporaryPaths = new Set<string>();

/** Removes every file that is still being written: for a process that is about to end. */
export function removeTemporaryFiles(): void {
  for (const path of temporaryPaths) rmSync(path, { force: true });
}

/** Bytes for a path, written to a hidden sibling first: `finish` and `publish`, or `abort`, end it. */
export type AtomicFile = Awaited<ReturnType<typeof openAtomicFile>>;

/**
 * @param folder where the bytes are until they are whole: on the file system of `path`, by default beside it
 * @throws RredcotError where the folder is missing or closed to us, or `path` is no regular file
 */
export async function openAtomicFile(path: string, folder?: string) {
  if (!isStored(path)) await assertFilePlace(path);
  const place = folder ?? (isStored(path) ? tmpdir() : dirname(path));
  const temporaryPath = join(place, `.${basename(path)}.${randomBytes(4).toString('hex')}.tmp`);
  const handle = await open(temporaryPath, 'wx+').catch(failed(path, 'written'));
  temporaryPaths.add(temporaryPath);
  let writing: Promise<void> = Promise.resolve();
  let isOpen = true;

  return {
    path,
    temporaryPath,
    /** For a worker thread that writes on its own: descriptors belong to the process. */
    descriptor: handle.fd,

    /** Writes while the caller makes the next bytes: these must not change any more. @throws RredcotError where this write or the one before it failed */
    async write(bytes: Uint8Array): Promise<void> {
      await writing.catch(failed(path, 'written'));
      // in as few calls as the system allows: `writeFile` makes four of 2 MiB
      writing = writeWhole(handle, bytes);
      // a failure is told by the next call; until then it is nobody's
      writing.catch(() => {});
    },

    /** Makes the bytes durable, under their hidden name. @param facts what the file says of them, where its metadata have a place for it */
    async finish(facts?: Facts): Promise<void> {
      try {
        await writing;
        if (facts !== undefined) await writeFacts(handle, facts);
        await handle.sync();
        isOpen = false;
        await handle.close();
      } catch (error) {
        throw fileError(error, path, 'written');
      }
    },

    /** Gives them their name. @param replaces as of {@link putInPlace} */
    async publish(replaces = true): Promise<void> {
      await putInPlace(temporaryPath, path, replaces).catch(failed(path, 'written'));
      temporaryPaths.delete(temporaryPath);
    },

    /** Removes what was written; does nothing after `publish` or a second time. */
    async abort(): Promise<void> {
      if (!temporaryPaths.delete(temporaryPath)) return;
      // what fails while a failure is tidied up says nothing new
      await writing.catch(() => {});
      if (isOpen) await handle.close().catch(() => {});
      await rm(temporaryPath, { force: true }).catch(() => {});
    },
  };
}

/** Writes a small file of the run folder whole or not at all. */
export function writeJson(path: string, value: unknown): Promise<void> {
  return writeText(path, `${JSON.stringify(value)}\n`);
}

/** The same for a text, or bytes. @param folder where it lies until it is whole; by default beside itself */
export async function writeText(path: string, text: string | Uint8Array, folder?: string): Promise<void> {
  const file = await openAtomicFile(path, folder);
  try {
    await file.write(Buffer.from(text));
    await file.finish();
    await file.publish();
  } finally {
    await file.abort();
  }
}

/** How file systems, and Windows, say that a folder cannot be synced there. */
const NO_FOLDER_SYNC = new Set('EINVAL ENOTSUP EOPNOTSUPP ENOSYS EISDIR EACCES EPERM EBADF'.split(' '));

/** A name in a folder is durable once the folder is; some file systems cannot sync one. */
export async function syncFolder(path: string): Promise<void> {
  try {
    const folder = await open(path, 'r');
    await folder.sync().finally(() => folder.close());
  } catch (error) {
    if (!NO_FOLDER_SYNC.has((error as NodeJS.ErrnoException).code ?? ''))
      throw fileError(error, path, 'written');
  }
}

/** @throws RredcotError (exit 2) where it cannot be made */
export async function makeFolder(path: string): Promise<void> {
  // of a read-only file system Node says here that there is no such folder, and a plain call what it is
  const made = mkdir(path, { recursive: true }).catch(async (error: unknown) => {
    const plain = await mkdir(path).catch((each: NodeJS.ErrnoException) => each);
    if (plain !== undefined) throw plain.code === 'EROFS' ? plain : error;
  });
  await made.catch(failed(path, 'written'));
}

/** A folder in one that is there: where the same command, started twice, has taken that away, it is not made again. */
export async function makeInside(path: string): Promise<void> {
  await mkdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw fileError(error, path, 'written');
  });
}
