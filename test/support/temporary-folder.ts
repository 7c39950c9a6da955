// A test file's own folders under the system's temporary one, removed when the file has ended.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

const folders: string[] = [];

export async function temporaryFolder(within = tmpdir()): Promise<string> {
  const folder = await mkdtemp(join(within, 'rredcot-'));
  folders.push(folder);
  return folder;
}

// every test file loads this module for itself: the hook is the file's own, and as its first one it runs last
afterAll(async () => {
  for (const folder of folders) await rm(folder, { recursive: true, force: true, maxRetries: 3 });
});
