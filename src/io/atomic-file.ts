// A file that appears under its name whole or not at all.

import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { EXIT, RredcotError } from '../errors.js';
import { fileError } from './file-error.js';

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
  #isOpen = true;

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
      throw new RredcotError(`${path}: is ${found}, cannot be written as a file`, {
        exitCode: EXIT.usage,
        hint: 'name a file with -o, or - for stdout',
      });
    }
    const temporaryPath = join(folder, `.${basename(path)}.${randomBytes(4).toString('hex')}.tmp`);
    try {
      return new AtomicFile(path, temporaryPath, await open(temporaryPath, 'wx'));
    } catch (error) {
      throw fileError(error, path, 'written');
    }
  }

  /** For a worker thread that writes on its own: descriptors belong to the process. */
  get descriptor(): number {
    return this.#handle.fd;
  }

  async write(bytes: Uint8Array): Promise<void> {
    try {
      await this.#handle.writeFile(bytes);
    } catch (error) {
      throw fileError(error, this.path, 'written');
    }
  }

  /** Makes the bytes durable and the file visible. */
  async commit(): Promise<void> {
    try {
      await this.#handle.sync();
      await this.#close();
      await rename(this.temporaryPath, this.path);
      temporaryPaths.delete(this.temporaryPath);
      await syncFolder(dirname(this.path));
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
