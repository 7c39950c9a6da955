// A finished run whose rows, rejects or records are edited, and whose hashes are made to fit again: what `verify` has to find all the same.
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readJsonl } from './program.js';
import { jsonLines } from './scene.js';

export const SHARD = '00000-of-00001';

type Cells = Record<string, unknown>;

export async function editJson<T = Cells>(path: string, edit: (value: T) => unknown): Promise<void> {
  const value = JSON.parse(await readFile(path, 'utf8')) as T;
  await edit(value);
  await writeFile(path, JSON.stringify(value));
}

/** Changes the records of a run of one shard: the shard's, and those of its chunks, which say the same. */
export function editDone(
  folder: string,
  edit: (done: { chunks: Cells[] } & Cells) => unknown,
): Promise<void> {
  return editJson<{ chunks: Cells[] } & Cells>(join(folder, `done/${SHARD}.json`), async (done) => {
    edit(done);
    for (const record of done.chunks)
      await writeFile(join(folder, `done/${SHARD}/00000${record.chunk}.json`), JSON.stringify(record));
  });
}

/** Changes the rows of a chunk of JSON lines, or its rejects, and their hash with them. */
export async function editRows<T extends object = Cells>(
  folder: string,
  chunk: number,
  edit: (rows: T[]) => unknown,
  kind: 'chunks' | 'rejects' = 'chunks',
): Promise<void> {
  const path = join(folder, `${kind}/${SHARD}/00000${chunk}.jsonl`);
  const rows = await readJsonl<T>(path);
  edit(rows);
  const text = jsonLines(rows);
  await writeFile(path, text);
  const field = kind === 'chunks' ? 'sha256' : 'rejects_sha256';
  await editDone(folder, ({ chunks }) => {
    (chunks[chunk] as Cells)[field] = createHash('sha256').update(text).digest('hex');
  });
}
