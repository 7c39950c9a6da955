// Pass-through columns: the types that values are given, and values that come back from Parquet as they were.

import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ColumnType, describeType, inferColumns } from '../../../dist/io/arrow/schema.js';
import { openOutput } from '../../../dist/io/write/output.js';
import { declared } from '../../../dist/scored/columns.js';
import { bareRow, queryDuckdb, temporaryFolder } from '../../support/io-helpers.js';

function infer(...rows: Record<string, unknown>[]) {
  const inference = inferColumns();
  for (const row of rows) inference.add(row);
  return inference.finish();
}
const typeOf = (...values: unknown[]) => {
  const [column] = infer(...values.map((v) => ({ v })));
  return column === undefined ? 'none' : describeType(column.type);
};

describe('inference', () => {
  it.each([
    ['int64', [1, null, -2]],
    ['double', [1, 0.5]],
    ['double', [Number.NaN, 1]],
    ['double', [1e300]],
    ['int64', [1, 9007199254740993n]],
    ['json', [0.5, 9007199254740993n]],
    ['json', [2n ** 63n]],
    ['int64', [-(2n ** 63n)]],
    ['bool', [true, null]],
    ['string', ['a', null]],
    ['json', [null]],
    ['json', [1, 'a']],
    ['json', [true, 1]],
    ['json', [[1], 1]],
    ['json', [[1], { a: 1 }]],
    ['json', [{}]],
    ['list<json>', [[]]],
    ['list<json>', [[null], []]],
    ['list<double>', [[1], [0.5], []]],
    ['list<list<int64>>', [[[1], []], [null]]],
    ['list<json>', [[{}]]],
    ['struct<a: int64, b: string>', [{ a: 1 }, { b: 'x' }]],
    ['list<struct<role: string, content: string>>', [[{ role: 'user', content: 'x' }]]],
  ])('%s', (type, values) => {
    expect(typeOf(...values)).toBe(type);
  });

  it('keeps the columns in the order first seen', () => {
    expect(infer({ b: 1 }, { a: 1, b: 2 }, { c: 1 }).map(({ name }) => name)).toEqual(['b', 'a', 'c']);
  });

  it('does not depend on the order of the rows', () => {
    const values = fc.array(fc.jsonValue({ maxDepth: 3 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(values, (list) => {
        const keys = (type: ColumnType): unknown => {
          if (type.kind === 'list') return [keys(type.element)];
          if (type.kind !== 'struct') return type.kind;
          return Object.fromEntries(type.fields.map((field) => [`key ${field.name}`, keys(field.type)]));
        };
        const typed = (rows: unknown[]) => keys(infer(...rows.map((v) => ({ v })))[0]?.type as ColumnType);
        expect(typed([...list].reverse())).toEqual(typed(list));
      }),
    );
  });

  it('writes a dictionary of many keys and very deep values as JSON text', () => {
    expect(typeOf(Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`k${n}`, n])))).toBe('json');
    let deep: unknown = 1;
    for (let n = 0; n < 40; n++) deep = [deep];
    expect(typeOf(deep)).toMatch(/^(list<)+json>+$/);
  });
});

it.each([
  // hyparquet builds plain objects and loses __proto__, DuckDB does not
  [
    [JSON.parse('{"__proto__":1,"a":2}'), { a: 3 }],
    "v['__proto__'] as p, v.a as v",
    [
      [1n, 2n],
      [null, 3n],
    ],
  ],
  [[1, 9007199254740993n, -(2n ** 63n), null], 'v', [[1n], [9007199254740993n], [-(2n ** 63n)], [null]]],
  [[Number.NaN, Number.POSITIVE_INFINITY, -0.5], 'v', [[Number.NaN], [Number.POSITIVE_INFINITY], [-0.5]]],
  [[2n ** 64n, 'x'], 'v', [['18446744073709551616'], ['"x"']]],
])('values pass through Parquet: %#', async (values, selected, expected) => {
  const path = join(await temporaryFolder(), 'v.parquet');
  const rows = values.map((v: unknown) => ({ v }));
  const ourColumns = declared(['source_row']);
  const target = { path, format: 'parquet', ourColumns, passThrough: infer(...rows), metadata: {} } as const;
  const output = await openOutput(target);
  for (const [n, row] of rows.entries()) await output.write(bareRow(row, n));
  await output.finish();
  await output.publish();
  const found = await queryDuckdb(`select ${selected} from '${path}' order by source_row`);
  expect(found.map((row) => Object.values(row))).toEqual(expected);
});
