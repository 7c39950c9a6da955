// The chunks of a run in, one file out.
import { readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { throwIfInterrupted } from '../errors.js';
import { AtomicFile, syncFolder } from './atomic-file.js';
import { fileBytes } from './file-bytes.js';
import type { OutputFormat } from './output.js';
import { type ChunkRecord, removeRun, runPaths } from './run-folder.js';
import { WHOLE } from './shard.js';

export interface MergeTarget {
  readonly path: string;
  readonly format: OutputFormat;
  readonly extension: string;
  readonly rejects: string;
}

/**
 * Makes a single file, and its rejects file, of a run of one shard, and removes the folder. After an interruption at any
 * point the next start does the same again.
 * @param signal ends it early, with nothing lost
 * @param records of all chunks; without them the rejects alone are published, and the folder stays
 */
export async function publishFile(
  folder: string,
  { path, format, extension, rejects }: MergeTarget,
  metadata: Readonly<Record<string, string>>,
  signal: AbortSignal,
  records?: readonly ChunkRecord[],
): Promise<void> {
  const paths = runPaths(folder);
  // what is half written lies in the folder that goes, so that a death leaves nothing beside the output
  const names = (await readdir(paths.rejects(WHOLE))).filter((name) => !name.startsWith('.')).sort();
  if (names.length === 0) await rm(rejects, { force: true });
  else
    await joinBytes(
      names.map((name) => join(paths.rejects(WHOLE), name)),
      await AtomicFile.open(rejects, folder),
      signal,
    );
  if (records === undefined) return;

  const sorted = [...records].sort((a, b) => a.chunk - b.chunk);
  const files = sorted.map(({ chunk }) => paths.chunk(WHOLE, chunk, extension));
  if (files.length === 1) {
    await rename(files[0] as string, path);
    await syncFolder(dirname(path));
  } else await joinChunks(files, sorted, format, await AtomicFile.open(path, folder), metadata, signal);
  try {
    await removeRun(folder);
    await rm(folder, { recursive: true, force: true });
  } catch (error) {
    // another attempt at the same output still writes there: it removes the folder when it ends
    if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
  }
}

async function joinChunks(
  files: readonly string[],
  records: readonly ChunkRecord[],
  format: OutputFormat,
  target: AtomicFile,
  metadata: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  const rows = records.reduce((sum, { traces }) => sum + traces, 0);
  const rawBytes = records.reduce((sum, { raw_bytes }) => sum + raw_bytes, 0);
  try {
    if (format === 'jsonl') await joinBytes(files, target, signal);
    else if (format === 'arrow') {
      const { copyArrow } = await import('./arrow-writer.js');
      const found = await copyArrow(
        target,
        files,
        target.path.toLowerCase().endsWith('.arrows') ? 'stream' : 'file',
      );
      if (found !== rows)
        throw new Error(`${target.path}: ${rows} rows were to be copied, the file holds ${found}`);
    } else {
      const { copyParquet } = await import('./parquet.js');
      await copyParquet(target, files, { rows, rawBytes }, metadata, signal);
    }
  } finally {
    await target.abort();
  }
}

/** Lines after lines; gzip members after gzip members. */
async function joinBytes(files: readonly string[], target: AtomicFile, signal: AbortSignal): Promise<void> {
  try {
    for (const file of files)
      for await (const bytes of fileBytes(file)) {
        throwIfInterrupted(signal);
        await target.write(bytes);
      }
    await target.commit();
  } finally {
    await target.abort();
  }
}
