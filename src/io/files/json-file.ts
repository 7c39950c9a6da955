// Small files: our JSON and hashes, which are there whole or not at all, and JSON that a flag names.
import { readFile } from 'node:fs';
import { readFile as readAny } from 'node:fs/promises';
import { basename } from 'node:path';
import { usageError } from '../../errors.js';
import { AtomicFile, removeFile } from './atomic-file.js';
import { addressError } from './elsewhere.js';
import { READ_AT_ONCE } from './file-bytes.js';
import { fileError, isAbsent } from './file-error.js';
import { isStored, objectBytes } from './opened.js';

/** Writes a small file of the run folder whole or not at all. */
export function writeJson(path: string, value: unknown): Promise<void> {
  return writeText(path, `${JSON.stringify(value)}\n`);
}

/** The same for a text, or bytes. @param folder where it lies until it is whole; by default beside itself */
export function writeText(path: string, text: string | Uint8Array, folder?: string): Promise<void> {
  return againWhereTaken(() => writeOnce(path, text, folder));
}

const TRIES = 5;

/**
 * Writes a file that processes of one run share. Where one of them takes what is half written for what a dead one has left,
 * and removes it, it is written again: a few times, since each does so when it begins and ends.
 */
export async function againWhereTaken<T>(write: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++)
    try {
      return await write();
    } catch (error) {
      const { code, syscall } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
      const isTaken = code === 'ENOENT' && (syscall === 'rename' || syscall === 'link');
      if (!isTaken || tries === TRIES) throw error;
    }
}

async function writeOnce(path: string, text: string | Uint8Array, folder?: string): Promise<void> {
  const file = await AtomicFile.open(path, folder);
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
  const text = await readAny(path, 'utf8').catch((error: unknown) => {
    throw addressError(path) ?? fileError(error, path, 'read');
  });
  try {
    return JSON.parse(text.replace(/^\uFEFF/, '')); // which editors of Windows put in front
  } catch (error) {
    throw usageError(`${flag} ${path}: is not JSON: ${(error as Error).message}`, hint);
  }
}

/** A file's text. A pipe in its place is empty, and holds nobody up. @throws what the file system says */
export function readSmallFile(path: string): Promise<string> {
  if (isStored(path)) return objectText(path);
  // node:fs/promises takes twice the processor time, which counts for the records of 200,000 chunks
  return new Promise((done, failed) => {
    // the types know flags by their names alone
    const how = { encoding: 'utf8', flag: READ_AT_ONCE as unknown as string } as const;
    readFile(path, how, (error, text) => (error === null ? done(text) : failed(error)));
  });
}

/** The same; undefined where there is no such file. @throws RredcotError where it is there and the machine cannot read it */
export async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readSmallFile(path);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw fileError(error, path, 'read');
  }
}

async function objectText(path: string): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of objectBytes(path)) parts.push(part);
  return Buffer.concat(parts).toString();
}

/** The file beside one of JSON lines: as `sha256sum` writes it, and `sha256sum -c` reads it. */
export function sumPath(path: string): string {
  return `${path}.sha256`;
}

/**
 * Writes it.
 * @param hashes SHA-256 in hexadecimal digits by the paths of files that lie beside each other, its own first
 * @param folder where it lies until it is whole; by default beside itself
 */
export function writeSum(path: string, hashes: ReadonlyMap<string, string>, folder?: string): Promise<void> {
  const lines = Array.from(hashes, ([file, sha256]) => sumLine(sha256, basename(file)));
  return writeText(sumPath(path), lines.join(''), folder);
}

/** Removes it before the file is replaced: none says nothing, and another file's says something wrong. */
export function removeSum(path: string): Promise<void> {
  return removeFile(sumPath(path));
}

/**
 * Reads it.
 * @returns hashes by the files' names, the file's own first; undefined where it is not there, null where it is damaged
 */
export async function readSum(path: string): Promise<ReadonlyMap<string, string> | null | undefined> {
  const text = await textOf(sumPath(path));
  if (text === undefined) return undefined;
  const lines = Array.from(text.matchAll(/^(\\?)([0-9a-f]{64}) [ *](.+)\n/gm));
  const isWhole = lines.length > 0 && lines.map(([line]) => line).join('') === text;
  if (!isWhole) return null;
  return new Map(
    lines.map(([, escaped, sha256 = '', name = '']) => [escaped === '' ? name : unescaped(name), sha256]),
  );
}

/** A line as `sha256sum` writes it: with a backslash in front where the name holds one, or a line break. */
function sumLine(sha256: string, name: string): string {
  const escaped = name.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\r', '\\r');
  return `${escaped === name ? '' : '\\'}${sha256}  ${escaped}\n`;
}

function unescaped(name: string): string {
  return name.replaceAll(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c === 'r' ? '\r' : c));
}
