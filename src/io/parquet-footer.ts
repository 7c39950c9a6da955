// A Parquet file's footer in, its row groups out, each with a footer that makes it a file of its own.
//
// parquet-wasm counts bytes in 32 bits and cannot read the dictionaries that polars declares. A row group behind a
// footer of its own is always small enough, and that footer declares plain columns.

import type { FileHandle } from 'node:fs/promises';
import { RecordBatchReader, RecordBatchStreamWriter, Schema, Table } from 'apache-arrow';
import { EXIT, RredcotError } from '../errors.js';
import './arrow-guard.js';
import { hasDictionary, storedField } from './arrow-types.js';
import {
  readThrift,
  THRIFT,
  type ThriftList,
  type ThriftStruct,
  type ThriftValue,
  writeThrift,
} from './thrift.js';

/** Bytes of a file behind a footer: they stand after the magic, where the footer's offsets expect them. */
export interface ParquetPart {
  readonly start: number;
  readonly end: number;
  /** footer, its length, magic */
  readonly footer: Uint8Array;
}

export interface RowGroup {
  readonly rows: number;
  /** uncompressed */
  readonly bytes: number;
  part(): ParquetPart;
}

export interface ParquetFooter {
  readonly rows: number;
  readonly groups: readonly RowGroup[];
  /** no row group: for its schema */
  schemaPart(): ParquetPart;
  /** files with the same key have the same schema */
  readonly schemaKey: string;
  /** what of the columns' types is not passed on, by column */
  readonly losses: ReadonlyMap<string, string>;
}

export const MAGIC = Buffer.from('PAR1');
const TAIL_BYTES = 8;
/** More than the largest footer seen; a damaged length must not cost that much memory. */
const MAX_FOOTER_BYTES = 2 ** 30;
/** parquet-wasm counts in 32 bits, footer included. */
const MAX_GROUP_BYTES = 4_000_000_000;

// fields of the format's own structs (parquet.thrift)
const FILE = { schema: 2, rows: 3, groups: 4, keyValues: 5, encryption: 8 } as const;
const GROUP = { columns: 1, bytes: 2, rows: 3, fileOffset: 5, ordinal: 7 } as const;
const CHUNK = { filePath: 1, fileOffset: 2, metadata: 3, indexes: [4, 5, 6, 7], crypto: 8 } as const;
const COLUMN = { compressed: 7, dataPage: 9, indexPage: 10, dictionaryPage: 11, bloom: [14, 15] } as const;
const ELEMENT = { name: 4, children: 5, converted: 6, logical: 10 } as const;
const LOGICAL_NAMES: ReadonlyMap<number, string> = new Map([
  [12, 'JSON'],
  [13, 'BSON'],
  [14, 'UUID'],
]);
const CONVERTED_NAMES: ReadonlyMap<number, string> = new Map([
  [19, 'JSON'],
  [20, 'BSON'],
]);

/** Reads a footer. @throws RredcotError (exit 65) where it is missing or damaged */
export async function readParquetFooter(file: FileHandle, path: string): Promise<ParquetFooter> {
  const { size } = await file.stat();
  const tail = Buffer.alloc(TAIL_BYTES);
  if (size >= MAGIC.length + TAIL_BYTES) await file.read(tail, 0, TAIL_BYTES, size - TAIL_BYTES);
  const length = tail.readUInt32LE(0);
  const hint = 'write or fetch the file again';
  if (tail.toString('latin1', 4) === 'PARE')
    throw new RredcotError(`${path}: is an encrypted Parquet file`, {
      exitCode: EXIT.usage,
      hint: 'decrypt it first',
    });
  if (
    !tail.subarray(4).equals(MAGIC) ||
    length > Math.min(size - MAGIC.length - TAIL_BYTES, MAX_FOOTER_BYTES)
  )
    throw new RredcotError(
      `${path}: begins as a Parquet file of ${size} bytes but has no footer at its end: it was cut off`,
      { exitCode: EXIT.data, hint },
    );
  const bytes = Buffer.alloc(length);
  await file.read(bytes, 0, length, size - TAIL_BYTES - length);
  try {
    return parseFooter(readThrift(bytes), path, size);
  } catch (error) {
    if (error instanceof RredcotError) throw error;
    throw new RredcotError(`${path}: its footer is damaged: ${(error as Error).message}`, {
      exitCode: EXIT.data,
      hint,
      cause: error,
    });
  }
}

function parseFooter(found: ThriftStruct, path: string, size: number): ParquetFooter {
  const { file, dictionaries, arrowSchema } = withPlainArrowSchema(found);
  const elements = structs(file, FILE.schema);
  const losses = annotations(elements);
  for (const name of dictionaries) losses.set(name, 'its dictionary is written out as plain values');
  const groups = structs(file, FILE.groups).map((group, n): RowGroup => {
    const rows = Number(integer(group, GROUP.rows));
    return {
      rows,
      bytes: Number(integer(group, GROUP.bytes)),
      part: () => groupPart(file, group, n, path, size),
    };
  });
  const rows = groups.reduce((sum, group) => sum + group.rows, 0);
  if (rows !== Number(integer(file, FILE.rows)))
    throw new Error(`it counts ${integer(file, FILE.rows)} rows, its row groups ${rows}`);
  const schema = writeThrift(new Map([[FILE.schema, file.get(FILE.schema) as ThriftValue]]));
  return {
    rows,
    groups,
    schemaKey: `${schema.toString('latin1')}\n${arrowSchema}`,
    losses,
    schemaPart: () => ({ start: 0, end: 0, footer: footerOf(file, [], 0n) }),
  };
}

/** A row group with its offsets moved to the beginning, and without the indexes that stand elsewhere. */
function groupPart(
  file: ThriftStruct,
  group: ThriftStruct,
  n: number,
  path: string,
  size: number,
): ParquetPart {
  let start = size;
  let end = 0;
  const chunks = structs(group, GROUP.columns);
  for (const chunk of chunks) {
    const column = chunk.get(CHUNK.metadata)?.value;
    if (chunk.has(CHUNK.filePath) || chunk.has(CHUNK.crypto) || !(column instanceof Map))
      throw new RredcotError(`${path}: row group ${n} keeps a column in another file, or encrypted`, {
        exitCode: EXIT.usage,
        hint: 'write it again as one plain file',
      });
    const from = Number(firstPage(column));
    const to = from + Number(integer(column, COLUMN.compressed));
    if (!(from >= MAGIC.length && to >= from && to <= size))
      throw new RredcotError(
        `${path}: row group ${n} lies at bytes ${from} to ${to} of ${size}: the file is damaged`,
        {
          exitCode: EXIT.data,
          hint: 'write or fetch the file again',
        },
      );
    start = Math.min(start, from);
    end = Math.max(end, to);
  }
  if (chunks.length === 0) start = end;
  if (end - start > MAX_GROUP_BYTES)
    throw new RredcotError(
      `${path}: row group ${n} has ${end - start} bytes, at most ${MAX_GROUP_BYTES} are read`,
      {
        exitCode: EXIT.usage,
        hint: 'write it again with smaller row groups',
      },
    );
  const shift = BigInt(start - MAGIC.length);
  const columns = chunks.map((chunk) => {
    const moved = new Map(chunk);
    for (const id of CHUNK.indexes) moved.delete(id);
    const column = new Map(chunk.get(CHUNK.metadata)?.value as ThriftStruct);
    for (const id of COLUMN.bloom) column.delete(id);
    for (const id of [COLUMN.dataPage, COLUMN.indexPage, COLUMN.dictionaryPage]) {
      const offset = column.get(id)?.value;
      // some writers say 0 where there is no such page
      if (typeof offset === 'bigint' && offset > 0n) column.set(id, i64(offset - shift));
    }
    moved.set(CHUNK.fileOffset, i64(0n)).set(CHUNK.metadata, { type: THRIFT.struct, value: column });
    return moved;
  });
  const moved = new Map(group).set(GROUP.columns, structList(columns));
  moved.delete(GROUP.fileOffset);
  moved.delete(GROUP.ordinal);
  return { start, end, footer: footerOf(file, [moved], integer(group, GROUP.rows)) };
}

function firstPage(column: ThriftStruct): bigint {
  const offsets = [COLUMN.dataPage, COLUMN.dictionaryPage]
    .map((id) => column.get(id)?.value)
    .filter((offset): offset is bigint => typeof offset === 'bigint' && offset > 0n);
  return offsets.sort((a, b) => (a < b ? -1 : 1))[0] ?? 0n;
}

function footerOf(file: ThriftStruct, groups: readonly ThriftStruct[], rows: bigint): Uint8Array {
  const fields = new Map(file).set(FILE.groups, structList(groups)).set(FILE.rows, i64(rows));
  const bytes = writeThrift(fields);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([bytes, length, MAGIC]);
}

const ARROW_SCHEMA = 'ARROW:schema';

// writers of Arrow keep its schema in the footer: one without dictionaries and views takes its place
function withPlainArrowSchema(file: ThriftStruct): {
  file: ThriftStruct;
  dictionaries: string[];
  arrowSchema: string;
} {
  const keyValues = file.has(FILE.keyValues) ? structs(file, FILE.keyValues) : [];
  const others: ThriftStruct[] = [];
  let own: string | null = null;
  for (const pair of keyValues) {
    if (text(pair, 1) === ARROW_SCHEMA) own = text(pair, 2);
    else others.push(pair);
  }
  const schema = own === null ? null : decodeSchema(own);
  const dictionaries = (schema?.fields ?? [])
    .filter(({ type }) => hasDictionary(type))
    .map(({ name }) => name);
  if (own === null || schema === null) return { file, dictionaries, arrowSchema: own ?? '' };
  const arrowSchema = encodeSchema(new Schema(schema.fields.map(storedField), schema.metadata));
  const pair: ThriftStruct = new Map([
    [1, { type: THRIFT.binary, value: Buffer.from(ARROW_SCHEMA) }],
    [2, { type: THRIFT.binary, value: Buffer.from(arrowSchema) }],
  ]);
  return {
    file: new Map(file).set(FILE.keyValues, structList([...others, pair])),
    dictionaries,
    arrowSchema,
  };
}

// a schema that arrow-js does not know is left to parquet-wasm as it is
function decodeSchema(base64: string): Schema | null {
  try {
    return RecordBatchReader.from(Buffer.from(base64, 'base64')).open().schema ?? null;
  } catch {
    return null;
  }
}

function encodeSchema(schema: Schema): string {
  const stream = RecordBatchStreamWriter.writeAll(new Table(schema)).toUint8Array(true);
  // the first message: a marker, its length, the schema
  const length = new DataView(stream.buffer, stream.byteOffset).getInt32(4, true);
  return Buffer.from(stream.subarray(0, 8 + length)).toString('base64');
}

/** Columns whose meaning Arrow has no type for, by the name of the top-level column. */
function annotations(elements: readonly ThriftStruct[]): Map<string, string> {
  const found = new Map<string, string>();
  let column = '';
  let open = 0; // elements of the top-level column still to come
  for (const element of elements.slice(1)) {
    if (open === 0) column = text(element, ELEMENT.name);
    open += Number(element.get(ELEMENT.children)?.value ?? 0) - (open === 0 ? 0 : 1);
    const logical = element.get(ELEMENT.logical)?.value;
    const name =
      (logical instanceof Map ? LOGICAL_NAMES.get([...logical.keys()][0] as number) : undefined) ??
      CONVERTED_NAMES.get(Number(element.get(ELEMENT.converted)?.value ?? -1));
    if (name !== undefined)
      found.set(
        column,
        `is no longer marked as ${name} in the file's own schema; its values are as they were`,
      );
  }
  return found;
}

function structs(parent: ThriftStruct, id: number): ThriftStruct[] {
  const list = parent.get(id)?.value as ThriftList | undefined;
  if (list === undefined || !Array.isArray(list.items)) throw new Error(`field ${id} is missing`);
  if (!list.items.every((item) => item instanceof Map)) throw new Error(`field ${id} is no list of structs`);
  return list.items as ThriftStruct[];
}

function integer(parent: ThriftStruct, id: number): bigint {
  const value = parent.get(id)?.value;
  if (typeof value !== 'bigint' || value < 0n)
    throw new Error(`field ${id} is ${String(value)}, expected a count`);
  return value;
}

function text(parent: ThriftStruct, id: number): string {
  const value = parent.get(id)?.value;
  return value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : '';
}

function i64(value: bigint): ThriftValue {
  return { type: THRIFT.i64, value };
}

function structList(items: readonly ThriftStruct[]): ThriftValue {
  return { type: THRIFT.list, value: { types: [THRIFT.struct], items } };
}
