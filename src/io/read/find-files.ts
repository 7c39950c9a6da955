// Finds the files that the user's paths stand for, sorted: patterns and folders become their files.

import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { usageError } from '../../errors.js';
import { shellWord } from '../../printable.js';
import { addressError } from '../files/elsewhere.js';
import { readJson, readSmallFile } from '../files/json-file.js';
import { chunkNumber, runPaths } from '../files/run-paths.js';

/** Names of files with rows; in a folder, others are passed over. */
const KNOWN = /\.(jsonl|ndjson|json)(\.gz|\.zst)?$|\.(parquet|arrow|arrows|feather|ipc)$/i;
/** What datasets keep beside their rows, and what we wrote ourselves. */
const BESIDE =
  /^[._]|\.rejects\.jsonl$|\.summary\.json$|^(dataset_info|dataset_infos|dataset_dict|state|config)\.json$/;
const PATTERN = /[*?[\]{}]/;

/**
 * The files that a path stands for: itself, a pattern's matches, or a folder's files.
 * @throws RredcotError (exit 2) where there are none
 */
export async function findFiles(path: string): Promise<string[]> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) return folderFiles(path);
  const address = found === null ? addressError(path) : undefined;
  if (address !== undefined) throw address;
  // a name may hold a bracket: a pattern is one only where there is no such file
  if (found !== null || !PATTERN.test(path)) return [path];
  const { glob } = await import('tinyglobby');
  const matches = await glob(path, { absolute: isAbsolute(path), expandDirectories: false });
  if (matches.length === 0)
    throw usageError(
      `${path}: no file matches`,
      `** goes through folders, {a,b} is a or b; ls ${shellWord(dirname(path.slice(0, path.search(PATTERN) + 1)))}`,
    );
  return matches.sort(byCodeUnit);
}

async function folderFiles(folder: string): Promise<string[]> {
  const files = await listFiles(folder);
  if (files.length === 0)
    throw usageError(
      `${folder}: no file in this folder is JSONL, JSON, Arrow or Parquet by its name`,
      'name the files themselves; a hidden one, or one beginning with _, is not looked at',
    );
  return files;
}

// a data set's own list of files where it has one, a run's chunks, else all below, sorted by their whole paths
async function listFiles(folder: string): Promise<string[]> {
  const own = await savedFiles(folder);
  if (own !== null) return own;
  if (await isRun(folder)) {
    const chunks = await listFiles(join(folder, 'chunks'));
    return chunks.sort((a, b) => chunkNumber(a) - chunkNumber(b));
  }
  const entries: { path: string; isFolder: boolean }[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (BESIDE.test(entry.name)) continue;
    const path = join(folder, entry.name);
    const found = entry.isSymbolicLink() ? await stat(path).catch(() => null) : entry;
    if (found?.isDirectory()) entries.push({ path: `${path}/`, isFolder: true });
    else if (KNOWN.test(entry.name)) {
      // nobody may ever write to a pipe, and a device may have no end
      if (found !== null && !found.isFile())
        throw usageError(`${path}: is no regular file`, 'move it away, or name the files themselves');
      entries.push({ path, isFolder: false });
    }
  }
  const files: string[] = [];
  for (const { path, isFolder } of entries.sort((a, b) => byCodeUnit(a.path, b.path)))
    files.push(...(isFolder ? await listFiles(path) : [path]));
  return files;
}

/** The files of a folder that Hugging Face's `save_to_disk` wrote, in the data set's order; null for any other. */
async function savedFiles(folder: string): Promise<string[] | null> {
  const text = await readSmallFile(join(folder, 'state.json')).catch(() => null);
  if (text === null) return null;
  let state: { _data_files?: unknown; _indices_files?: unknown; _indices_data_files?: unknown };
  try {
    state = JSON.parse(text);
  } catch {
    return null;
  }
  const { _data_files: data, _indices_files: indices, _indices_data_files: oldIndices } = state ?? {};
  if (!Array.isArray(data)) return null;
  const hasItems = (list: unknown): boolean => Array.isArray(list) && list.length > 0;
  if (hasItems(indices) || hasItems(oldIndices))
    throw usageError(
      `${folder}: this data set picks its rows by an index file, which is not read`,
      'flatten_indices() before save_to_disk()',
    );
  return data.map((file: unknown) => {
    const name = (file as { filename?: unknown } | null)?.filename;
    if (typeof name !== 'string' || name === '' || basename(name) !== name)
      throw usageError(
        `${join(folder, 'state.json')}: names no file in _data_files`,
        `name the files themselves: ${folder}/*.arrow`,
      );
    return join(folder, name);
  });
}

/**
 * Whether a folder is one of our runs: its rows are its chunks, and nothing else.
 * @throws RredcotError (exit 2) where it is not finished, and its chunks are not all of its rows
 */
async function isRun(folder: string): Promise<boolean> {
  const { run, success } = runPaths(folder);
  const description = await readJson<{ rredcot?: unknown }>(run);
  if (typeof description?.rredcot !== 'string') return false;
  if ((await stat(success).catch(() => null)) === null)
    throw usageError(
      `${folder}: is a run that is not finished (rredcot status ${shellWord(folder)})`,
      `finish it with the command that began it; ${join(folder, 'chunks')} has what is done`,
    );
  return true;
}

function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
