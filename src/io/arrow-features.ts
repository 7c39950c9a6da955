// A column of a columnar file in, its type as `datasets` names it out.

import { DataType, DateUnit, Field, Precision, TimeUnit } from 'apache-arrow';
import { parquetType } from './arrow-types.js';
import { nameOf } from './arrow-values.js';
import type { OutputColumn } from './columns.js';
import { type HubFeature, hubFeature } from './hub-features.js';

const UNITS: Readonly<Record<TimeUnit, string>> = {
  [TimeUnit.SECOND]: 's',
  [TimeUnit.MILLISECOND]: 'ms',
  [TimeUnit.MICROSECOND]: 'us',
  [TimeUnit.NANOSECOND]: 'ns',
};

const FLOATS: Readonly<Record<Precision, string>> = {
  [Precision.HALF]: 'float16',
  [Precision.SINGLE]: 'float32',
  [Precision.DOUBLE]: 'float64',
};

/** The time zones that `datasets` finds in a type's name. */
const ZONE = /^[a-zA-Z0-9/_+\-:]+$/;

/** The key of a field's metadata that makes its type another one. */
const EXTENSION = 'ARROW:extension:name';

/** Tells the type in which a column is written to a file of this format. */
export function columnFeatures(format: 'parquet' | 'arrow'): (column: OutputColumn) => HubFeature | null {
  const written = (type: DataType) => (format === 'parquet' ? parquetType(type) : type);
  return ({ name, type, arrow }) =>
    arrow === undefined
      ? hubFeature(type)
      : arrowFeature(new Field(name, written(arrow.type), true, arrow.metadata));
}

/** null for what has no name there: maps, unions, intervals, extension types. */
export function arrowFeature({ type, metadata }: Field): HubFeature | null {
  return metadata.has(EXTENSION) ? null : typeFeature(type);
}

function typeFeature(type: DataType): HubFeature | null {
  if (DataType.isDictionary(type)) return typeFeature(type.dictionary);
  if (DataType.isStruct(type)) {
    const fields: { name: string; feature: HubFeature }[] = [];
    for (const field of type.children) {
      const feature = arrowFeature(field);
      if (feature === null) return null;
      fields.push({ name: nameOf(field), feature });
    }
    return { kind: 'struct', fields };
  }
  if (DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type)) {
    const item = arrowFeature(type.children[0] as Field);
    if (item === null) return null;
    if (DataType.isFixedSizeList(type)) return { kind: 'list', item, length: type.listSize };
    return { kind: DataType.isLargeList(type) ? 'large_list' : 'list', item };
  }
  const dtype = dtypeOf(type);
  return dtype === null ? null : { kind: 'value', dtype };
}

function dtypeOf(type: DataType): string | null {
  if (DataType.isNull(type)) return 'null';
  if (DataType.isBool(type)) return 'bool';
  if (DataType.isInt(type)) return `${type.isSigned ? '' : 'u'}int${type.bitWidth}`;
  if (DataType.isFloat(type)) return FLOATS[type.precision];
  if (DataType.isUtf8(type)) return 'string';
  if (DataType.isLargeUtf8(type)) return 'large_string';
  if (DataType.isUtf8View(type)) return 'string_view';
  // bytes of a fixed size have no name either, but are taken as bytes of any
  if (DataType.isBinary(type) || DataType.isFixedSizeBinary(type)) return 'binary';
  if (DataType.isLargeBinary(type)) return 'large_binary';
  if (DataType.isBinaryView(type)) return 'binary_view';
  if (DataType.isDate(type)) return type.unit === DateUnit.DAY ? 'date32' : 'date64';
  if (DataType.isTime(type)) return `time${type.bitWidth}[${UNITS[type.unit]}]`;
  if (DataType.isDuration(type)) return `duration[${UNITS[type.unit]}]`;
  if (DataType.isTimestamp(type)) {
    const { unit, timezone } = type;
    if (!timezone) return `timestamp[${UNITS[unit]}]`;
    return ZONE.test(timezone) ? `timestamp[${UNITS[unit]}, tz=${timezone}]` : null;
  }
  const hasName = DataType.isDecimal(type) && (type.bitWidth === 128 || type.bitWidth === 256);
  return hasName ? `decimal${type.bitWidth}(${type.precision}, ${type.scale})` : null;
}
