// Small JSON files that are there whole or not at all.
import { readFile } from 'node:fs/promises';
import { AtomicFile } from './atomic-file.js';
import { fileError } from './file-error.js';
import { isAbsent } from './stat-if-there.js';

/** Writes a small file of the run folder whole or not at all. */
export function writeJson(path: string, value: unknown): Promise<void> {
  return writeText(path, `${JSON.stringify(value)}\n`);
}

/** The same for a text. */
export async function writeText(path: string, text: string): Promise<void> {
  const file = await AtomicFile.open(path);
  try {
    await file.write(Buffer.from(text));
    await file.commit();
  } finally {
    await file.abort();
  }
}

/**
 * undefined where the file is missing or no JSON: what it told of is done again.
 * @throws RredcotError where it is there and the machine cannot read it
 */
export async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T;
  } catch (error) {
    if (error instanceof SyntaxError || isAbsent(error)) return undefined;
    throw fileError(error, path, 'read');
  }
}
