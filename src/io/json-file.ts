// Small JSON files that are there whole or not at all.
import { readFile } from 'node:fs/promises';
import { AtomicFile } from './atomic-file.js';

/** Writes a small file of the run folder whole or not at all. */
export async function writeJson(path: string, value: unknown): Promise<void> {
  const file = await AtomicFile.open(path);
  try {
    await file.write(Buffer.from(`${JSON.stringify(value)}\n`));
    await file.commit();
  } finally {
    await file.abort();
  }
}

/** undefined where the file is missing or no JSON: what cannot be read is done again. */
export async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T;
  } catch {
    return undefined;
  }
}
