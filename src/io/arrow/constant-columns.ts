// Adds columns of text that have one value each to record batches.
import { Field, makeData, RecordBatch, Schema, Struct, Utf8, vectorFromArray } from 'apache-arrow';
import type { BatchSource } from './reader.js';

/** @param values by name; a column that is there already stays */
export function withConstants(
  source: BatchSource,
  values: Readonly<Record<string, string | null>>,
): BatchSource {
  const { fields, metadata } = source.schema;
  const added = Object.entries(values).filter(([name]) => fields.every((field) => field.name !== name));
  if (added.length === 0) return source;
  const all = [...fields, ...added.map(([name]) => new Field(name, new Utf8(), true))];
  const schema = new Schema(all, metadata);
  return {
    ...source,
    schema,
    async *batches(isWanted) {
      for await (const { batch, ...place } of source.batches(isWanted)) {
        const length = batch.numRows;
        const columns = added.map(
          ([, value]) => vectorFromArray(new Array(length).fill(value), new Utf8()).data[0],
        );
        const children = [...batch.data.children, ...columns] as typeof batch.data.children;
        yield {
          batch: new RecordBatch(schema, makeData({ type: new Struct(all), length, children })),
          ...place,
        };
      }
    },
  };
}
