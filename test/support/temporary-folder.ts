// A test file's own folders under the system's temporary one, removed when the file has ended.
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folders: string[] = [];

export async function temporaryFolder(within = tmpdir()): Promise<string> {
  const folder = await mkdtemp(join(within, 'rredcot-'));
  folders.push(folder);
  return folder;
}

/** The folder in which a run makes a file; undefined where there is none. @param output name of the file in `folder` */
export async function hiddenRun(folder: string, output: string): Promise<string | undefined> {
  const names = await readdir(folder);
  const stem = `.${output}.`;
  const found = names.find((name) => name.startsWith(stem) && /^[0-9a-f]{16}$/.test(name.slice(stem.length)));
  return found === undefined ? undefined : join(folder, found);
}

export async function removeTemporaryFolders(): Promise<void> {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true, maxRetries: 3 });
}
