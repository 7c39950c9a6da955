// The chunks of a run of one shard in, the single file that the run was begun for out; the folder goes.
//
// One shard's chunks follow each other, so they are joined as they are; merge-run is for rows that alternate between shards.
import { readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { throwIfInterrupted } from '../errors.js';
import { AtomicFile, syncFolder } from './atomic-file.js';
import { fileBytes } from './file-bytes.js';
import type { OutputFormat } from './output.js';
import { type ChunkRecord, removeRunFolder, runPaths } from './run-folder.js';
import { WHOLE } from './shard.js';

/** What the user asked for. */
export interface PublishTarget {
  readonly path: string;
  readonly format: OutputFormat;
  readonly extension: string;
  readonly rejects: string;
}

/**
 * Makes a single file, and its rejects file, of a run of one shard, and removes the folder. After an interruption at any
 * point the next start does the same again.
 * @param signal ends it early, with nothing lost
 * @param records of all chunks
 */
export async function publishFile(
  folder: string,
  { path, format, extension, rejects }: PublishTarget,
  metadata: Readonly<Record<string, string>>,
  signal: AbortSignal,
  records: readonly ChunkRecord[],
): Promise<void> {
  await publishRejects(folder, rejects, signal);
  const paths = runPaths(folder);
  const sorted = [...records].sort((a, b) => a.chunk - b.chunk);
  const files = sorted.map(({ chunk }) => paths.chunk(WHOLE, chunk, extension));
  if (files.length === 1) {
    await rename(files[0] as string, path);
    await syncFolder(dirname(path));
  } else await joinChunks(files, sorted, format, await AtomicFile.open(path, folder), metadata, signal);
  await removeRunFolder(folder);
}

/** Makes the rejects file alone of what is there, and leaves the folder. Without a reject, that of before is removed. */
export async function publishRejects(folder: string, path: string, signal: AbortSignal): Promise<void> {
  const from = runPaths(folder).rejects(WHOLE);
  const names = (await readdir(from)).filter((name) => !name.startsWith('.')).sort();
  if (names.length === 0) return rm(path, { force: true });
  // what is half written lies in the folder that goes, so that a death leaves nothing beside the output
  await joinBytes(
    names.map((name) => join(from, name)),
    await AtomicFile.open(path, folder),
    signal,
  );
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
        signal,
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
