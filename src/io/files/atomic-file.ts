// A file that appears under its name whole or not at all.

import { createHash, type Hash, randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { usageError } from '../../errors.js';
import { writeWhole } from './exact-bytes.js';
import { fileError } from './file-error.js';
import { sealFile } from './seal.js';

/** Temporary files of this process: what an interruption leaves behind. */
const temporaryPaths = new Set<string>();

/** Removes every file that is still being written: for a process that is about to end. */
export function removeTemporaryFiles(): void {
  for (const path of temporaryPaths) rmSync(path, { force: true });
}

/** Bytes for `path`, written to a hidden sibling first; `commit` or `abort` ends it. */
export class AtomicFile {
  readonly path: string;
  readonly temporaryPath: string;
  readonly #handle: FileHandle;
  #hash: Hash | null = null;
  /** the write under way */
  #writing: Promise<void> = Promise.resolve();
  #isOpen = true;
  #isSealed = false;

  private constructor(path: string, temporaryPath: string, handle: FileHandle) {
    this.path = path;
    this.temporaryPath = temporaryPath;
    this.#handle = handle;
    temporaryPaths.add(temporaryPath);
  }

  /**
   * @param folder where the bytes are until they are whole: on the file system of `path`, by default beside it
   * @throws RredcotError where the folder is missing or closed to us, or `path` is no regular file
   */
  static async open(path: string, folder: string = dirname(path)): Promise<AtomicFile> {
    const present = await stat(path).catch(() => null);
    // a rename would put a file in the place of a folder, a pipe or /dev/null
    if (present !== null && !present.isFile()) {
      const found = present.isDirectory() ? 'a folder' : 'no regular file';
      throw usageError(
        `${path}: is ${found}, cannot be written as a file`,
        'name a file with -o, or - for stdout',
      );
    }
    const temporaryPath = join(folder, `.${basename(path)}.${randomBytes(4).toString('hex')}.tmp`);
    try {
      return new AtomicFile(path, temporaryPath, await open(temporaryPath, 'wx+'));
    } catch (error) {
      throw fileError(error, path, 'written');
    }
  }

  /** For a worker thread that writes on its own: descriptors belong to the process. */
  get descriptor(): number {
    return this.#handle.fd;
  }

  /** Asks for the hash of what is going to be written, which costs less than reading it again. */
  hashed(): this {
    this.#hash = createHash('sha256');
    return this;
  }

  /** Asks for the file's own hash in its metadata, which have to hold `UNSEALED` where it goes. */
  sealed(): this {
    this.#isSealed = true;
    return this;
  }

  /**
   * Writes while the caller makes the next bytes, one write at a time: these bytes must not change any more.
   * @throws RredcotError where this write or the one before it failed
   */
  async write(bytes: Uint8Array): Promise<void> {
    await this.flush();
    // in as few calls as the system allows: `writeFile` makes four of 2 MiB
    this.#writing = writeWhole(this.#handle, bytes);
    // a failure is told by the next call; until then it is nobody's
    this.#writing.catch(() => {});
    this.#hash?.update(bytes);
  }

  /** All that was written is in the file, for others to read; not yet durable. */
  async flush(): Promise<void> {
    try {
      await this.#writing;
    } catch (error) {
      throw fileError(error, this.path, 'written');
    }
  }

  /**
   * Makes the bytes durable and the file visible.
   * @returns their SHA-256 in hexadecimal digits; null where it was not asked for, or is written into them
   */
  async commit(): Promise<string | null> {
    try {
      await this.#writing;
      const hash = this.#hash?.digest('hex');
      if (this.#isSealed) await sealFile(this.#handle, hash);
      await this.#handle.sync();
      await this.#close();
      await rename(this.temporaryPath, this.path);
      temporaryPaths.delete(this.temporaryPath);
      await syncFolder(dirname(this.path));
      return this.#isSealed ? null : (hash ?? null);
    } catch (error) {
      await rm(this.temporaryPath, { force: true }).catch(() => {});
      throw fileError(error, this.path, 'written');
    }
  }

  /** Removes what was written; does nothing after `commit` or a second time. */
  async abort(): Promise<void> {
    if (!this.#isOpen) return;
    // what fails while a failure is tidied up says nothing new
    await this.#close().catch(() => {});
    await rm(this.temporaryPath, { force: true }).catch(() => {});
    temporaryPaths.delete(this.temporaryPath);
  }

  async #close(): Promise<void> {
    this.#isOpen = false;
    await this.#writing.catch(() => {});
    await this.#handle.close();
  }
}

/** How file systems, and Windows, say that a folder cannot be synced there. */
const NO_FOLDER_SYNC = new Set([
  'EINVAL',
  'ENOTSUP',
  'EOPNOTSUPP',
  'ENOSYS',
  'EISDIR',
  'EACCES',
  'EPERM',
  'EBADF',
]);

/** A name in a folder is durable once the folder is; some file systems cannot sync one. */
export async function syncFolder(path: string): Promise<void> {
  try {
    await using folder = await open(path, 'r');
    await folder.sync();
  } catch (error) {
    if (!NO_FOLDER_SYNC.has((error as NodeJS.ErrnoException).code ?? ''))
      throw fileError(error, path, 'written');
  }
}
