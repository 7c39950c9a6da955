// Pass-through columns: any JSON value, written to Parquet, comes back equal in two independent readers.

import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ColumnType, describeType, inferColumns } from '../../../dist/io/arrow/schema.js';
import { openOutput } from '../../../dist/io/write/output.js';
import { declared } from '../../../dist/scored/columns.js';
import { bareRow, queryDuckdb, readWithHyparquet, temporaryFolder } from '../../support/io-helpers.js';

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

async function writeColumn(path: string, values: unknown[]) {
  const rows = values.map((v) => ({ v }));
  const passThrough = infer(...rows);
  const output = await openOutput({
    path,
    format: 'parquet',
    ourColumns: declared(['source_row']),
    passThrough,
    metadata: {},
  });
  for (const [n, row] of rows.entries()) await output.write(bareRow(row, n));
  await output.finish();
  await output.publish();
  return passThrough[0]?.type as ColumnType;
}

describe('any JSON value passes through Parquet', () => {
  it('takes __proto__ as a key like any other', async () => {
    const path = join(await temporaryFolder(), 'v.parquet');
    // hyparquet builds plain objects and loses it, DuckDB does not
    await writeColumn(path, [JSON.parse('{"__proto__":1,"a":2}'), { a: 3 }]);
    const rows = await queryDuckdb(`select v['__proto__'] as p, v.a as a from '${path}'`);
    expect(rows).toEqual([
      { p: 1n, a: 2n },
      { p: null, a: 3n },
    ]);
  });

  it('keeps integers beyond 2^53 and NaN', async () => {
    const path = join(await temporaryFolder(), 'v.parquet');
    await writeColumn(path, [1, 9007199254740993n, -(2n ** 63n), null]);
    expect((await readWithHyparquet(path)).map(({ v }) => v ?? null)).toEqual([
      1n,
      9007199254740993n,
      -(2n ** 63n),
      null,
    ]);
    await writeColumn(path, [Number.NaN, Number.POSITIVE_INFINITY, -0.5]);
    expect((await queryDuckdb(`select v from '${path}'`)).map(({ v }) => v)).toEqual([NaN, Infinity, -0.5]);
    await writeColumn(path, [2n ** 64n, 'x']);
    expect((await queryDuckdb(`select v from '${path}'`)).map(({ v }) => v)).toEqual([
      '18446744073709551616',
      '"x"',
    ]);
  });
});
