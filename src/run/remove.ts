// What runs have made, taken away again: in a user's folder their own files and nothing else, beside a single file their hidden folders.
import { lstat, readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { usageError } from '../errors.js';
import type { Shard } from '../io/files/chunks.js';
import { isAbsent, statIfThere } from '../io/files/file-error.js';
import { readJson } from '../io/files/json-file.js';
import {
  CARD_NAME,
  hiddenFolderAround,
  hiddenParent,
  runPaths,
  WORKERS_NAME,
} from '../io/files/run-paths.js';
import { COMMANDS, readRunDescription } from './description.js';
import { holdsTraces } from './records.js';
import { isOwnCard } from './success.js';

/** First what says that something is done, last what says that there is a run: cut off anywhere, it can be dropped again. */
const OWN_NAMES = [
  ...['_SUCCESS', CARD_NAME, 'done', 'chunks', 'rejects', WORKERS_NAME, 'survey.json', 'run.json'],
];

/** Names below the folders of a run. */
const SHARD = /^\d{5}-of-\d{5}$/;
const OWN_FILES: Readonly<Record<'done' | 'chunks' | 'rejects', RegExp>> = {
  done: /^\d{6,}\.json$/,
  chunks: /^\d{6,}\.(parquet|arrow|jsonl)$/,
  rejects: /^\d{6,}\.jsonl$/,
};
const HALF_WRITTEN = /^\..*\.tmp$/;

/** Another process may put a file into a folder that is being removed: it is looked at again. */
const WHOLLY = { recursive: true, force: true, maxRetries: 5 } as const;

/** Drops the run that is in a user's folder. @throws RredcotError (exit 2) where something there has a run's name and is no run's */
export async function dropRun(folder: string): Promise<void> {
  if (!(await isBegun(folder))) return;
  const stranger = await findStranger(folder);
  if (stranger !== undefined)
    throw usageError(
      `${stranger}, and is not touched: no run is dropped beside it`,
      'move it away, or name another output with -o',
    );
  for (const name of OWN_NAMES) await rm(join(folder, name), WHOLLY);
}

/** Whether there is a run in the folder. */
export async function isBegun(folder: string): Promise<boolean> {
  return (await statIfThere(runPaths(folder).run)) !== null;
}

/** The first thing under a run's names that no run has made, as half a sentence. */
async function findStranger(folder: string): Promise<string | undefined> {
  const paths = runPaths(folder);
  const found = await readJson<Record<string, unknown>>(paths.run);
  const isOurs =
    typeof found?.rredcot === 'string' &&
    typeof found.format === 'number' &&
    COMMANDS.some((name) => name === found.command);
  if (!isOurs) return `${paths.run}: is not what rredcot writes`;
  if (!(await isOwnCard(folder, found.format as number))) return `${paths.card}: is not the card of the run`;
  for (const [name, own] of Object.entries(OWN_FILES)) {
    const stranger = await strangerBelow(join(folder, name), own);
    if (stranger !== undefined) return `${stranger}: is none of the run's files`;
  }
  return undefined;
}

async function strangerBelow(folder: string, own: RegExp): Promise<string | undefined> {
  const top = await lstat(folder).catch((error: unknown) => {
    if (isAbsent(error)) return undefined;
    throw error;
  });
  if (top === undefined) return undefined;
  if (!top.isDirectory()) return folder;
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (HALF_WRITTEN.test(entry.name)) continue;
    // a shard's record stands beside the folder of its chunks' records
    if (entry.isFile() && folder.endsWith('done') && SHARD.test(entry.name.replace(/\.json$/, ''))) continue;
    if (!entry.isDirectory() || !SHARD.test(entry.name)) return path;
    for (const each of await readdir(path, { withFileTypes: true }))
      if (!each.isFile() || !(own.test(each.name) || HALF_WRITTEN.test(each.name)))
        return join(path, each.name);
  }
  return undefined;
}

/** Whether something is being written in a run's folder, or was when its process was killed. */
export async function hasHalfWritten(folder: string): Promise<boolean> {
  const names = await readdir(folder, { recursive: true }).catch((): string[] => []);
  return names.some((name) => HALF_WRITTEN.test(basename(name)));
}

/** What is half written where a shard and all shards write: before an attempt has begun to, what killed ones have left. @returns paths */
export async function halfWritten(folder: string, shard: Shard): Promise<string[]> {
  const paths = runPaths(folder);
  const found: string[] = [];
  for (const place of [folder, join(folder, 'done'), ...paths.ofShard(shard)]) {
    const names = await readdir(place).catch((error: unknown): string[] => {
      if (isAbsent(error)) return [];
      throw error;
    });
    found.push(...names.filter((name) => HALF_WRITTEN.test(name)).map((name) => join(place, name)));
  }
  return found;
}

/** By their names: by their times they could not be told from what is written now, whose clock may be a server's. */
export async function removeLeftovers(paths: readonly string[]): Promise<void> {
  for (const path of paths) await rm(path, { force: true });
}

/** Whether a shard has set rows aside. */
export async function hasRejects(folder: string, shard: Shard): Promise<boolean> {
  const names = await readdir(runPaths(folder).rejects(shard)).catch((): string[] => []);
  return names.some((name) => name.endsWith('.jsonl'));
}

/** The folders of an output's runs, the one that was begun last first. */
export async function hiddenFolders(output: string): Promise<string[]> {
  const parent = hiddenParent(output);
  const names = await readdir(parent).catch((): string[] => []);
  const found = names
    .map((name) => join(parent, name))
    .filter((path) => hiddenFolderAround(output, path) === path);
  const begun = await Promise.all(
    found.map(async (folder) => [(await statIfThere(runPaths(folder).run))?.mtimeMs ?? 0, folder] as const),
  );
  return begun.sort(([a], [b]) => b - a).map(([, folder]) => folder);
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
  for (const name of ['done', '']) await rm(join(folder, name), WHOLLY);
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
