// The hash of a file of JSON lines, which has no metadata to keep it in: in a small file beside it.
import { createHash } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileBytes } from './file-bytes.js';
import { fileError } from './file-error.js';
import { writeText } from './json-file.js';
import { isAbsent } from './stat-if-there.js';

/** The file beside one of JSON lines: as `sha256sum` writes it, and `sha256sum -c` reads it. */
export function sumPath(path: string): string {
  return `${path}.sha256`;
}

/** Writes it. @param sha256 of the file, in hexadecimal digits */
export function writeSum(path: string, sha256: string): Promise<void> {
  return writeText(sumPath(path), `${sha256}  ${basename(path)}\n`);
}

/** Removes it before the file is replaced: none says nothing, and another file's says something wrong. */
export function removeSum(path: string): Promise<void> {
  return rm(sumPath(path), { force: true });
}

/** What is wrong with the file's bytes: null where nothing is, undefined where there is no such file beside it. */
export async function sumFault(path: string): Promise<string | null | undefined> {
  let text: string;
  try {
    text = await readFile(sumPath(path), 'latin1');
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw fileError(error, sumPath(path), 'read');
  }
  const hash = createHash('sha256');
  for await (const bytes of fileBytes(path)) hash.update(bytes);
  const isWritten = text.slice(0, 64) === hash.digest('hex');
  return isWritten
    ? null
    : `is not the file that was written: its bytes have another hash than ${basename(sumPath(path))}`;
}
