// Puts files into a policy folder: links where the file system allows, whole files otherwise.
import { constants } from 'node:fs';
import { copyFile, link, rm, stat } from 'node:fs/promises';
import { AtomicFile } from '../io/files/atomic-file.js';

/** A hard link where source (a real path) and target share a file system that has them, else a copy, which is logged. */
export async function linkOrCopy(source: string, to: string, log?: (message: string) => void): Promise<void> {
  await rm(to, { force: true });
  try {
    await link(source, to);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const megabytes = Math.ceil((await stat(source)).size / 1e6);
    log?.(`${to}: copied (${megabytes} MB), it cannot be linked to ${source}: ${reasonOf(code)}`);
    await copyFile(source, to, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
  }
}

function reasonOf(code: string | undefined): string {
  if (code === 'EXDEV') return 'it lies on another file system';
  return code === 'EPERM' || code === 'ENOTSUP' ? `the system allows no hard link (${code})` : String(code);
}

/**
 * Writes a file so that its name stands for the old content or the new, never for half of it. It is made under a name that
 * nobody can guess: a link under that name could lead anywhere.
 */
export async function replaceFile(path: string, content: string | Uint8Array): Promise<void> {
  const file = await AtomicFile.open(path);
  try {
    await file.write(Buffer.from(content));
    await file.commit();
  } finally {
    await file.abort();
  }
}
