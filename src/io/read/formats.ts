// Tells a file's format by its first bytes; the name is believed only where these tell nothing.

import { usageError } from '../../errors.js';
import type { Compression } from '../files/decompress.js';

/** How rows are laid out: `json`, lines or one list of objects, which alone comes packed as a whole; or columns. */
export type FileLayout = 'json' | Compression | 'arrow' | 'arrow-stream' | 'parquet';

/** Whether it is JSON, packed or not; of what can be read only once nobody knows before its first bytes. */
export function isJson(layout: FileLayout | null | undefined): layout is 'json' | Compression {
  return layout === 'json' || layout === 'gzip' || layout === 'zstd';
}

/** By the first bytes, as Latin-1. */
const SIGNATURES: readonly (readonly [begin: string, layout: FileLayout])[] = [
  ['PAR1', 'parquet'],
  ['ARROW1', 'arrow'],
  ['\xff\xff\xff\xff', 'arrow-stream'],
  ['\x1f\x8b', 'gzip'],
  ['\x28\xb5\x2f\xfd', 'zstd'],
];

/** What is recognised in order to be refused. */
const REFUSED: readonly (readonly [begins: readonly string[], what: string, hint: string])[] = [
  [['PARE'], 'an encrypted Parquet file', 'decrypt it first'],
  [['FEA1'], 'a Feather file of version 1', 'write it as Arrow (Feather 2)'],
  [['\xff\xfe', '\xfe\xff'], 'UTF-16 text', 'iconv -f UTF-16 -t UTF-8 <file>'],
  [['BZh'], 'bzip2 data', 'bzip2 -dc <file> | rredcot … -'],
  [['\xfd7zXZ'], 'xz data', 'xz -dc <file> | rredcot … -'],
  [['PK\x03\x04'], 'a zip archive', 'unzip -p <file> | rredcot … -'],
  [
    ['\x80\x02', '\x80\x03', '\x80\x04', '\x80\x05'], // protocols 2 to 5
    'a Python pickle',
    "pandas: read_pickle('traces.pkl').to_parquet('traces.parquet')",
  ],
];

/** Text, or what is packed, that is no rows of JSON by its name: its lines would all be rejects, or worse, some of them. */
const REFUSED_NAMES: readonly (readonly [name: RegExp, what: string, hint: string])[] = [
  [/\.(tar|tgz)$|\.tar\.\w+$/i, 'a tar archive', 'unpack it, and name its files or their folder'],
  [
    /\.[ct]sv(\.gz|\.zst)?$/i,
    'a table as text (CSV)',
    `duckdb -c "COPY (FROM 'traces.csv') TO 'traces.parquet'", or pandas' read_csv and to_parquet`,
  ],
];

/** Names whose bytes must be what they promise: a truncated or mixed-up file is told as such. */
const BINARY_NAMES: readonly (readonly [RegExp, string])[] = [
  [/\.parquet$/i, 'Parquet (PAR1)'],
  [/\.(arrow|arrows|feather|ipc)$/i, 'Arrow (ARROW1 or an IPC stream)'],
  [/\.gz$/i, 'gzip'],
  [/\.zst$/i, 'zstd'],
];

/**
 * Tells the format by the first bytes.
 * @throws RredcotError (exit 2) for a format that is not read, or bytes that are not what the name says
 */
export function layoutOf(head: Buffer, path: string): FileLayout {
  const text = head.toString('latin1');
  const known = SIGNATURES.find(([begin]) => text.startsWith(begin))?.[1];
  // a name is asked only where the bytes are packed, or do not look like JSON
  const isOpen = known === undefined ? !/^\s*[[{]/.test(text) : isJson(known);
  const named = isOpen ? REFUSED_NAMES.find(([name]) => name.test(path)) : undefined;
  const other = REFUSED.find(([begins]) => begins.some((begin) => text.startsWith(begin)));
  const [, what, hint] = named ?? (known === undefined ? other : undefined) ?? [];
  if (what !== undefined && hint !== undefined)
    throw usageError(`${path}: is ${what}, expected JSONL, Arrow or Parquet`, hint);
  if (known !== undefined) return known;
  const promised = BINARY_NAMES.find(([name]) => name.test(path))?.[1];
  if (promised !== undefined) {
    const found = head.length === 0 ? 'is empty' : `begins with ${head.toString('hex')}`;
    throw usageError(
      `${path}: ${found}, expected ${promised} data as its name says`,
      'give the file the name of what it is, or write it again',
    );
  }
  return 'json';
}
