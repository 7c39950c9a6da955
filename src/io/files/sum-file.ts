// The hash of a file of JSON lines, which has no metadata to keep it in: in a small file beside it.
import { readFile, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { READ_AT_ONCE } from './file-bytes.js';
import { fileError } from './file-error.js';
import { writeText } from './json-file.js';
import { isAbsent } from './stat-if-there.js';

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
  return rm(sumPath(path), { force: true });
}

/**
 * Reads it.
 * @returns hashes by the files' names, the file's own first; undefined where it is not there, null where it is damaged
 */
export async function readSum(path: string): Promise<ReadonlyMap<string, string> | null | undefined> {
  let text: string;
  try {
    text = await readFile(sumPath(path), { encoding: 'utf8', flag: READ_AT_ONCE });
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw fileError(error, sumPath(path), 'read');
  }
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
