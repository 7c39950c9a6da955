// Puts files into a policy folder: links where the file system allows, whole files otherwise.
import { constants } from 'node:fs';
import { copyFile, link, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';

/** A hard link where source and target share a file system that has them, else a copy, which is logged. */
export async function linkOrCopy(from: string, to: string, log?: (message: string) => void): Promise<void> {
  const source = await realpath(from);
  await rm(to, { force: true });
  try {
    await link(source, to);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const megabytes = Math.ceil((await stat(source)).size / 1e6);
    log?.(`${to}: copied (${megabytes} MB), it cannot be linked to ${source}: ${reasonOf(code)}`);
    await copyFile(source, to, constants.COPYFILE_FICLONE);
  }
}

function reasonOf(code: string | undefined): string {
  if (code === 'EXDEV') return 'it lies on another file system';
  return code === 'EPERM' || code === 'ENOTSUP' ? `the system allows no hard link (${code})` : String(code);
}

/** Writes a file so that its name stands for the old content or the new, never for half of it. */
export async function replaceFile(path: string, content: string | Uint8Array): Promise<void> {
  await writeFile(`${path}.tmp`, content);
  await rename(`${path}.tmp`, path);
}
