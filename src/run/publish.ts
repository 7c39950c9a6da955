// Publishes the file of a run that was begun for it, with its rejects; the folder goes.
import { readdir, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { EXIT, OvertakenError, RredcotError } from '../errors.js';
import { putInPlace, removeFile } from '../io/files/atomic-file.js';
import { shardOf } from '../io/files/chunks.js';
import { sha256OfFiles } from '../io/files/file-bytes.js';
import { statIfThere } from '../io/files/file-error.js';
import { removeSum } from '../io/files/json-file.js';
import { chunkNumber, runPaths, summaryPath } from '../io/files/run-paths.js';
import type { OutputFormat, WholeFile } from '../io/write/output.js';
import { type JoinedFile, joinLines, openJoined } from './join.js';
import { type ChunkRecord, chunkDamage, sumCounts } from './records.js';
import { dropRun, removeHidden, removeOthers } from './remove.js';
import { readSummary, writeSums } from './summary-file.js';

/** What the user asked for; its chunks have the same format. */
export interface PublishTarget {
  readonly path: string;
  readonly format: OutputFormat;
  readonly rejects: string;
  /** what other runs have left of this output goes, whatever it is */
  readonly replaces: boolean;
  /** the file itself, where it was written on the way and waits for its name */
  readonly whole: WholeFile | undefined;
  /** asked right before something gets its name @throws RredcotError (exit 2) where another command's file stands there by now */
  readonly assertFree: () => Promise<void>;
  /** what is to stand beside the file when this is seen */
  readonly summarise: () => Promise<void>;
}

/**
 * Makes a single file, and its rejects file, of a finished run, and removes the run with its folder. After an interruption at any
 * point the next start does the same again.
 * @param records of all chunks of all shards
 * @param onProgress called every few megabytes; may throw to stop, with nothing lost
 * @throws RredcotError (exit 75) where a chunk is no longer what was written
 */
export async function publishFile(
  folder: string,
  { path, format, rejects, replaces, whole, assertFree, summarise }: PublishTarget,
  records: readonly ChunkRecord[],
  shards: number,
  onProgress: () => void,
): Promise<void> {
  const paths = runPaths(folder);
  const sorted = [...records].sort((a, b) => a.chunk - b.chunk);
  for (const record of whole === undefined ? sorted : []) {
    onProgress();
    const damage = await chunkDamage(folder, shardOf(record.chunk, shards), record, format);
    if (damage === undefined) continue;
    // what another process took away is told as with any file of the run
    await stat(paths.chunk(shardOf(record.chunk, shards), record.chunk, format));
    throw new RredcotError(`${damage}: another process is at work in the run`, {
      exitCode: EXIT.interrupted,
      hint: `if ${path} is not there, the same command again`,
    });
  }
  const ready = async (): Promise<void> => {
    await joinRejects(rejectsInOrder(folder, sorted, shards), folder, rejects, onProgress, assertFree);
    await summarise();
    // an old hash would be another file's; that of a file that has come meanwhile is its own
    if (format === 'jsonl' && (replaces || (await statIfThere(path)) === null)) await removeSum(path);
  };
  const chunks = sorted.map(({ chunk }) => paths.chunk(shardOf(chunk, shards), chunk, format));
  const { run, sha256: own } = sorted[0] as ChunkRecord;
  let sha256: string | null = own;
  try {
    // a packed file and a stream of Arrow are made of chunks that are neither
    if (whole !== undefined) {
      await ready();
      sha256 = await whole.close();
    } else if (chunks.length === 1 && !/\.(gz|arrows)$/i.test(path)) {
      await ready();
      await putInPlace(chunks[0] as string, path, replaces);
    } else {
      const joined = await openJoined(path, { from: format, to: format, folder, replaces, onProgress });
      const traces = format === 'jsonl' ? undefined : sumCounts(sorted).traces;
      sha256 = await joinAll(chunks, path, joined, traces, ready);
    }
  } catch (error) {
    // beside another command's file, which came in between, it would be taken for what that was made with
    if (error instanceof OvertakenError && (await readSummary(path))?.run === run)
      await removeFile(summaryPath(path));
    throw error;
  }
  if (format === 'jsonl' && sha256 !== null) await writeSums(path, sha256, run, folder);
  await removeHidden(folder);
  await removeOthers(path, run, replaces);
}

/** The rejects files of chunks, in the order of their rows. @param sorted records */
function rejectsInOrder(folder: string, sorted: readonly ChunkRecord[], shards: number): string[] {
  const rejected = sorted.filter(({ rejects_sha256: sha256 }) => sha256 !== null);
  return rejected.map(({ chunk }) => runPaths(folder).reject(shardOf(chunk, shards), chunk));
}

/** The hash of the rejects file that {@link publishFile} makes of such records; null where it makes none. */
export async function rejectsHash(
  folder: string,
  records: readonly ChunkRecord[],
  shards: number,
): Promise<string | null> {
  const sorted = [...records].sort((a, b) => a.chunk - b.chunk);
  const files = rejectsInOrder(folder, sorted, shards);
  return files.length === 0 ? null : sha256OfFiles(files);
}

/**
 * @param traces of all of them; undefined of lines, which are not counted
 * @param ready what is to be done before the file gets its name
 */
async function joinAll(
  files: readonly string[],
  path: string,
  joined: JoinedFile,
  traces?: number,
  ready?: () => Promise<void>,
): Promise<string | null> {
  try {
    let found = 0;
    for (const file of files) found += (await joined.add(file)) ?? 0;
    if (traces !== undefined && found !== traces)
      throw new Error(`${path}: ${traces} traces were to be copied, the chunks hold ${found}`);
    await ready?.();
    return await joined.close();
  } finally {
    await joined.abort();
  }
}

/** Makes the rejects file alone of what is there, chunks without a record too, and leaves the folder. */
export async function publishRejects(folder: string, path: string, onProgress: () => void): Promise<void> {
  const files: string[] = [];
  const rejects = join(folder, 'rejects');
  for (const shard of await readdir(rejects))
    for (const name of await readdir(join(rejects, shard)))
      if (!name.startsWith('.')) files.push(join(rejects, shard, name));
  files.sort((a, b) => chunkNumber(a) - chunkNumber(b));
  await joinRejects(files, folder, path, onProgress);
}

/** Without a reject, the file of before is removed. */
async function joinRejects(
  files: readonly string[],
  folder: string,
  path: string,
  onProgress: () => void,
  ready?: () => Promise<void>,
): Promise<void> {
  if (files.length === 0) {
    await ready?.();
    return removeFile(path);
  }
  // what is half written lies in the folder that goes, so that a death leaves nothing beside the output
  await joinAll(files, path, await joinLines(path, { folder, onProgress }), undefined, ready);
}

/**
 * Puts the reasons beside the output and removes the run.
 * @param kind a `folder` is the user's: it stays where it holds something else
 * @param reasons path of the rejects file
 * @param onProgress as of `publishRejects`
 */
export async function endEmptyRun(
  kind: 'file' | 'folder',
  folder: string,
  reasons: string,
  onProgress: () => void,
): Promise<void> {
  await publishRejects(folder, reasons, onProgress);
  if (kind === 'file') return removeHidden(folder);
  await dropRun(folder);
  await rmdir(folder).catch(() => {});
}
