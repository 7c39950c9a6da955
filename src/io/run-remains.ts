// What a run has left in its folder: whether there is one, whether it is worth keeping; and dropping it.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { removeRun, runPaths } from './run-folder.js';
import type { Shard } from './shard.js';
import { isAbsent, statIfThere } from './stat-if-there.js';

/** Drops the run that is in the folder. @returns whether there was one */
export async function dropRun(folder: string): Promise<boolean> {
  if (!(await isBegun(folder))) return false;
  await removeRun(folder);
  return true;
}

/** Whether there is a run in the folder. */
export async function isBegun(folder: string): Promise<boolean> {
  return (await statIfThere(runPaths(folder).run)) !== null;
}

/** Whether a run has left a chunk worth keeping, whatever its layout. */
export async function hasRecords(folder: string): Promise<boolean> {
  try {
    const names = await readdir(join(folder, 'done'), { recursive: true });
    return names.some((name) => name.endsWith('.json'));
  } catch (error) {
    // what cannot be looked at may be there
    return !isAbsent(error);
  }
}

/** Whether a shard has set rows aside. */
export async function hasRejects(folder: string, shard: Shard): Promise<boolean> {
  const names = await readdir(runPaths(folder).rejects(shard)).catch((): string[] => []);
  return names.some((name) => name.endsWith('.jsonl'));
}
