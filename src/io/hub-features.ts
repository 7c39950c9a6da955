// Column types in, the `features` of a Hugging Face dataset card out, as YAML lines.

import type { ColumnType } from './schema.js';

/** A type in the terms of `datasets`. */
export type HubFeature =
  | { readonly kind: 'value'; readonly dtype: string }
  | { readonly kind: 'list' | 'large_list'; readonly item: HubFeature; readonly length?: number }
  | { readonly kind: 'struct'; readonly fields: readonly HubField[] };

interface HubField {
  readonly name: string;
  readonly feature: HubFeature;
}

/** A column of the files that the card describes. */
export interface CardColumn {
  readonly name: string;
  /** null for a type without a name there */
  readonly feature: HubFeature | null;
}

/** Our flat types by the names that `datasets` has for them; JSON text is text there. */
const DTYPES: Readonly<Record<Exclude<ColumnType['kind'], 'list' | 'struct'>, string>> = {
  bool: 'bool',
  int32: 'int32',
  int64: 'int64',
  float32: 'float32',
  double: 'float64',
  string: 'string',
  json: 'string',
};

/** One of our own types as `datasets` knows it. */
export function hubFeature(type: ColumnType): HubFeature {
  if (type.kind === 'list') return { kind: 'list', item: hubFeature(type.element) };
  if (type.kind !== 'struct') return { kind: 'value', dtype: DTYPES[type.kind] };
  const fields = type.fields.map(({ name, type: field }) => ({ name, feature: hubFeature(field) }));
  return { kind: 'struct', fields };
}

/** The lines under `features:`; null where a column has a type without a name there, and the reader has to look. */
export function featureLines(columns: readonly CardColumn[], indent: string): string[] | null {
  const fields = columns.filter((column): column is HubField => column.feature !== null);
  return fields.length < columns.length ? null : fieldLines(fields, indent);
}

function fieldLines(fields: readonly HubField[], indent: string): string[] {
  return fields.flatMap(({ name, feature }) => [
    `${indent}- name: ${yamlText(name)}`,
    ...typeLines(feature, `${indent}  `),
  ]);
}

function typeLines(feature: HubFeature, indent: string): string[] {
  if (feature.kind === 'value') return [`${indent}dtype: ${dtypeText(feature.dtype)}`];
  if (feature.kind === 'struct') return [`${indent}struct:`, ...fieldLines(feature.fields, indent)];
  const { kind, item, length } = feature;
  const lines =
    item.kind === 'value'
      ? [`${indent}${kind}: ${dtypeText(item.dtype)}`]
      : [
          `${indent}${kind}:`,
          ...(item.kind === 'struct' ? fieldLines(item.fields, indent) : typeLines(item, `${indent}  `)),
        ];
  return length === undefined ? lines : [...lines, `${indent}length: ${length}`];
}

// `null` is none, and brackets and colons are better not left to readers
function dtypeText(dtype: string): string {
  return dtype === 'null' || /\W/.test(dtype) ? yamlText(dtype) : dtype;
}

/** A type in a few words: `list<float32>`. */
export function describeFeature(feature: HubFeature): string {
  if (feature.kind === 'value') return feature.dtype;
  if (feature.kind !== 'struct') return `${feature.kind}<${describeFeature(feature.item)}>`;
  return `struct<${feature.fields.map(({ name, feature }) => `${name}: ${describeFeature(feature)}`).join(', ')}>`;
}

/** A JSON string is a YAML string; quoted always, since `no`, `1` and `null` are none. */
export function yamlText(text: string): string {
  return JSON.stringify(text);
}
