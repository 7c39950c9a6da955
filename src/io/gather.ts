// Ranges of Arrow record batches in, one batch with copies of their rows out, in the order of the ranges.
import { makeData, RecordBatch, type Schema, Struct } from 'apache-arrow';
import { gather } from './arrow-gather.js';

/** Rows `from` to `to`, exclusive, of something that holds rows. */
export interface Piece<T> {
  readonly unit: T;
  readonly from: number;
  readonly to: number;
}

/** Puts rows of batches of one schema together. */
export function gatherRows(schema: Schema, pieces: readonly Piece<RecordBatch>[]): RecordBatch {
  const length = pieces.reduce((rows, { from, to }) => rows + to - from, 0);
  const children = schema.fields.map(({ type, name }, n) => {
    const ranges = pieces.map(({ unit, from, to }) => ({ data: unit.data.children[n] ?? null, from, to }));
    return gather(type, ranges, name);
  });
  return new RecordBatch(
    schema,
    makeData({ type: new Struct(schema.fields), length, nullCount: 0, children }),
  );
}
