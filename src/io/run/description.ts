// run.json: what a run is, written by its first process and compared by every other.
import { createHash } from 'node:crypto';
import { link, mkdir, open, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { usageError } from '../../errors.js';
import { shellWord } from '../../printable.js';
import { syncFolder } from '../files/atomic-file.js';
import { fileError } from '../files/file-error.js';
import { againWhereTaken, readJson } from '../files/json-file.js';
import { statIfThere } from '../files/stat-if-there.js';
import { runPaths } from '../layout/run-paths.js';
import type { Input } from '../read/inputs.js';
import type { OutputFormat } from '../write/output.js';
import { nameOfField } from './flag-names.js';

/** What `run.json` says: everything that the bytes of the chunks depend on. Compared field by field on every start. */
export interface RunDescription {
  /** of run.json itself */
  readonly format: 2;
  readonly rredcot: string;
  readonly command: string;
  /** the resolved configuration, as in the output's metadata */
  readonly config: Readonly<Record<string, unknown>>;
  /** sha256 of the policy's files; null without a policy */
  readonly policy: Readonly<Record<string, string>> | null;
  /** how the policy is run, as far as the last digits depend on it; null without a policy */
  readonly passes: { readonly strategy: string; readonly precision: string } | null;
  /** format of the chunks */
  readonly output: OutputFormat;
  readonly inputs: readonly InputPrint[];
  readonly shards: number;
  readonly rows_per_chunk: number;
}

/** Enough of an input file to notice that it is another one. */
export interface InputPrint {
  readonly path: string;
  readonly bytes: number | null;
  readonly mtime_ms: number | null;
  /** sha256 of its first and of its last MiB */
  readonly head: string | null;
  readonly tail: string | null;
}

const EDGE_BYTES = 2 ** 20;

/** Size, time and edges of the inputs; what can be read only once has none of these. */
export async function fingerprint(inputs: readonly Input[]): Promise<InputPrint[]> {
  const prints: InputPrint[] = [];
  for (const { path, size } of inputs) {
    if (size === null) {
      prints.push({ path, bytes: null, mtime_ms: null, head: null, tail: null });
      continue;
    }
    prints.push(
      await fileFingerprint(path).catch((error: unknown) => {
        throw fileError(error, path, 'read');
      }),
    );
  }
  return prints;
}

/** The same of one file. @throws Error of the file system */
export async function fileFingerprint(path: string): Promise<InputPrint> {
  await using file = await open(path, 'r');
  const { size: bytes, mtimeMs } = await file.stat();
  const edge = async (from: number): Promise<string> => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(EDGE_BYTES), 0, EDGE_BYTES, from);
    return createHash('sha256').update(buffer.subarray(0, bytesRead)).digest('hex');
  };
  const [head, tail] = [await edge(0), await edge(Math.max(0, bytes - EDGE_BYTES))];
  return { path, bytes, mtime_ms: Math.floor(mtimeMs), head, tail };
}

/** A run as it is asked for, before anybody has counted the rows that say how large a chunk is. */
export type AskedRun = Omit<RunDescription, 'rows_per_chunk'> & {
  readonly rows_per_chunk: number | undefined;
};

/**
 * The run that a folder holds, where it is the one that is asked for.
 * @param withOthers the folder may hold other files although it holds no run
 * @returns undefined where there is none
 * @throws RredcotError (exit 2) naming the field in which the run that is there differs
 */
export async function findRun(
  folder: string,
  asked: AskedRun,
  withOthers = false,
): Promise<RunDescription | undefined> {
  const present: string[] = await readdir(folder).catch((error: NodeJS.ErrnoException): string[] => {
    if (error.code !== 'ENOENT') throw fileError(error, folder, 'written');
    return [];
  });
  if (!withOthers && present.some((name) => !name.startsWith('.')) && !present.includes('run.json'))
    throw usageError(
      `${folder}: holds other files and no run.json, expected a run folder or an empty one`,
      'name another folder with -o',
    );
  if (!present.includes('run.json')) return undefined;
  const found = await readRunDescription(folder);
  const wanted = JSON.parse(
    JSON.stringify({ ...asked, rows_per_chunk: asked.rows_per_chunk ?? found.rows_per_chunk }),
  );
  const difference = firstDifference(found, wanted, '');
  const touched = onlyTouched(found.inputs, asked.inputs);
  if (touched !== undefined && difference?.startsWith('inputs.'))
    throw usageError(
      `${folder}: holds a run on ${touched.path} as it was on ${time(touched.before)}; since then it was written, on ${time(touched.now)}`,
      `start again with --restart; or, if its rows are the same: touch -d ${time(touched.before)} ${shellWord(touched.path)}`,
    );
  if (difference !== undefined)
    throw usageError(
      `${folder}: holds another run: in run.json, ${difference}`,
      'give the same flags and inputs, name another -o, or start again with --restart',
    );
  return found;
}

/**
 * Creates the folder for a run. Any number of processes may do so at a time: one of them succeeds.
 * @returns whether it was this one
 */
export function createRun(folder: string, description: RunDescription): Promise<boolean> {
  const content = `${JSON.stringify(description, null, 2)}\n`;
  return againWhereTaken(() => createExclusively(runPaths(folder).run, content, folder));
}

/** @throws RredcotError (exit 2) where there is none that this version reads */
export async function readRunDescription(folder: string): Promise<RunDescription> {
  const { run } = runPaths(folder);
  const found = await readJson<RunDescription>(run);
  if (found === undefined || found.format !== 2)
    throw usageError(
      `${run}: ${found === undefined ? 'is missing or damaged' : `has format ${found.format}`}, expected a run.json of format 2`,
      'name the folder of a run, or start it again with --restart',
    );
  return found;
}

// Node's own recursive mkdir never returns where the parent is there and makes no folders (/proc)
async function makeFolder(path: string): Promise<void> {
  const parent = dirname(path);
  const hasParent = await stat(parent).then(
    () => true,
    () => false,
  );
  if (!hasParent && parent !== path) await makeFolder(parent);
  await mkdir(path).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
    const isLost = (await statIfThere(path)) === null && (await readlink(path).catch(() => null)) !== null;
    if (isLost)
      throw usageError(
        `${path}: is a link to a folder that is not there`,
        'make that folder, or choose another place with -o',
      );
  });
}

/** How a file system says that it has no hard links. */
const NO_HARD_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

/** Makes the file with its whole content, unless it is there. Two processes that try at once: one of them succeeds. */
async function createExclusively(path: string, content: string, folder: string): Promise<boolean> {
  try {
    await makeFolder(folder);
    const own = join(folder, `.run.json.${process.pid}.${Date.now()}.tmp`);
    try {
      await writeFile(own, content, { flush: true });
      await link(own, path);
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST') return false;
      if (!NO_HARD_LINKS.has(code ?? '')) throw error;
      // the content is not there at once, but the name is ours alone
      await writeFile(path, content, { flag: 'wx', flush: true });
      return true;
    } finally {
      await rm(own, { force: true });
      // chunks that outlive a power failure without their run.json could not be resumed
      await syncFolder(folder);
      await syncFolder(dirname(folder));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw fileError(error, path, 'written');
  }
}

const time = (ms: number): string => new Date(ms).toISOString();

/** The first input with another time, where size and edges of all are the same; undefined where more than times differ. */
function onlyTouched(
  found: readonly InputPrint[],
  wanted: readonly InputPrint[],
): { readonly path: string; readonly before: number; readonly now: number } | undefined {
  const timeless = (prints: readonly InputPrint[]) => prints.map((print) => ({ ...print, mtime_ms: null }));
  if (firstDifference(timeless(found), timeless(wanted), '') !== undefined) return undefined;
  const n = wanted.findIndex(({ mtime_ms }, n) => mtime_ms !== found[n]?.mtime_ms);
  const [before, now] = [found[n]?.mtime_ms, wanted[n]?.mtime_ms];
  if (typeof before !== 'number' || typeof now !== 'number') return undefined;
  return { path: (wanted[n] as InputPrint).path, before, now };
}

/** The first place where two JSON values differ, as half a sentence. */
function firstDifference(found: unknown, wanted: unknown, path: string): string | undefined {
  if (typeof found === 'object' && typeof wanted === 'object' && found !== null && wanted !== null) {
    const [a, b] = [found as Record<string, unknown>, wanted as Record<string, unknown>];
    for (const key of new Set([...Object.keys(b), ...Object.keys(a)])) {
      const difference = firstDifference(a[key], b[key], path === '' ? key : `${path}.${key}`);
      if (difference !== undefined) return difference;
    }
    return undefined;
  }
  if (found === wanted) return undefined;
  const text = (value: unknown) => (value === undefined ? 'not set' : JSON.stringify(value));
  return `${nameOfField(path)} is ${text(found)}, here it is ${text(wanted)}`;
}
