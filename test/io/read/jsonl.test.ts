// The traps of JSONL, one by one (IO §2), and the rule that no split of the bytes changes a row.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { float32Text, parseJson, stringifyJson } from '../../../dist/io/arrow/json.js';
import { rowsOf } from '../../support/io-helpers.js';

const codes = (rows: Awaited<ReturnType<typeof rowsOf>>) =>
  rows.map((row) => (row.kind === 'bad' ? row.rejection.code : row.columns));

function withoutBigInts(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutBigInts);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withoutBigInts(item)]));
}

describe('lines', () => {
  it('numbers rows and byte offsets without blank lines', async () => {
    const rows = await rowsOf('{"a":1}\n\n  \t\r\n{"a":"é"}\r\n{"a":3}');
    expect(rows.map(({ row, byteOffset, raw }) => [row, byteOffset, raw])).toEqual([
      [0, 0, '{"a":1}'],
      [1, 14, '{"a":"é"}'],
      [2, 26, '{"a":3}'],
    ]);
  });

  it('strips a byte order mark at the start of the file and nowhere else', async () => {
    const rows = await rowsOf('\ufeff{"a":1}\n\ufeff{"a":2}\n');
    expect(codes(rows)).toEqual([{ a: 1 }, 'json']);
    expect(rows[0]).toMatchObject({ byteOffset: 3, raw: '{"a":1}' });
    expect(rows[1]).toMatchObject({ byteOffset: 11 });
  });

  it('does not end a line at U+2028, U+2029 or U+0085', async () => {
    const text = 'a\u2028b\u2029c\u0085d';
    expect(codes(await rowsOf(`${JSON.stringify({ text })}\n`))).toEqual([{ text }]);
  });

  it('rejects a line that is not UTF-8 and keeps its neighbours', async () => {
    const bytes = Buffer.from('{"a":1}\n{"a":"é"}\n{"a":3}\n', 'latin1');
    expect(codes(await rowsOf(bytes))).toEqual([{ a: 1 }, 'utf8', { a: 3 }]);
  });

  it('rejects a truncated last line and accepts one without newline', async () => {
    expect(codes(await rowsOf('{"a":1}\n{"a":2'))).toEqual([{ a: 1 }, 'json']);
    expect(codes(await rowsOf('{"a":1}\n{"a":2}'))).toEqual([{ a: 1 }, { a: 2 }]);
  });

  it('tells of rows that were printed over several lines', async () => {
    for (const rows of [{ a: 1 }, [{ a: 1 }]]) {
      const [first] = await rowsOf(JSON.stringify(rows, null, 1));
      expect(first?.kind === 'bad' && first.rejection.reason).toContain('jq -c . writes one a line');
    }
  });

  it('keeps only a prefix of a line over the limit, at any chunk size', async () => {
    const long = `{"a":"${'x'.repeat(5000)}"}`;
    const text = `{"a":1}\n${long}\n{"a":2}\n${long}`;
    for (const size of [1, 7, 100, 100_000]) {
      const sizes = Array.from({ length: Math.ceil(text.length / size) }, () => size);
      const rows = await rowsOf(text, { maxLineBytes: 3000, sizes });
      expect(codes(rows)).toEqual([{ a: 1 }, 'line_too_long', { a: 2 }, 'line_too_long']);
      expect(rows[1]?.raw).toBe(long.slice(0, 1024));
      expect(rows[2]?.byteOffset).toBe(8 + long.length + 1);
      expect(rows[1]).toMatchObject({
        rejection: { reason: expect.stringContaining('5008 bytes, at most 3000') },
      });
    }
    expect(codes(await rowsOf('12345678\n', { maxLineBytes: 8 }))).toEqual(['json']);
    expect(codes(await rowsOf('123456789\n', { maxLineBytes: 8 }))).toEqual(['line_too_long']);
  });

  it('refuses a line limit that no string can hold', async () => {
    for (const maxLineBytes of [6e8, Number.NaN])
      await expect(rowsOf('{}', { maxLineBytes })).rejects.toMatchObject({ exitCode: 2 });
  });

  it.each(['', '\ufeff', '\n\n'])('reads %j as no row', async (text) => {
    expect(await rowsOf(text)).toEqual([]);
  });

  it('gives the same rows for any split of the bytes', async () => {
    const line = fc.oneof(
      fc.json(),
      fc.string({ unit: 'binary' }),
      fc.object().map((value) => JSON.stringify(value)),
      fc.constantFrom('', '\r', '{"a":"\u2028é"}', '\ufeff{}', '{"x":NaN}', '{"n":9007199254740993}'),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 8 }),
        fc.constantFrom('\n', '\r\n'),
        fc.array(fc.integer({ min: 0, max: 12 }), { maxLength: 60 }),
        fc.constantFrom(20, 10_000),
        async (lines, lineEnd, sizes, maxLineBytes) => {
          const bytes = Buffer.from(lines.join(lineEnd));
          expect(await rowsOf(bytes, { sizes, maxLineBytes })).toEqual(await rowsOf(bytes, { maxLineBytes }));
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('values', () => {
  it.each([
    ['{"a":NaN,"b":Infinity,"c":-Infinity,"d":"NaN"}', { a: NaN, b: Infinity, c: -Infinity, d: 'NaN' }],
    ['{"a":9007199254740993}', { a: 9007199254740993n }],
    ['{"a":[-9007199254740993, 9007199254740991]}', { a: [-9007199254740993n, 9007199254740991] }],
    ['{"a":123456789012345678901234567890}', { a: 123456789012345678901234567890n }],
    ['{"a":0.12345678901234567890,"b":1e999}', { a: 0.12345678901234568, b: Infinity }],
    ['{"a":"id 12345678901234567890, 1"}', { a: 'id 12345678901234567890, 1' }],
    ['{"\\"NaN\\\\":NaN,"e":{},"l":[ ]}', { '"NaN\\': NaN, e: {}, l: [] }],
  ])('reads %s', async (line, columns) => {
    expect(codes(await rowsOf(line))).toEqual([columns]);
  });

  it.each([
    ...['[1]', '1', 'null', '"text"', 'NaN'],
    ...['{"a":nan}', '{"a":+NaN}', '{"a":NaN,}', '{"a":NaN', '{"a":NaN}}'],
  ])('rejects %s', async (line) => {
    expect(codes(await rowsOf(line))).toEqual(['json']);
  });

  it('takes __proto__ as a key like any other', async () => {
    for (const line of ['{"__proto__":{"x":1},"a":1}', '{"__proto__":{"x":1},"a":NaN}']) {
      const [row] = await rowsOf(line);
      if (row?.kind !== 'row') throw new Error('no row');
      expect(Object.keys(row.columns)).toEqual(['__proto__', 'a']);
      expect(Object.getPrototypeOf(row.columns)).toBe(Object.prototype);
      expect('x' in row.columns).toBe(false);
    }
  });

  it('rejects values nested so deep that recursion would fail', async () => {
    const deep = (levels: number) => `{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`;
    expect(codes(await rowsOf(`${deep(100_000)}\n${deep(300).replace('[]', '[NaN]')}\n{"a":1}`))).toEqual([
      'json',
      'json',
      { a: 1 },
    ]);
    expect((await rowsOf(deep(200)))[0]?.kind).toBe('row');
  });

  it('agrees with JSON.parse on every JSON text, on both of its ways', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(withoutBigInts(parseJson(text))).toEqual(JSON.parse(text));
        // the NaN sends the text to the lossless parser
        const [value] = parseJson(`[${text},NaN]`) as [unknown];
        expect(withoutBigInts(value)).toEqual(JSON.parse(text));
      }),
      { numRuns: 500 },
    );
  });

  it('writes BigInt as an integer and NaN as null', () => {
    expect(stringifyJson({ a: 9007199254740993n, b: [NaN, null, true], c: 'é\u2028' })).toBe(
      '{"a":9007199254740993,"b":[null,null,true],"c":"é\u2028"}',
    );
  });

  it('writes every float32 in the fewest digits that read back the same', () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const text = float32Text(value);
        expect(Math.fround(Number(text))).toBe(Object.is(value, -0) ? 0 : value);
        const digits = Math.min(
          ...[1, 2, 3, 4, 5, 6, 7, 8, 9].filter((n) => Math.fround(Number(value.toPrecision(n))) === value),
        );
        const significant = text
          .replace(/e.*$/, '')
          .replace(/[-.]/g, '')
          .replace(/^0+|0+$/g, '');
        expect(significant.length).toBeLessThanOrEqual(Math.max(digits, 0));
      }),
      { numRuns: 2000 },
    );
    expect(float32Text(Math.fround(0.1))).toBe('0.1');
    expect(float32Text(Math.fround(-1.2345678))).toBe('-1.2345678');
    expect(float32Text(2 ** -149)).toBe('1e-45');
    expect(float32Text(Number.NaN)).toBe('null');
  });
});
