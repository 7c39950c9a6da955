// What tests of run folders share: the bytes in one, and those that they have in another number of shards.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';

/** Every file of a folder with the hash of its bytes; what holds times or paths is left out. */
export async function hashes(folder: string): Promise<Record<string, string>> {
  const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .filter((name) => name !== 'run.json' && !/^done\/[^/]*\.json$/.test(name))
    .sort();
  const entries = names.map(async (name) => {
    const bytes = await readFile(join(folder, name));
    return [name, createHash('sha256').update(bytes).digest('hex')] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** A chunk, its rejects and its record are those of the run of one process, in the folder of shard c mod n. */
export async function expectShards(folder: string, whole: Record<string, string>, n: number): Promise<void> {
  const digits = (i: number) => String(i).padStart(5, '0');
  const expected = Object.entries(whole).map(([name, hash]) => {
    const [, chunk] = /\/(\d{6})\.\w+$/.exec(name) ?? [];
    const shard = `${digits(Number(chunk) % n)}-of-${digits(n)}`;
    return [name.replace('00000-of-00001', shard), hash] as const;
  });
  const { _SUCCESS: _, ...found } = await hashes(folder);
  const { _SUCCESS: __, ...wanted } = Object.fromEntries(expected);
  expect(found).toEqual(wanted);
}
