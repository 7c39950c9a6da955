// Bad rows in, the rejects file and the counts by code out.

import { rm } from 'node:fs/promises';
import { AtomicFile } from './atomic-file.js';
import { stringifyJson } from './json.js';
import type { BadRow } from './rows.js';

/** The rejects of a run. */
export interface Rejects {
  /** how many of each code so far, in the order first met */
  readonly counts: ReadonlyMap<string, number>;
  add(bad: BadRow): Promise<void>;
  /** makes the file visible, if there was a reject */
  close(): Promise<void>;
  abort(): Promise<void>;
}

/**
 * Opens the rejects file of a run; null counts only. The file is made at the first reject, and one that an
 * earlier run left is removed at once: no file means no reject.
 */
export async function openRejects(path: string | null): Promise<Rejects> {
  const counts = new Map<string, number>();
  let file: AtomicFile | null = null;
  if (path !== null) await rm(path, { force: true });
  return {
    counts,
    async add(bad) {
      const { code, reason } = bad.rejection;
      counts.set(code, (counts.get(code) ?? 0) + 1);
      if (path === null) return;
      file ??= await AtomicFile.open(path);
      const { file: from, row, byteOffset, id, raw } = bad;
      const line = { file: from, row, byte_offset: byteOffset, id, code, reason, raw };
      await file.write(Buffer.from(`${stringifyJson(line)}\n`));
    },
    async close() {
      await file?.commit();
    },
    async abort() {
      await file?.abort();
    },
  };
}
