// Ranges of record batches are copied as they are, whatever their types and order.
import * as arrow from 'apache-arrow';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { batchOf, gatherRows } from '../../../dist/io/arrow/columns.js';

describe('gatherRows', () => {
  const field = (type: arrow.DataType, name = 'element') => new arrow.Field(name, type, true);
  const list = <T>(item: fc.Arbitrary<T>, maxLength: number) => fc.array(item, { maxLength });
  const types: readonly [arrow.DataType, fc.Arbitrary<unknown>][] = [
    [new arrow.Int32(), fc.integer()],
    [new arrow.Int64(), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })],
    [new arrow.Float32(), fc.float({ noNaN: true })],
    [new arrow.Bool(), fc.boolean()],
    [new arrow.Utf8(), fc.string({ unit: 'grapheme', maxLength: 5 })],
    // up to 12 bytes stand in the view itself, more in a buffer
    [new arrow.Utf8View(), fc.nat(15).map((length) => 'abcdefghijklmnop'.slice(0, length))],
    [new arrow.TimestampMicrosecond('UTC'), fc.integer({ min: 0, max: 2 ** 40 })],
    [new arrow.FixedSizeBinary(3), fc.uint8Array({ minLength: 3, maxLength: 3 })],
    [new arrow.List(field(new arrow.Float32())), list(fc.float({ noNaN: true }), 4)],
    [
      new arrow.FixedSizeList(2, field(new arrow.Int32())),
      fc.array(fc.integer(), { minLength: 2, maxLength: 2 }),
    ],
    [
      new arrow.List(field(new arrow.List(field(new arrow.Utf8())))),
      list(fc.option(list(fc.string(), 2)), 3),
    ],
    [
      new arrow.List(field(new arrow.Struct([field(new arrow.Int32(), 'a'), field(new arrow.Bool(), 'b')]))),
      list(fc.record({ a: fc.option(fc.integer()), b: fc.option(fc.boolean()) }), 3),
    ],
  ];
  const column = fc
    .constantFrom(...types)
    .chain(([type, value]) =>
      fc.tuple(fc.constant(type), fc.array(fc.option(value), { minLength: 12, maxLength: 12 })),
    );

  it('copies any ranges of any batches, in any order', () => {
    const range = fc.record({ batch: fc.nat(1), from: fc.nat(6), length: fc.nat(6) });
    fc.assert(
      fc.property(column, fc.array(range, { maxLength: 5 }), ([type, values], ranges) => {
        const written = type instanceof arrow.Utf8View ? new arrow.Utf8() : type;
        const schema = new arrow.Schema([field(written, 'x')]);
        const own = new arrow.Schema([field(type, 'x')]);
        const batches = [0, 6].map((from) => {
          const child = arrow.vectorFromArray(values.slice(from, from + 6), type).data[0] as arrow.Data;
          return batchOf(own, 6, [child]);
        });
        const rows = (batch: arrow.RecordBatch) =>
          Array.from(batch, (row) => JSON.stringify(row?.toJSON(), plain));
        const pieces = ranges.map(({ batch, from, length }) => {
          return { unit: batches[batch] as arrow.RecordBatch, from, to: Math.min(6, from + length) };
        });
        const expected = pieces.flatMap(({ unit, from, to }) => rows(unit).slice(from, to));
        expect(rows(gatherRows(schema, pieces))).toEqual(expected);
      }),
    );
  });

  it('refuses a type whose layout it does not know', () => {
    const schema = new arrow.Schema([field(new arrow.Decimal(2, 9, 128), 'd')]);
    expect(gatherRows(schema, []).numRows).toBe(0);
    const dictionary = new arrow.Table({ d: arrow.vectorFromArray(['a', 'b', 'a']) });
    expect(() => gatherRows(dictionary.schema, [])).toThrow(/column d: Dictionary.* cannot be copied/);
  });
});

function plain(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value;
}
