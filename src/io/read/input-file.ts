// What an input file is, by its bytes: its format, of which the name is believed only where the first bytes tell nothing, and whether it is
// what it was, while a process reads it and from one attempt at a run to the next.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { dataError, usageError } from '../../errors.js';
import type { Compression } from '../files/decompress.js';
import { factsOf, failed, HEAD_BYTES, type OpenFile } from '../files/files.js';

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
  // a frame to be skipped, of 16 kinds, with which pzstd begins
  ...Array.from({ length: 16 }, (_, n) => [`${String.fromCharCode(0x50 + n)}\x2a\x4d\x18`, 'zstd'] as const),
];

/** What is recognised in order to be refused. */
const REFUSED: readonly (readonly [begins: readonly string[], what: string, hint: string])[] = [
  [['PARE'], 'an encrypted Parquet file', 'decrypt it first'],
  [['FEA1'], 'a Feather file of version 1', 'write it as Arrow (Feather 2)'],
  [['\xff\xfe', '\xfe\xff'], 'UTF-16 text', 'iconv -f UTF-16 -t UTF-8 <file>'],
  [['BZh'], 'bzip2 data', 'bzip2 -dc <file> | rredcot … -'],
  [['\xfd7zXZ'], 'xz data', 'xz -dc <file> | rredcot … -'],
  [['PK\x03\x04'], 'a zip archive', 'unzip -p <file> | rredcot … -'],
  [['version '], 'a pointer of Git LFS and not the file', 'git lfs pull, in its repository'],
  [
    ['<!DOCTYP', '<!doctyp', '<html'],
    'a web page',
    'download the file itself: of the Hub, with /resolve/ in the place of /blob/ in its address',
  ],
  [
    ['\x80\x02', '\x80\x03', '\x80\x04', '\x80\x05'], // protocols 2 to 5
    'a Python pickle',
    "pandas: read_pickle('traces.pkl').to_parquet('traces.parquet')",
  ],
];

/** Text, or what is packed, that is no rows of JSON by its name: its lines would all be rejects, or worse, some of them. */
const REFUSED_NAMES: readonly (readonly [name: RegExp, what: string, hint: string])[] = [
  [/\.(tar|tgz)$|\.tar\.\w+$/i, 'a tar archive', 'unpack it, and name its files or their folder'],
  [/\.(model|safetensors|gguf|onnx)$/i, 'a model file', '--policy <its folder>, and the traces as input'],
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

/** Tells the format by the first bytes. @throws RredcotError (exit 2) for a format that is not read, or bytes that are not what the name says */
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

// ------ whether it is what it was

/** How `run.json` holds it. */
export const InputPrintSchema = z.object({
  path: z.string(),
  bytes: z.int().nonnegative().nullable(),
  mtime_ms: z.number().nullable(),
  /** sha256 of its first and of its last MiB */
  head: z.string().nullable(),
  tail: z.string().nullable(),
  /** of an object, which says more than its time and edges: these are null */
  etag: z.string().optional(),
});

/** Size, time and edges of an input file; what can be read only once has none of these. */
export type InputPrint = Readonly<z.infer<typeof InputPrintSchema>>;

const EDGE_BYTES = 2 ** 20;

/** Of what can be read only once. */
export const printOfStream = (path: string): InputPrint => ({
  ...{ path, bytes: null, mtime_ms: null, head: null, tail: null },
});

/** The print of a file that is open. @returns with its first bytes; few of an object, whose ETag says more */
export async function fingerprintOf(
  file: OpenFile,
  path: string,
): Promise<{ readonly print: InputPrint; readonly head: Buffer }> {
  const { size: bytes, mtimeMs, version } = await file.stat();
  const [length, ...places] =
    version === undefined ? [EDGE_BYTES, 0, Math.max(0, bytes - EDGE_BYTES)] : [HEAD_BYTES, 0];
  const edges: Buffer[] = [];
  for (const place of places) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, place);
    edges.push(buffer.subarray(0, bytesRead));
  }
  const [head] = edges as [Buffer];
  if (version !== undefined) return { print: { ...printOfStream(path), bytes, etag: version.etag }, head };
  const [ofHead = null, ofTail = null] = edges.map((edge) => createHash('sha256').update(edge).digest('hex'));
  return { print: { path, bytes, mtime_ms: Math.floor(mtimeMs), head: ofHead, tail: ofTail }, head };
}

/** @throws RredcotError (exit 65) where a file is no longer what it was: rows may come from two versions of it */
export async function assertSameInputs(prints: readonly InputPrint[]): Promise<void> {
  const said = (bytes: number, time: number | null, etag: string | undefined): string =>
    `${bytes} bytes of ${etag === undefined ? new Date(time ?? 0).toISOString() : `ETag ${etag}`}`;
  for (const { path, bytes, mtime_ms, etag } of prints) {
    if (bytes === null) continue;
    const { size, mtimeMs, version } = await factsOf(path).catch(failed(path, 'read'));
    const isSame = etag === undefined ? mtime_ms === Math.floor(mtimeMs) : etag === version?.etag;
    if (isSame && bytes === size) continue;
    const [before, now] = [said(bytes, mtime_ms, etag), said(size, Math.floor(mtimeMs), version?.etag)];
    throw dataError(
      `${path}: changed while it was read: ${before}, now ${now}; nothing is published`,
      'when it is whole, the same command with --overwrite',
    );
  }
}
