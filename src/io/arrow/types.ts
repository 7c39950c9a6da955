// Finds the types of the columns that pass through from an input's Arrow schema, and says what had to be changed; and what of them Parquet has.

import {
  Binary,
  DataType,
  DateDay,
  DateUnit,
  Field,
  FixedSizeList,
  List,
  Map_,
  Schema,
  Struct,
  TimeMillisecond,
  TimestampMillisecond,
  TimeUnit,
  type Type,
  Utf8,
} from 'apache-arrow';
import { usageError } from '../../errors.js';
import { count } from '../../plural.js';
import type { ColumnType, PassThroughColumn } from './schema.js';
import { nameOf } from './values.js';

/** The columns of a columnar input as they are written: every one nullable, none of a type that readers refuse. */
export type ColumnarColumns = ReturnType<typeof passThroughColumns>;

/** Tells what a schema's columns become. @param losses what their reader has already changed, by column */
export function passThroughColumns(schema: Schema, losses: ReadonlyMap<string, string>) {
  /** one for each column that is not passed on as it is */
  const warnings: string[] = [];
  const columns = schema.fields.map((field): PassThroughColumn => {
    const loss = losses.get(field.name);
    const changes = new Set<string>(loss === undefined ? [] : [loss]);
    const plain = plainField(field, changes);
    if (changes.size > 0) warnings.push(`column "${field.name}": ${[...changes].join('; ')}`);
    return { name: plain.name, as: plain.name, type: nearestType(plain.type), arrow: plain };
  });
  const other = [...schema.metadata.keys()].filter((key) => !key.startsWith('rredcot.'));
  if (other.length > 0) warnings.push(`schema metadata is not passed on: ${other.join(', ')}`);
  return { columns, warnings };
}

function plainField(field: Field, changes: Set<string>): Field {
  if (!field.nullable) changes.add('becomes nullable, as Hugging Face readers demand');
  return new Field(nameOf(field), plainType(field.type, changes), true, field.metadata);
}

/**
 * Readers refuse structs without fields, and lists of nothing but null; Hugging Face has no dictionaries. The large and view forms of text,
 * bytes and lists are a matter of memory, and of the reader's program.
 */
export function plainType(type: DataType, changes: Set<string>): DataType {
  if (DataType.isDictionary(type)) {
    changes.add('its dictionary is written out as plain values');
    return plainType(type.dictionary, changes);
  }
  if (DataType.isLargeUtf8(type) || DataType.isUtf8View(type)) return new Utf8();
  if (DataType.isLargeBinary(type) || DataType.isBinaryView(type)) return new Binary();
  if (DataType.isStruct(type) && type.children.length === 0)
    return jsonText('structs without fields', changes);
  const item = listItem(type);
  if (item !== null && DataType.isNull(item.type)) return jsonText('lists of nothing but null', changes);
  return withChildren(type, (child, isKey) =>
    isKey
      ? new Field(child.name, plainType(child.type, changes), false, child.metadata)
      : plainField(child, changes),
  );
}

/** The first type, its own or one inside of it, that is so. */
export function findType(type: DataType, isSo: (type: DataType) => boolean): DataType | undefined {
  if (isSo(type)) return type;
  if (DataType.isDictionary(type)) return findType(type.dictionary, isSo);
  for (const child of (type.children ?? []) as readonly Field[]) {
    const found = findType(child.type, isSo);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The type with other children; itself where it has none. A map's keys are never null, by the format's own rule. */
function withChildren(type: DataType, change: (child: Field, isKey: boolean) => Field): DataType {
  if (DataType.isStruct(type)) return new Struct(type.children.map((child) => change(child, false)));
  if (DataType.isMap(type)) {
    const [key, value] = (type.children[0] as Field<Struct>).type.children as [Field, Field];
    const entries = new Struct([change(key, true), change(value, false)]);
    return new Map_(new Field('entries', entries, false) as never, type.keysSorted);
  }
  const item = listItem(type);
  if (item === null) return type;
  const child = change(item, false);
  return DataType.isFixedSizeList(type) ? new FixedSizeList(type.listSize, child) : new List(child);
}

function jsonText(what: string, changes: Set<string>): DataType {
  changes.add(`${what} are written as JSON text, since Parquet has none`);
  return new Utf8();
}

function listItem(type: DataType): Field | null {
  const isList = DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type);
  return isList ? (type.children[0] as Field) : null;
}

/** The nearest of our own types to a plain one, for the rules that ask what a column is; `json` for all others. */
function nearestType(type: DataType): ColumnType {
  if (DataType.isUtf8(type)) return { kind: 'string' };
  if (DataType.isInt(type)) return { kind: 'int64' };
  if (DataType.isFloat(type)) return { kind: 'double' };
  if (DataType.isBool(type)) return { kind: 'bool' };
  const item = listItem(type);
  return item === null ? { kind: 'json' } : { kind: 'list', element: nearestType(item.type) };
}

/** Where the columns of two inputs differ, in words; null where they agree. Nullability, order and the names of lists' items do not count. */
export function findSchemaDifference(
  first: readonly PassThroughColumn[],
  other: readonly PassThroughColumn[],
): string | null {
  const others = new Map(other.map(({ name, arrow }) => [name, arrow?.type]));
  for (const { name, arrow } of first) {
    const type = others.get(name);
    if (type === undefined) return `has no column "${name}"`;
    const [found, expected] = [typeName(type), typeName(arrow?.type as DataType)];
    if (found !== expected) return `column "${name}" is ${found}, expected ${expected}`;
  }
  const known = new Set(first.map(({ name }) => name));
  const extra = other.find(({ name }) => !known.has(name));
  return extra === undefined ? null : `has a column "${extra.name}" more`;
}

export function typeName(type: DataType): string {
  if (DataType.isDecimal(type)) return `Decimal${type.bitWidth}(${type.precision}, ${type.scale})`;
  const children = (type.children ?? []) as readonly Field[];
  if (children.length === 0 && !DataType.isStruct(type)) return String(type as DataType<Type>);
  const [kind] = String(type as DataType<Type>).split('<');
  const named = children.map(({ name, type: child }) =>
    DataType.isStruct(type) ? `${name}: ${typeName(child)}` : typeName(child),
  );
  return `${kind}<${named.join(', ')}>`;
}

// ------ types as Parquet has them, and what parquet-wasm cannot write: some types of Arrow, and too many columns

/** The schema of a Parquet file's batches, which has no metadata of its own. @throws RredcotError (exit 2) as {@link refuseUnwritable} */
export function parquetSchema(path: string, { fields }: Schema): Schema {
  refuseUnwritable(path, fields);
  return new Schema(fields.map(parquetField));
}

/** A field as Parquet has it: seconds become milliseconds, and dates in milliseconds days, as pyarrow writes them too. The values stay the same. */
function parquetField({ name, type, nullable, metadata }: Field): Field {
  let own = withChildren(type, parquetField);
  if (DataType.isTimestamp(type) && type.unit === TimeUnit.SECOND)
    own = new TimestampMillisecond(type.timezone);
  else if (DataType.isTime(type) && type.unit === TimeUnit.SECOND) own = new TimeMillisecond();
  else if (DataType.isDate(type) && type.unit === DateUnit.MILLISECOND) own = new DateDay();
  return new Field(name, own, nullable, metadata);
}

/** More take minutes a file, and soon all of the module's memory: its encodings need a megabyte or two a column, of four gigabytes. */
const MOST_COLUMNS = 1000;

/**
 * Asks before anything is written: parquet-wasm answers a type that it does not know, and too many columns, with a file of
 * no rows, a crash, or not at all.
 * @throws RredcotError (exit 2) naming the first column of another type, or how many columns there are
 */
export function refuseUnwritable(path: string, fields: readonly Field[]): void {
  const leaves = countLeaves(fields);
  if (leaves > MOST_COLUMNS)
    throw usageError(
      `${path}: ${count(leaves)} columns (a struct's fields counted each), Parquet files are written with ${count(MOST_COLUMNS)} at most`,
      '-o <file>.arrow, which takes any number',
    );
  for (const { name, type } of fields) {
    const found = findType(type, isUnwritable);
    if (found === undefined) continue;
    throw usageError(
      `${path}: column "${name}" ${found === type ? 'is' : 'holds'} ${typeName(found)}, which cannot be written as Parquet`,
      '-o <file>.arrow or --format arrow, which keep every type',
    );
  }
}

/** The columns that a Parquet file has of them: one for every value that is no list, struct or map. */
function countLeaves(fields: readonly Field[]): number {
  return fields.reduce((sum, { type }) => {
    const children = (type.children ?? []) as readonly Field[];
    return sum + (children.length === 0 ? 1 : countLeaves(children));
  }, 0);
}

function isUnwritable(type: DataType): boolean {
  return (
    (DataType.isDecimal(type) && (type.scale < 0 || type.scale > type.precision)) ||
    (DataType.isFixedSizeBinary(type) && type.byteWidth <= 0)
  );
}
