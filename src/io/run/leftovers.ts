// What lies in a run folder beside what is done: files of attempts that died, and rows that were set aside.
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { statIfThere } from '../files/stat-if-there.js';
import type { Shard } from '../layout/chunks.js';
import { runPaths } from '../layout/run-paths.js';

/** What attempts that were killed have left half written; what another attempt writes now is younger. */
export async function removeLeftovers(folders: readonly string[], before: number): Promise<void> {
  for (const folder of folders)
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      if (!name.startsWith('.') || !name.endsWith('.tmp')) continue;
      const found = await statIfThere(path);
      if (found !== null && found.mtimeMs < before) await rm(path, { force: true });
    }
}

/** Where all shards write, small files that are there at once. */
export function sharedFolders(folder: string): string[] {
  return [folder, join(folder, 'done')];
}

/** Whether a shard has set rows aside. */
export async function hasRejects(folder: string, shard: Shard): Promise<boolean> {
  const names = await readdir(runPaths(folder).rejects(shard)).catch((): string[] => []);
  return names.some((name) => name.endsWith('.jsonl'));
}
