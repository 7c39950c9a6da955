// A file that appears under its name whole or not at all.

import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { EXIT, RredcotError } from '../errors.js';

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

  /** @throws RredcotError where the folder is missing or closed to us, or `path` is no regular file */
  static async open(path: string): Promise<AtomicFile> {
    const present = await stat(path).catch(() => null);
    // a rename would put a file in the place of a folder, a pipe or /dev/null
    if (present !== null && !present.isFile()) {
      const found = present.isDirectory() ? 'a folder' : 'no regular file';
      throw new RredcotError(`${path}: is ${found}, cannot be written as a file`, {
        exitCode: EXIT.usage,
        hint: 'name a file with -o, or - for stdout',
      });
    }
    const temporaryPath = join(dirname(path), `.${basename(path)}.${randomBytes(4).toString('hex')}.tmp`);
    try {
      return new AtomicFile(path, temporaryPath, await open(temporaryPath, 'wx'));
    } catch (error) {
      throw writeError(error, path);
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
      throw writeError(error, this.path);
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
      await rm(this.temporaryPath, { force: true });
      throw writeError(error, this.path);
    }
  }

  /** Removes what was written; does nothing after `commit` or a second time. */
  async abort(): Promise<void> {
    if (!this.#isOpen) return;
    await this.#close();
    await rm(this.temporaryPath, { force: true });
    temporaryPaths.delete(this.temporaryPath);
  }

  async #close(): Promise<void> {
    this.#isOpen = false;
    await this.#handle.close();
  }
}

/** A rename is durable once its folder is; some file systems cannot sync one. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => null);
  await folder?.sync().catch(() => {});
  await folder?.close();
}

/** Names the output in an error of the file system. */
export function writeError(error: unknown, path: string): unknown {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  if (error instanceof RredcotError || code === undefined) return error;
  const reasons: Record<string, string> = {
    ENOENT: 'no such folder',
    EACCES: 'no permission to write there',
    EROFS: 'read-only file system',
    ENOSPC: 'no space left on the device',
    EDQUOT: 'disk quota is used up',
  };
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  return new RredcotError(`${path}: cannot be written: ${reasons[code] ?? code}`, {
    exitCode: isFull ? EXIT.interrupted : EXIT.usage,
    hint: isFull ? 'free some space and start again' : 'choose another place with -o',
    cause: error,
  });
}
