// Small files: our JSON and hashes, which are there whole or not at all, and JSON that a flag names.
import { readFile } from 'node:fs/promises';
import { usageError } from '../../errors.js';
import { AtomicFile } from './atomic-file.js';
import { fileBytes, fileError, statIfThere } from './files.js';
import { addressError } from './remote-paths.js';

/** Writes a small file of the run folder whole or not at all. */
export function writeJson(path: string, value: unknown): Promise<void> {
  return writeText(path, `${JSON.stringify(value)}\n`);
}

/** The same for a text, or bytes. @param folder where it lies until it is whole; by default beside itself */
export async function writeText(path: string, text: string | Uint8Array, folder?: string): Promise<void> {
  const file = await AtomicFile.open(path, folder);
  try {
    await file.write(Buffer.from(text));
    await file.finish();
    await file.publish();
  } finally {
    await file.abort();
  }
}

/**
 * undefined where the file is missing or no JSON: what it told of is done again.
 * @throws RredcotError where it is there and the machine cannot read it
 */
export async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await textOf(path);
  try {
    return text === undefined ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined;
  }
}

/**
 * What is in the file that a flag names, which may well be a pipe.
 * @param hint what such a file is
 * @throws RredcotError (exit 2) where it cannot be read, or is no JSON
 */
export async function readGivenJson(flag: string, path: string, hint: string): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw addressError(path) ?? fileError(error, path, 'read');
  });
  try {
    return JSON.parse(text.replace(/^\uFEFF/, '')); // which editors of Windows put in front
  } catch (error) {
    throw usageError(`${flag} ${path}: is not JSON: ${(error as Error).message}`, hint);
  }
}

/** A file's text; undefined where there is no such file. @throws RredcotError where it is there and the machine cannot read it */
export async function textOf(path: string): Promise<string | undefined> {
  if ((await statIfThere(path)) === null) return undefined;
  const parts: Buffer[] = [];
  for await (const part of fileBytes(path)) parts.push(part);
  return Buffer.concat(parts).toString();
}
