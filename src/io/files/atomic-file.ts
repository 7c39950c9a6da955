// A file that appears under its name whole or not at all.
import { createHash, type Hash, randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { type FileHandle, link, mkdir, open, readlink, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { OvertakenError, usageError } from '../../errors.js';
import { sha256OfFile, writeWhole } from './file-bytes.js';
import { failed, fileError, statIfThere } from './file-error.js';
import { isStored } from './opened.js';
import { sealFile } from './seal.js';

// what speaks to a store is loaded for such a path alone
const uploads = () => import('../store/upload.js');

/** How a file system says that it has no hard links. */
export const NO_HARD_LINKS: ReadonlySet<string> = new Set([
  'EPERM',
  'ENOTSUP',
  'EOPNOTSUPP',
  'ENOSYS',
  'EMLINK',
]);

/**
 * Gives a whole file of this machine its name, which an address is too.
 * @param replaces whatever is there; else another file that has been put there meanwhile stays
 * @throws RredcotError (exit 2) where it does
 */
export async function putInPlace(from: string, to: string, replaces = true): Promise<void> {
  if (isStored(to)) {
    await (await uploads()).putObject(from, to, replaces);
    return rm(from, { force: true });
  }
  if (replaces || !(await linkedAnew(from, to))) await rename(from, to);
  await syncFolder(dirname(to));
}

/** Gives a file a name that nothing has. @returns false where only a rename can, or where it can do no harm */
async function linkedAnew(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (NO_HARD_LINKS.has(code)) return false;
    if (code !== 'EEXIST') throw error;
    // an attempt that was cut off right behind it has put the same there; a link to nothing holds nothing
    const own = await sha256OfFile(from);
    // taken away by the same command, started twice: the rename says so
    const isGone = own === null;
    if (isGone || own === (await sha256OfFile(to)) || (await statIfThere(to)) === null) return false;
    throw new OvertakenError(to);
  }
  await rm(from);
  return true;
}

/** Removes a file that may not be there. */
export async function removeFile(path: string): Promise<void> {
  await (isStored(path) ? (await uploads()).removeObject(path) : rm(path, { force: true }));
}

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

  private constructor(
    path: string,
    temporaryPath: string,
    handle: FileHandle,
    private readonly replaces: boolean,
  ) {
    this.path = path;
    this.temporaryPath = temporaryPath;
    this.#handle = handle;
    temporaryPaths.add(temporaryPath);
  }

  /**
   * @param folder where the bytes are until they are whole: on the file system of `path`, by default beside it
   * @param replaces as of {@link putInPlace}
   * @throws RredcotError where the folder is missing or closed to us, or `path` is no regular file
   */
  static async open(path: string, folder: string = placeFor(path), replaces = true): Promise<AtomicFile> {
    const present = isStored(path) ? null : await stat(path).catch(() => null);
    // a rename would put a file in the place of a folder, a pipe or /dev/null
    if (present !== null && !present.isFile()) {
      const found = present.isDirectory() ? 'a folder' : 'no regular file';
      throw usageError(
        `${path}: is ${found}, cannot be written as a file`,
        'name a file with -o, or - for stdout',
      );
    }
    const temporaryPath = join(folder, `.${basename(path)}.${randomBytes(4).toString('hex')}.tmp`);
    const handle = await open(temporaryPath, 'wx+').catch(failed(path, 'written'));
    return new AtomicFile(path, temporaryPath, handle, replaces);
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
    await this.#writing.catch(failed(this.path, 'written'));
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
      await putInPlace(this.temporaryPath, this.path, this.replaces);
      temporaryPaths.delete(this.temporaryPath);
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

function placeFor(path: string): string {
  return isStored(path) ? tmpdir() : dirname(path);
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

/** Node's own recursive mkdir never returns where the parent is there and makes no folders (/proc). */
export async function makeFolder(path: string): Promise<void> {
  const parent = dirname(path);
  const hasParent = await stat(parent).then(
    () => true,
    () => false,
  );
  if (!hasParent && parent !== path) await makeFolder(parent);
  await mkdir(path).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
    const isLost = (await statIfThere(path)) === null && (await readlink(path).catch(() => null)) !== null;
    if (isLost)
      throw usageError(
        `${path}: is a link to a folder that is not there`,
        'make that folder, or choose another place with -o',
      );
  });
}
