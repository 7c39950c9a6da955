// Finds the types of the columns that pass through from an input's Arrow schema, and says what had to be changed.

import {
  DataType,
  Field,
  FixedSizeList,
  IntervalUnit,
  LargeList,
  List,
  Map_,
  type Schema,
  Struct,
  type Type,
  Utf8,
} from 'apache-arrow';
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

// readers refuse structs without fields, unions, and lists of nothing but null; Hugging Face has no dictionaries
function plainType(type: DataType, changes: Set<string>): DataType {
  if (DataType.isDictionary(type)) {
    changes.add('its dictionary is written out as plain values');
    return plainType(type.dictionary, changes);
  }
  if (DataType.isUnion(type)) return jsonText('unions', changes);
  // parquet-wasm cannot write them, and says so by never ending
  if (DataType.isInterval(type) && type.unit === IntervalUnit.MONTH_DAY_NANO)
    return jsonText('intervals of months, days and nanoseconds', changes);
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

export function hasDictionary(type: DataType): boolean {
  return (
    DataType.isDictionary(type) || (type.children ?? []).some((child: Field) => hasDictionary(child.type))
  );
}

/** The type with other children; itself where it has none. A map's keys are never null, by the format's own rule. */
export function withChildren(type: DataType, change: (child: Field, isKey: boolean) => Field): DataType {
  if (DataType.isStruct(type)) return new Struct(type.children.map((child) => change(child, false)));
  if (DataType.isMap(type)) {
    const [key, value] = (type.children[0] as Field<Struct>).type.children as [Field, Field];
    const entries = new Struct([change(key, true), change(value, false)]);
    return new Map_(new Field('entries', entries, false) as never, type.keysSorted);
  }
  const item = listItem(type);
  if (item === null) return type;
  const child = change(item, false);
  if (DataType.isFixedSizeList(type)) return new FixedSizeList(type.listSize, child);
  return DataType.isLargeList(type) ? new LargeList(child) : new List(child);
}

function jsonText(what: string, changes: Set<string>): DataType {
  changes.add(`${what} are written as JSON text, since Parquet has none`);
  return new Utf8();
}

function listItem(type: DataType): Field | null {
  const isList = DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type);
  return isList ? (type.children[0] as Field) : null;
}

/** The nearest of our own types, for the rules that ask what a column is; `json` for all others. */
function nearestType(type: DataType): ColumnType {
  if (DataType.isUtf8(type) || DataType.isLargeUtf8(type) || DataType.isUtf8View(type))
    return { kind: 'string' };
  if (DataType.isInt(type)) return { kind: 'int64' };
  if (DataType.isFloat(type)) return { kind: 'double' };
  if (DataType.isBool(type)) return { kind: 'bool' };
  const item = listItem(type);
  return item === null ? { kind: 'json' } : { kind: 'list', element: nearestType(item.type) };
}

/**
 * Where the columns of two inputs differ, names and types told; null where they agree. Nullability, the order of
 * columns and the names of lists' items do not count.
 */
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
