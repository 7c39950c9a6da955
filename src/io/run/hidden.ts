// The folders in which runs make a single file, beside it: found again by the file's name, and removed.
import { readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hiddenFolderAround, runPaths } from '../files/run-paths.js';
import { statIfThere } from '../files/stat-if-there.js';
import { readRunDescription } from './description.js';
import { holdsTraces } from './records.js';

/** The folders of an output's runs, the one that was begun last first. */
export async function hiddenFolders(output: string): Promise<string[]> {
  const parent = dirname(output);
  const names = await readdir(parent).catch((): string[] => []);
  const found = names
    .map((name) => join(parent, name))
    .filter((path) => hiddenFolderAround(output, path) === path);
  const begun = await Promise.all(
    found.map(async (folder) => (await statIfThere(runPaths(folder).run))?.mtimeMs ?? 0),
  );
  return [...found.keys()]
    .sort((a, b) => (begun[b] as number) - (begun[a] as number))
    .map((n) => found[n] as string);
}

/**
 * Whether a run is left in such a folder that could be gone on with: one of a stream cannot.
 * @param made the identity of a run that is at its end
 */
export async function isWorthKeeping(folder: string, made?: string): Promise<boolean> {
  const found = await readRunDescription(folder).catch(() => undefined);
  const canGoOn = found?.inputs.every(({ bytes }) => bytes !== null) === true && found.run !== made;
  return canGoOn && (await holdsTraces(folder));
}

/**
 * Removes such a folder, which is ours by its name. Cut off anywhere it is no run that is done: its records go first. Whoever
 * still writes there finds it gone.
 */
export async function removeHidden(folder: string): Promise<void> {
  for (const name of ['done', ''])
    await rm(join(folder, name), { recursive: true, force: true, maxRetries: 5 });
}

/**
 * Removes what other runs have left of an output that has just been made.
 * @param run its identity
 * @param all also what could be gone on with: the user has said that this output takes its place
 */
export async function removeOthers(output: string, run: string, all: boolean): Promise<void> {
  for (const folder of await hiddenFolders(output))
    if (all || !(await isWorthKeeping(folder, run))) await removeHidden(folder);
}
