// Tells a file's format by its first bytes; the name is believed only where these tell nothing.

import { usageError } from '../../errors.js';
import type { Compression } from '../files/decompress.js';

/** How rows are laid out: `json`, lines or one list of objects, which alone comes packed as a whole; or columns. */
export type FileLayout = 'json' | Compression | 'arrow' | 'arrow-stream' | 'parquet';

/** Whether it is JSON, packed or not; of what can be read only once nobody knows before its first bytes. */
export function isJson(layout: FileLayout | null | undefined): layout is 'json' | Compression {
  return layout === 'json' || layout === 'gzip' || layout === 'zstd';
}

const SIGNATURES: readonly { readonly bytes: Buffer; readonly layout: FileLayout }[] = [
  { bytes: Buffer.from('PAR1'), layout: 'parquet' },
  { bytes: Buffer.from('ARROW1'), layout: 'arrow' },
  { bytes: Buffer.from([0xff, 0xff, 0xff, 0xff]), layout: 'arrow-stream' },
  { bytes: Buffer.from([0x1f, 0x8b]), layout: 'gzip' },
  { bytes: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), layout: 'zstd' },
];

/** What is recognised in order to be refused. */
const REFUSED: readonly { readonly bytes: Buffer; readonly what: string; readonly hint: string }[] = [
  { bytes: Buffer.from('PARE'), what: 'an encrypted Parquet file', hint: 'decrypt it first' },
  { bytes: Buffer.from('FEA1'), what: 'a Feather file of version 1', hint: 'write it as Arrow (Feather 2)' },
  { bytes: Buffer.from([0xff, 0xfe]), what: 'UTF-16 text', hint: 'iconv -f UTF-16 -t UTF-8 <file>' },
  { bytes: Buffer.from([0xfe, 0xff]), what: 'UTF-16 text', hint: 'iconv -f UTF-16 -t UTF-8 <file>' },
  { bytes: Buffer.from('BZh'), what: 'bzip2 data', hint: 'bzip2 -dc <file> | rredcot … -' },
  {
    bytes: Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a]),
    what: 'xz data',
    hint: 'xz -dc <file> | rredcot … -',
  },
  { bytes: Buffer.from('PK\x03\x04'), what: 'a zip archive', hint: 'unzip -p <file> | rredcot … -' },
  // protocols 2 to 5
  ...[2, 3, 4, 5].map((protocol) => ({
    bytes: Buffer.from([0x80, protocol]),
    what: 'a Python pickle',
    hint: "pandas: read_pickle('traces.pkl').to_parquet('traces.parquet')",
  })),
];

/** Text, or what is packed, that is no rows of JSON by its name: its lines would all be rejects, or worse, some of them. */
const REFUSED_NAMES: readonly { readonly name: RegExp; readonly what: string; readonly hint: string }[] = [
  {
    name: /\.(tar|tgz)$|\.tar\.\w+$/i,
    what: 'a tar archive',
    hint: 'unpack it, and name its files or their folder',
  },
  {
    name: /\.[ct]sv(\.gz|\.zst)?$/i,
    what: 'a table as text (CSV)',
    hint: `duckdb -c "COPY (FROM 'traces.csv') TO 'traces.parquet'", or pandas' read_csv and to_parquet`,
  },
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
  const starts = ({ bytes }: { bytes: Buffer }): boolean => head.subarray(0, bytes.length).equals(bytes);
  const known = SIGNATURES.find(starts)?.layout;
  // a name is asked only where the bytes are packed, or do not look like JSON
  const isOpen = known === undefined ? !/^\s*[[{]/.test(head.toString('latin1')) : isJson(known);
  const named = isOpen ? REFUSED_NAMES.find(({ name }) => name.test(path)) : undefined;
  const refused = named ?? (known === undefined ? REFUSED.find(starts) : undefined);
  if (refused !== undefined) {
    throw usageError(`${path}: is ${refused.what}, expected JSONL, Arrow or Parquet`, refused.hint);
  }
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
