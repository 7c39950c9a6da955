// Finds the files that the user's paths stand for, sorted.
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { interruptedError, usageError } from '../../errors.js';
import { plural } from '../../plural.js';
import { shellWord } from '../../printable.js';
import { isStored, listObjects, readJson, statIfThere } from '../files/files.js';
import { addressError } from '../files/remote-paths.js';
import { partNumber, ranges, runPaths } from '../files/run-folder.js';

/** Names of files with rows; in a folder, others are skipped. */
const KNOWN = /\.(jsonl|ndjson|json)(\.gz|\.zst)?$|\.(parquet|arrow|arrows|feather|ipc)$/i;
/** What datasets keep beside their rows, and what we wrote ourselves. */
const BESIDE =
  /^[._]|\.rejects\.jsonl$|\.summary\.json$|^(dataset_info|dataset_infos|dataset_dict|state|config)\.json$/;
const PATTERN = /[*?[\]{}]/;

/** The files that a path stands for: itself, a pattern's matches, or a folder's files. @throws RredcotError (exit 2) where there are none */
export async function findFiles(path: string): Promise<string[]> {
  if (isStored(path)) return findObjects(path);
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) {
    const files = await listFiles(path);
    if (files.length > 0) return files;
    throw usageError(`${path}: ${NO_ROWS}; hidden ones, and those beginning with _, do not count`, NAMED);
  }
  const address = found === null ? addressError(path) : undefined;
  if (address !== undefined) throw address;
  // a name may hold a bracket: a pattern is one only where there is no such file
  if (found !== null || !PATTERN.test(path)) return [path];
  const { glob } = await import('tinyglobby');
  const matches = await glob(path, { absolute: isAbsolute(path), expandDirectories: false });
  const looked = shellWord(dirname(path.slice(0, path.search(PATTERN) + 1)));
  if (matches.length === 0) throw usageError(`${path}: no file matches`, `${PATTERN_HINT}; ls ${looked}`);
  return matches.sort();
}

const NO_ROWS = 'no file below it is JSONL, JSON, Arrow or Parquet by its name';
const NAMED = 'name the files themselves, or a pattern';
const PATTERN_HINT = '** goes through folders, {a,b} is a or b';

/** The same of an address: names are listed, as there are no folders. */
async function findObjects(path: string): Promise<string[]> {
  if ((await statIfThere(path)) !== null) return [path];
  const isPattern = PATTERN.test(path);
  const known = isPattern
    ? path.slice(0, path.search(PATTERN)).replace(/[^/]*$/, '')
    : path.replace(/\/*$/, '/');
  const names = (await listObjects(known)).map((each) => each.slice(known.length)).sort();
  const all = (chosen: readonly string[]) => chosen.map((name) => `${known}${name}`);
  if (isPattern) {
    const { default: picomatch } = await import('picomatch');
    const matches = picomatch(path.slice(known.length));
    const matching = names.filter((name) => matches(name));
    if (matching.length > 0) return all(matching);
    throw usageError(`${path}: no object matches`, PATTERN_HINT);
  }
  const parts = await partsOfRun(known.slice(0, -1), names);
  if (parts !== null) return parts.map((part) => `${known}${basename(part)}`);
  const rows = names.filter((name) => KNOWN.test(name) && !name.split('/').some((part) => BESIDE.test(part)));
  if (rows.length > 0) return all(rows);
  throw usageError(`${path}: ${names.length === 0 ? 'no such object, and none below it' : NO_ROWS}`, NAMED);
}

// a run's parts, else all files below, sorted by their whole paths
async function listFiles(folder: string): Promise<string[]> {
  const parts = await partsOfRun(folder, await readdir(folder));
  if (parts !== null) return parts;
  const entries: string[] = []; // those of folders end with a slash
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (BESIDE.test(entry.name)) continue;
    const path = join(folder, entry.name);
    const found = entry.isSymbolicLink() ? await stat(path).catch(() => null) : entry;
    if (found?.isDirectory()) entries.push(`${path}/`);
    else if (KNOWN.test(entry.name)) entries.push(path);
  }
  const files: string[] = [];
  for (const path of entries.sort()) files.push(...(path.endsWith('/') ? await listFiles(path) : [path]));
  return files;
}

/** The parts of a folder that is one of our runs, which are its rows; null for any other. @throws RredcotError (exit 75) where parts are missing */
async function partsOfRun(folder: string, names: readonly string[]): Promise<string[] | null> {
  const paths = runPaths(folder);
  if (!names.includes(basename(paths.run))) return null;
  type Described = { readonly parts?: unknown; readonly output?: unknown } | undefined;
  const { parts, output } = (await readJson<Described>(paths.run)) ?? {};
  if (typeof parts !== 'number' || typeof output !== 'string') return null;
  const there = names.filter((name) => partNumber(name) !== undefined && name.endsWith(`.${output}`));
  const numbers = new Set(there.map(partNumber));
  const missing = Array.from({ length: parts }, (_, part) => part).filter((part) => !numbers.has(part));
  if (missing.length > 0)
    throw interruptedError(
      `${folder}: is a run that is not finished: of its ${plural(parts, 'part')} these are missing: ${ranges(missing)}`,
      `finish it with the command that began it; ${shellWord(join(folder, `part-*.${output}`))} is what is done`,
    );
  return there.sort().map((name) => join(folder, name));
}
