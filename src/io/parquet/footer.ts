// Reads a Parquet file's footer: its row groups, and what their columns lose on the way to Arrow.
//
// parquet-wasm cannot read the dictionaries that polars declares: the footers that it is given declare plain columns.

import { RecordBatchReader, RecordBatchStreamWriter, Schema, Table } from 'apache-arrow';
import { EXIT, RredcotError, usageError } from '../../errors.js';
import '../arrow/check.js';
import { hasDictionary } from '../arrow/types.js';
import { openFile } from '../files/opened.js';
import type { ObjectVersion } from '../store/object.js';
import { ELEMENT, FILE, GROUP, groupPart, MAGIC, PAIR, type ParquetPart, schemaPart } from './part.js';
import {
  integer,
  readThrift,
  structList,
  structs,
  THRIFT,
  type ThriftStruct,
  type ThriftValue,
  text,
  writeThrift,
} from './thrift.js';
import { storedField } from './types.js';

export interface RowGroup {
  readonly rows: number;
  /** uncompressed */
  readonly bytes: number;
  part(): ParquetPart;
}

export interface ParquetFooter {
  /** of the object whose footer it is; undefined of a file of this machine */
  readonly version: ObjectVersion | undefined;
  readonly rows: number;
  readonly groups: readonly RowGroup[];
  /** no row group: for its schema */
  schemaPart(): ParquetPart;
  /** files with the same key have the same schema */
  readonly schemaKey: string;
  /** the writer's own, without the Arrow schema */
  readonly metadata: ReadonlyMap<string, string>;
  /** what of the columns' types is not passed on, by column */
  readonly losses: ReadonlyMap<string, string>;
}

const TAIL_BYTES = 8;
/** More than the largest footer seen; a damaged length must not cost that much memory. */
const MAX_FOOTER_BYTES = 2 ** 30;
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
export function readParquetFooter(path: string): Promise<ParquetFooter> {
  return readFooter(path, (file, size, version) => ({ ...parseFooter(file, path, size), version }));
}

/** Reads a footer as the tree that it is. @throws as {@link readParquetFooter}, and where `parse` fails */
export async function readFooter<T>(
  path: string,
  parse: (file: ThriftStruct, size: number, version: ObjectVersion | undefined) => T,
): Promise<T> {
  await using file = await openFile(path);
  const { size, version } = await file.stat();
  const tail = Buffer.alloc(TAIL_BYTES);
  if (size >= MAGIC.length + TAIL_BYTES) await file.read(tail, 0, TAIL_BYTES, size - TAIL_BYTES);
  const length = tail.readUInt32LE(0);
  const hint = 'write or fetch the file again';
  if (tail.toString('latin1', 4) === 'PARE')
    throw usageError(`${path}: is an encrypted Parquet file`, 'decrypt it first');
  if (
    !tail.subarray(4).equals(MAGIC) ||
    length > Math.min(size - MAGIC.length - TAIL_BYTES, MAX_FOOTER_BYTES)
  ) {
    const { buffer } = await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0);
    const found = buffer.equals(MAGIC)
      ? `begins as a Parquet file of ${size} bytes but has no footer at its end: it was cut off`
      : 'is no Parquet file';
    throw new RredcotError(`${path}: ${found}`, { exitCode: EXIT.data, hint });
  }
  const bytes = Buffer.alloc(length);
  await file.read(bytes, 0, length, size - TAIL_BYTES - length);
  try {
    return parse(readThrift(bytes), size, version);
  } catch (error) {
    if (error instanceof RredcotError) throw error;
    throw new RredcotError(`${path}: its footer is damaged: ${(error as Error).message}`, {
      exitCode: EXIT.data,
      hint,
      cause: error,
    });
  }
}

function parseFooter(found: ThriftStruct, path: string, size: number): Omit<ParquetFooter, 'version'> {
  const { file, dictionaries, arrowSchema, others } = withPlainArrowSchema(found);
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
    metadata: new Map(others.map((pair) => [text(pair, PAIR.key), text(pair, PAIR.value)])),
    losses,
    schemaPart: () => schemaPart(file),
  };
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

const ARROW_SCHEMA = 'ARROW:schema';

// writers of Arrow keep its schema in the footer: one without dictionaries and views takes its place
function withPlainArrowSchema(file: ThriftStruct): {
  file: ThriftStruct;
  dictionaries: string[];
  arrowSchema: string;
  /** the other pairs of the metadata */
  others: ThriftStruct[];
} {
  const keyValues = file.has(FILE.keyValues) ? structs(file, FILE.keyValues) : [];
  const others: ThriftStruct[] = [];
  let own: string | null = null;
  for (const pair of keyValues) {
    if (text(pair, PAIR.key) === ARROW_SCHEMA) own = text(pair, PAIR.value);
    else others.push(pair);
  }
  const schema = own === null ? null : decodeSchema(own);
  const dictionaries = (schema?.fields ?? [])
    .filter(({ type }) => hasDictionary(type))
    .map(({ name }) => name);
  if (own === null || schema === null) return { file, dictionaries, arrowSchema: own ?? '', others };
  const arrowSchema = encodeSchema(new Schema(schema.fields.map(storedField), schema.metadata));
  const pair: ThriftStruct = new Map([
    [PAIR.key, { type: THRIFT.binary, value: Buffer.from(ARROW_SCHEMA) }],
    [PAIR.value, { type: THRIFT.binary, value: Buffer.from(arrowSchema) }],
  ]);
  return {
    file: new Map(file).set(FILE.keyValues, structList([...others, pair])),
    dictionaries,
    arrowSchema,
    others,
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
