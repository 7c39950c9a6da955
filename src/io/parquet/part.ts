// Row groups of a Parquet footer in, footers that make each a file of its own out: files of any size are read that way, though
// parquet-wasm counts bytes in 32 bits.

import { dataError, usageError } from '../../errors.js';
import { readWhole } from '../files/file-bytes.js';
import type { OpenFile } from '../files/opened.js';
import { i64, integer, structList, structs, THRIFT, type ThriftStruct, writeThrift } from './thrift.js';

export const MAGIC = Buffer.from('PAR1');

export const FILE = { schema: 2, rows: 3, groups: 4, keyValues: 5 } as const;
export const GROUP = { columns: 1, bytes: 2, rows: 3, fileOffset: 5, ordinal: 7 } as const;
export const CHUNK = { filePath: 1, fileOffset: 2, metadata: 3, indexes: [4, 5, 6, 7], crypto: 8 } as const;
export const COLUMN = {
  compressed: 7,
  dataPage: 9,
  indexPage: 10,
  dictionaryPage: 11,
  bloom: [14, 15],
} as const;
export const ELEMENT = { name: 4, children: 5, converted: 6, logical: 10 } as const;
/** of the metadata */
export const PAIR = { key: 1, value: 2 } as const;

/** Bytes of a file behind a footer: they stand after the magic, where the footer's offsets expect them. */
export interface ParquetPart {
  readonly start: number;
  readonly end: number;
  /** footer, its length, magic */
  readonly footer: Uint8Array;
}

/** parquet-wasm counts in 32 bits, footer included. */
const MAX_GROUP_BYTES = 4_000_000_000;

/** A file without any row group: for its schema. */
export function schemaPart(file: ThriftStruct): ParquetPart {
  return { start: 0, end: 0, footer: footerOf(file, [], 0n) };
}

/**
 * A row group as a file of its own.
 * @param n its number in the file
 * @param size of the file, in bytes
 * @throws RredcotError (exit 65) where it lies outside of the file, (exit 2) where it is in several files or too large
 */
export function groupPart(
  file: ThriftStruct,
  group: ThriftStruct,
  n: number,
  path: string,
  size: number,
): ParquetPart {
  const { start, end } = groupRange(group, n, path, size);
  if (end - start > MAX_GROUP_BYTES)
    throw usageError(
      `${path}: row group ${n} has ${end - start} bytes, at most ${MAX_GROUP_BYTES} are read`,
      'write it again with smaller row groups',
    );
  const moved = movedGroup(group, MAGIC.length - start);
  return { start, end, footer: footerOf(file, [moved], integer(group, GROUP.rows)) };
}

/** Where in its file a row group's pages lie. @throws RredcotError as {@link groupPart} */
export function groupRange(
  group: ThriftStruct,
  n: number,
  path: string,
  size: number,
): { readonly start: number; readonly end: number } {
  let start = size;
  let end = 0;
  const chunks = structs(group, GROUP.columns);
  for (const chunk of chunks) {
    const column = chunk.get(CHUNK.metadata)?.value;
    if (chunk.has(CHUNK.filePath) || chunk.has(CHUNK.crypto) || !(column instanceof Map))
      throw usageError(
        `${path}: row group ${n} keeps a column in another file, or encrypted`,
        'write it again as one plain file',
      );
    const from = Number(firstPage(column));
    const to = from + Number(integer(column, COLUMN.compressed));
    if (!(from >= MAGIC.length && to >= from && to <= size))
      throw dataError(
        `${path}: row group ${n} lies at bytes ${from} to ${to} of ${size}: the file is damaged`,
        'write or fetch the file again',
      );
    start = Math.min(start, from);
    end = Math.max(end, to);
  }
  return chunks.length === 0 ? { start: 0, end: 0 } : { start, end };
}

/** A row group whose pages lie `shift` bytes further on, without the indexes that stand elsewhere. */
export function movedGroup(group: ThriftStruct, shift: number): ThriftStruct {
  const columns = structs(group, GROUP.columns).map((chunk) => {
    const moved = new Map(chunk);
    for (const id of CHUNK.indexes) moved.delete(id);
    const column = new Map(chunk.get(CHUNK.metadata)?.value as ThriftStruct);
    for (const id of COLUMN.bloom) column.delete(id);
    for (const id of [COLUMN.dataPage, COLUMN.indexPage, COLUMN.dictionaryPage]) {
      const offset = column.get(id)?.value;
      // some writers say 0 where there is no such page
      if (typeof offset === 'bigint' && offset > 0n) column.set(id, i64(offset + BigInt(shift)));
    }
    moved.set(CHUNK.fileOffset, i64(0n)).set(CHUNK.metadata, { type: THRIFT.struct, value: column });
    return moved;
  });
  const moved = new Map(group).set(GROUP.columns, structList(columns));
  moved.delete(GROUP.fileOffset);
  moved.delete(GROUP.ordinal);
  return moved;
}

function firstPage(column: ThriftStruct): bigint {
  const offsets = [COLUMN.dataPage, COLUMN.dictionaryPage]
    .map((id) => column.get(id)?.value)
    .filter((offset): offset is bigint => typeof offset === 'bigint' && offset > 0n);
  return offsets.sort((a, b) => (a < b ? -1 : 1))[0] ?? 0n;
}

/** A footer with its length and the magic behind it. */
export function footerOf(file: ThriftStruct, groups: readonly ThriftStruct[], rows: bigint): Uint8Array {
  const fields = new Map(file).set(FILE.groups, structList(groups)).set(FILE.rows, i64(rows));
  const bytes = writeThrift(fields);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([bytes, length, MAGIC]);
}

/**
 * What `ParquetFile.fromFile` takes for a Blob: the magic, the part's bytes, its footer. node:fs has openAsBlob, which fails
 * without a reason where another process removes or replaces the file: an open file stays what it was.
 * @param onFailure told why a read failed: parquet-wasm only panics
 */
export function partBlob(
  file: OpenFile,
  { start, end, footer }: ParquetPart,
  onFailure: (error: unknown) => void,
): Blob {
  const dataEnd = MAGIC.length + (end - start);
  const size = dataEnd + footer.length;
  async function arrayBuffer(from: number, to: number): Promise<ArrayBuffer> {
    const bytes = new Uint8Array(to - from);
    if (from < MAGIC.length) bytes.set(MAGIC.subarray(from, to));
    const dataFrom = Math.max(from, MAGIC.length);
    const dataTo = Math.min(to, dataEnd);
    try {
      if (dataTo > dataFrom)
        await readWhole(
          file,
          bytes.subarray(dataFrom - from, dataTo - from),
          dataFrom - MAGIC.length + start,
        );
    } catch (error) {
      onFailure(error);
      throw error;
    }
    const footerFrom = Math.max(from, dataEnd);
    if (to > footerFrom) bytes.set(footer.subarray(footerFrom - dataEnd, to - dataEnd), footerFrom - from);
    return bytes.buffer;
  }
  const slice = (from: number, to: number) => ({ arrayBuffer: () => arrayBuffer(from, to) });
  return { size, slice, arrayBuffer: () => arrayBuffer(0, size) } as unknown as Blob;
}
