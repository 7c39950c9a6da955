// The rejects files of a run's chunks in, one file with their lines in input order out.
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AtomicFile } from './atomic-file.js';
import { runPaths } from './run-folder.js';
import type { RunState } from './run-state.js';
import { readRejects } from './stored-rejects.js';
import { readWhole } from './whole.js';

/** The rejects file of a merged output. */
export interface MergedRejects {
  /** Appends the lines of chunks that lie side by side, each in input order; the file is made at the first chunk. */
  add(paths: readonly string[]): Promise<void>;
  /** Makes it visible; where no chunk had rejects, the file of before is removed. */
  commit(): Promise<void>;
  /** harmless after `commit` */
  abort(): Promise<void>;
}

/** @param inputs in their order, which the lines get */
export function openMergedRejects(path: string, inputs: readonly { readonly path: string }[]): MergedRejects {
  let file: AtomicFile | undefined;
  return {
    async add(paths) {
      if (paths.length === 0) return;
      file ??= await AtomicFile.open(path);
      await append(file, paths, inputs);
    },
    async commit() {
      if (file === undefined) await rm(path, { force: true });
      else await file.commit();
    },
    async abort() {
      await file?.abort();
    },
  };
}

/** Merges the rejects alone, those of unfinished chunks too: what is left of a run that has too many of them. */
export async function mergeRejects({ folder, description, shards }: RunState, path: string): Promise<void> {
  const paths = runPaths(folder);
  const byChunk = new Map<string, string[]>();
  for (const { shard } of shards) {
    const names = await readdir(paths.rejects(shard)).catch((): string[] => []);
    for (const name of names.filter((name) => /^\d+\.jsonl$/.test(name)))
      byChunk.set(name, [...(byChunk.get(name) ?? []), join(paths.rejects(shard), name)]);
  }
  const rejects = openMergedRejects(path, description.inputs);
  try {
    for (const name of [...byChunk.keys()].sort()) await rejects.add(byChunk.get(name) as string[]);
    await rejects.commit();
  } finally {
    await rejects.abort();
  }
}

async function append(
  target: AtomicFile,
  paths: readonly string[],
  inputs: readonly { readonly path: string }[],
): Promise<void> {
  const numbers = new Map(inputs.map(({ path }, n) => [path, n]));
  const lines: { path: string; offset: number; length: number; input: number; row: number }[] = [];
  for (const path of paths)
    for await (const { file, row, offset, length } of readRejects(path)) {
      // a rejects file that was an input names the files of its rows
      const input = numbers.get(file) ?? numbers.size;
      numbers.set(file, input);
      lines.push({ path, offset, length, input, row });
    }
  // several traces of a row are lines of one file, and stay in their order
  lines.sort((a, b) => a.input - b.input || a.row - b.row);
  for (const { path, offset, length } of lines) {
    await using file = await open(path, 'r');
    await target.write(await readWhole(file, Buffer.alloc(length), offset, path));
  }
}
