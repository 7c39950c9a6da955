// Types as Parquet has them, and what parquet-wasm cannot write: some types of Arrow, and too many columns.

import {
  Binary,
  DataType,
  DateDay,
  DateUnit,
  Field,
  IntervalUnit,
  Schema,
  TimeMillisecond,
  TimestampMillisecond,
  TimeUnit,
  Utf8,
} from 'apache-arrow';
import { usageError } from '../../errors.js';
import { count } from '../../plural.js';
import { typeName, withChildren } from '../arrow/types.js';

/**
 * A type as Parquet has it: no seconds and no dates in milliseconds, so that these become milliseconds and days, as
 * pyarrow writes them too. The values stay the same.
 */
function parquetType(type: DataType): DataType {
  if (DataType.isTimestamp(type) && type.unit === TimeUnit.SECOND)
    return new TimestampMillisecond(type.timezone);
  if (DataType.isTime(type) && type.unit === TimeUnit.SECOND) return new TimeMillisecond();
  if (DataType.isDate(type) && type.unit === DateUnit.MILLISECOND) return new DateDay();
  return withChildren(type, parquetField);
}

/**
 * The schema of a Parquet file's batches, which has no metadata of its own.
 * @throws RredcotError (exit 2) as {@link refuseUnwritable}
 */
export function parquetSchema(path: string, { fields }: Schema): Schema {
  refuseUnwritable(path, fields);
  return new Schema(fields.map(parquetField));
}

function parquetField({ name, type, nullable, metadata }: Field): Field {
  return new Field(name, parquetType(type), nullable, metadata);
}

/** The field as Parquet stores it: plain values in the place of dictionaries, and no views, which are a matter of memory. */
export function storedField({ name, type, nullable, metadata }: Field): Field {
  const stored = (found: DataType): DataType => {
    if (DataType.isDictionary(found)) return stored(found.dictionary);
    if (DataType.isUtf8View(found)) return new Utf8();
    if (DataType.isBinaryView(found)) return new Binary();
    return withChildren(found, storedField);
  };
  return new Field(name, stored(type), nullable, metadata);
}

/** More take minutes a file, and soon all of the module's memory. */
const MOST_COLUMNS = 10_000;

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
      '-o <file>.arrow, which takes any number, or fewer columns: score, segment and redistribute have --keep <a,b>',
    );
  for (const { name, type } of fields) {
    const found = unwritable(type);
    if (found === null) continue;
    throw usageError(
      `${path}: column "${name}" ${found === type ? 'is' : 'holds'} ${typeName(found)}, which cannot be written as Parquet`,
      '-o <file>.arrow or --format arrow, which keep every type',
    );
  }
}

/** The columns that a Parquet file has of them: one for every value that is no list, struct or map. */
export function countLeaves(fields: readonly Field[]): number {
  return fields.reduce((sum, { type }) => {
    const children = (type.children ?? []) as readonly Field[];
    return sum + (children.length === 0 ? 1 : countLeaves(children));
  }, 0);
}

/** The first type, its own or a child's, that cannot be written. */
function unwritable(type: DataType): DataType | null {
  if (DataType.isDictionary(type)) return unwritable(type.dictionary);
  const children = (type.children ?? []) as readonly Field[];
  const isRefused =
    DataType.isUnion(type) ||
    (DataType.isStruct(type) && children.length === 0) ||
    (DataType.isInterval(type) && type.unit === IntervalUnit.MONTH_DAY_NANO) ||
    (DataType.isDecimal(type) && (type.scale < 0 || type.scale > type.precision)) ||
    (DataType.isFixedSizeBinary(type) && type.byteWidth <= 0);
  if (isRefused) return type;
  for (const child of children) {
    const found = unwritable(child.type);
    if (found !== null) return found;
  }
  return null;
}
