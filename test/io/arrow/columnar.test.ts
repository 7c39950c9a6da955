// Arrow and Parquet inputs: every type is read right and comes out of a run unchanged, by the word of other readers.
import { createReadStream } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as arrow from 'apache-arrow';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stringifyJson } from '../../../dist/io/arrow/json.js';
import { decompressLz4 } from '../../../dist/io/arrow/lz4.js';
import { typeName } from '../../../dist/io/arrow/types.js';
import { columnarColumns, readRows, resolveInputs } from '../../../dist/io/read/inputs.js';
import { printableJson } from '../../../dist/printable.js';
import type { ReadOptions } from '../../../dist/rows.js';
import { collect, queryDuckdb, readWithHyparquet } from '../../support/io-helpers.js';
import { ROOT } from '../../support/program.js';
import { openScene } from '../../support/scene.js';

const fixture = (name: string) => join(ROOT, 'test/files', name);
type Columns = Record<string, unknown[]>;

const { at, done, fails, folder, rows: rowsOf, write } = await openScene();
const { types, odd }: Record<'types' | 'odd', Columns> = JSON.parse(
  await readFile(fixture('types.expected.json'), 'utf8'),
);

async function read(path: string, opts: ReadOptions = {}) {
  return collect(readRows(await resolveInputs([path]), opts));
}

/** JSON text of each value, so that BigInt and number compare by their digits. */
function texts(columns: Columns, rename: (name: string, value: unknown) => unknown = (_, value) => value) {
  return Object.fromEntries(
    Object.entries(columns).map(([name, values]) => [
      name,
      values.map((value) => stringifyJson(rename(name, value))),
    ]),
  );
}

async function readColumns(path: string, names: readonly string[]): Promise<Columns> {
  const rows = await read(path);
  return Object.fromEntries(
    names.map((name) => [name, rows.map((row) => (row.kind === 'row' ? row.columns[name] : row.rejection))]),
  );
}

const SEGMENT = 'segment --no-policy';

async function segmented(input: string, extension: string): Promise<{ path: string; stderr: string }> {
  const path = at(`${input.replaceAll(/\W/g, '_')}.out.${extension}`);
  const { stderr } = await done(`${SEGMENT} ${input} -o ${path}`);
  return { path, stderr };
}

const utf8 = (...values: (string | null)[]) => arrow.vectorFromArray(values, new arrow.Utf8());
const writeTable = (name: string, columns: Record<string, arrow.Vector>) =>
  write(name, arrow.tableToIPC(new arrow.Table(columns), name.endsWith('s') ? 'stream' : 'file'));

async function schemaOf(path: string): Promise<arrow.Schema> {
  return (await arrow.RecordBatchReader.from(createReadStream(path)).then((reader) => reader.open())).schema;
}

/** Parquet has no seconds: they are milliseconds there. JSON.parse has rounded what is beyond 2^53. */
const inParquet = (name: string, value: unknown) =>
  typeof value === 'string' && /^(timestamp_s|time32_s)$/.test(name) ? `${value}.000` : value;
const rounded = (text: string) => text.replace(/\d{17,}/g, (digits) => String(Number(digits)));
const roundAll = (columns: Record<string, string[]>) =>
  Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values.map(rounded)]));

describe('values of every type', () => {
  it.each(['types.arrow', 'types.lz4.arrow', 'types.zstd.arrows', 'types.parquet'])('%s', async (name) => {
    const found = await readColumns(fixture(name), Object.keys(types));
    const expected = texts(types, name.endsWith('.parquet') ? inParquet : undefined);
    expect(roundAll(texts(found))).toEqual(roundAll(expected));
  });

  it('those that are written in another form', async () => {
    expect(texts(await readColumns(fixture('odd.arrow'), Object.keys(odd)))).toEqual(texts(odd));
  });

  it('integers of 64 bits keep their digits', async () => {
    const { int64, uint64 } = await readColumns(fixture('types.arrow'), ['int64', 'uint64']);
    expect(int64).toEqual([-9223372036854775808n, 9223372036854775807n, null, 0]);
    expect(uint64).toEqual([0, 18446744073709551615n, null, 7]);
  });

  it('a type that Parquet has not is refused by column before anything is written, and Arrow keeps it', async () => {
    const tens = arrow.vectorFromArray([null, null], new arrow.Decimal(-2, 10, 128));
    await writeTable('negative-scale.arrow', { completion: utf8('a', 'b'), tens });
    const out = 'negative-scale.parquet';
    const why = `${out}: column "tens" is Decimal128(10, -2), which cannot be written`;
    const { stderr } = await fails(`${SEGMENT} negative-scale.arrow -o ${out}`, 2, why);
    expect(stderr).toContain('try: -o <file>.arrow');
    expect((await readdir(folder)).filter((name) => name.includes(out))).toEqual([]);
    const { path } = await segmented(at('negative-scale.arrow'), 'arrow');
    expect(typeName((await schemaOf(path)).fields[1]?.type as arrow.DataType)).toBe('Decimal128(10, -2)');
  });

  it.each(['polars.parquet', 'polars.lz4.arrow'])("polars' categoricals: %s", async (name) => {
    const { cat, id2, completion } = await readColumns(fixture(name), ['cat', 'id2', 'completion']);
    expect(cat).toEqual(Array.from({ length: 1000 }, (_, i) => ['x', 'y', null][i % 3]));
    expect(id2).toEqual(Array.from({ length: 1000 }, (_, i) => i));
    expect(completion?.[999]).toBe('a\nb999');
  });

  it('a row is a plain object to code that looks into it, and JSON text for the rejects', async () => {
    const [row] = await read(fixture('polars.lz4.arrow'));
    if (row?.kind !== 'row') throw new Error('no row');
    expect(Object.keys(row.columns)).toEqual(['completion', 'cat', 'id2']);
    expect({ ...row.columns }).toEqual({ completion: 'a\nb0', cat: 'x', id2: 0 });
    expect(Object.hasOwn(row.columns, 'cat')).toBe(true);
    expect(Object.hasOwn(row.columns, 'toString')).toBe(false);
    expect(row.columns.toString).toBeUndefined();
    expect(row).toMatchObject({ byteOffset: null, raw: '{"completion":"a\\nb0","cat":"x","id2":0}' });
  });
});

it('a list view of Parquet is the list that it is stored as', async () => {
  const [row] = await read(fixture('list-view.parquet'));
  expect(row).toMatchObject({ columns: { completion: 'a', c: [1] } });
});

it.each([
  ['list-view.arrow', 'a column', 'ListView', 'pa.list_'],
  ['run-end.arrow', 'a column', 'RunEndEncoded', 'run_end_decode'],
  ['union.arrow', 'column "union_dense"', 'Union', 'leave it out'],
  ['interval.arrow', 'column "interval"', 'Interval', 'leave it out'],
])('%s is refused for its type, not as damage', async (name, column, type, remedy) => {
  const why = `${column} has Arrow's type ${type}, which is not read`;
  const { stderr } = await fails(`${SEGMENT} ${fixture(name)}`, 2, why);
  expect(stderr).toContain(remedy);
  expect(stderr).not.toContain('damaged');
});

it.each(['arrow', 'arrows'])('a column without a name goes from .%s to other files', async (extension) => {
  const columns = { completion: utf8('a'), '': utf8('x') };
  await writeTable(`nameless.${extension}`, columns);
  const out = `nameless-${extension}`;
  for (const to of ['arrow', 'parquet', 'jsonl']) {
    const from = to === 'arrow' ? `nameless.${extension}` : `${out}.arrow`;
    await done(`${SEGMENT} ${from} --columns status -o ${out}.${to}`);
  }
  expect((await readWithHyparquet(at(`${out}.parquet`)))[0]).toMatchObject({ completion: 'a', '': 'x' });
  expect((await rowsOf(`${out}.jsonl`))[0]).toMatchObject({ completion: 'a', '': 'x' });
});

describe('every type through a run', () => {
  const kept = Object.keys(types);

  it.each(['types.arrow', 'types.lz4.arrow', 'types.zstd.arrows'])('%s to Arrow: the same', async (name) => {
    for (const extension of ['arrow', 'arrows']) {
      const { path } = await segmented(fixture(name), extension);
      const [before, after] = [await schemaOf(fixture(name)), await schemaOf(path)];
      for (const field of before.fields) {
        const found = after.fields.find((other) => other.name === field.name);
        // large forms and views are a matter of memory: all are written in the plain form
        expect(typeName(found?.type as never)).toBe(typeName(field.type).replaceAll(/Large|View/g, ''));
        expect(found?.metadata).toEqual(field.metadata);
        expect(found?.nullable).toBe(true);
      }
      expect(texts(await readColumns(path, kept))).toEqual(texts(await readColumns(fixture(name), kept)));
    }
  });

  it.each(['types.arrow', 'types.zstd.arrows', 'types.parquet'])(
    '%s to Parquet: DuckDB and hyparquet see what they see in the Parquet file that pyarrow wrote of it',
    async (name) => {
      const { path, stderr } = await segmented(fixture(name), 'parquet');
      expect(stderr).toMatch(/schema metadata is not passed on: huggingface/);
      // DuckDB has no null type and no float16: each reader is asked what it can tell
      const names = kept.map((column) => `"${column}"`);
      const selected = (file: string) => `select ${names.join(', ')} from '${file}'`;
      const reference = fixture('types.parquet');
      const described = await queryDuckdb(`describe ${selected(path)}`);
      expect(described).toEqual(await queryDuckdb(`describe ${selected(reference)}`));
      for (const [a, b] of [
        [path, reference],
        [reference, path],
      ] as const)
        expect(
          await queryDuckdb(`select * from (${selected(a)}) except all select * from (${selected(b)})`),
        ).toEqual([]);
      const pick = (rows: Record<string, unknown>[]) => rows.map((row) => kept.map((column) => row[column]));
      expect(pick(await readWithHyparquet(path))).toEqual(pick(await readWithHyparquet(reference)));
    },
  );

  it('to JSONL: as documented', async () => {
    const { path } = await segmented(fixture('types.arrow'), 'jsonl');
    const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
    for (const [name, values] of Object.entries(texts(types)))
      for (const [n, text] of values.entries())
        expect(rounded(lines[n] as string)).toContain(`"${name}":${printableJson(rounded(text))}`);
  });

  it.each(['arrow', 'parquet'])('what readers refuse, to %s: other forms, told', async (extension) => {
    const { path, stderr } = await segmented(fixture('odd.arrow'), extension);
    const asText = (name: string, value: unknown) =>
      /^(empty_struct|list_null)/.test(name) && value !== null ? JSON.stringify(value) : value;
    expect(texts(await readColumns(path, Object.keys(odd)))).toEqual(texts(odd, asText));
    for (const [name, reason] of [
      ...['dictionary', 'dictionary_view', 'list_dictionary'].map((each) => [
        each,
        'dictionary is written out',
      ]),
      ['empty_struct', 'structs without fields are written as JSON text'],
      ['list_null', 'lists of nothing but null are written as JSON text'],
      ['required', 'becomes nullable'],
    ])
      expect(stderr.match(new RegExp(`column "${name}": .*${reason}`, 'g'))).toHaveLength(1);
    if (extension === 'parquet')
      expect(await queryDuckdb(`select "dictionary", required from '${path}'`)).toEqual(
        ['red', 'green', null, 'red'].map((dictionary, n) => ({ dictionary, required: BigInt(n + 1) })),
      );
  });

  it('values that Parquet marks as what Arrow has no types for', async () => {
    const { path } = await segmented(fixture('marked.parquet'), 'parquet');
    expect(await readColumns(path, ['uuid', 'json'])).toEqual({
      uuid: ['AAECAwQFBgcICQoLDA0ODw==', null],
      json: ['{"a":1}', null],
    });
  });

  it('of a Parquet file whose writer says something in bytes that are no text', async () => {
    const { path, stderr } = await segmented(fixture('said.parquet'), 'parquet');
    expect(await readColumns(path, ['completion', 'x'])).toEqual({ completion: ['a', 'b'], x: [1, null] });
    expect(await queryDuckdb(`SELECT DISTINCT typeof(x) AS x FROM '${path}'`)).toEqual([{ x: 'SMALLINT' }]);
    expect(stderr).toMatch(/schema metadata is not passed on: \?\?, a, b/);
  });

  it('a dictionary in Parquet', async () => {
    const { path, stderr } = await segmented(fixture('odd.parquet'), 'parquet');
    expect(stderr).toMatch(/column "dictionary": its dictionary/);
    expect((await readColumns(path, ['dictionary'])).dictionary).toEqual(odd.dictionary);
  });

  it('rows that are rejected, exploded or out of step leave the others where they are', async () => {
    await writeTable('explode.arrow', {
      n: arrow.vectorFromArray([0n, 1n, 2n, 3n], new arrow.Int64()),
      texts: arrow.vectorFromArray(
        [['a', 'b'], [], ['c'], ['d', 'e', 'f']],
        new arrow.List(new arrow.Field('item', new arrow.Utf8(), true)),
      ),
    });
    await done(`${SEGMENT} explode.arrow --map completion=texts[] -o exploded.parquet`);
    const path = at('exploded.parquet');
    expect(await queryDuckdb(`select n, len(texts) as items, source_row from '${path}'`)).toEqual(
      [0n, 0n, 2n, 3n, 3n, 3n].map((n) => ({ n, items: [2n, 0n, 1n, 3n][Number(n)], source_row: n })),
    );
    const [reject] = await rowsOf<object>('exploded.parquet.rejects.jsonl');
    expect(reject).toMatchObject({ row: 1, byte_offset: null, code: 'map', raw: '{"n":1,"texts":[]}' });
  });

  it('any column names, and any text in them', async () => {
    const name = fc.string({ minLength: 1 }).filter((text) => text !== 'completion');
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(name, { maxLength: 4 }),
        fc.array(fc.option(fc.string({ unit: 'grapheme' })), { minLength: 1, maxLength: 5 }),
        async (names, values) => {
          if (names.length === 0) return;
          await writeTable('any.arrow', Object.fromEntries(names.map((each) => [each, utf8(...values)])));
          const rows = await read(at('any.arrow'));
          expect(rows.map((row) => row.kind === 'row' && names.map((each) => row.columns[each]))).toEqual(
            values.map((value) => names.map(() => value)),
          );
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe('several files', () => {
  const ints = (n: number) => arrow.vectorFromArray([n], new arrow.Int32());

  it('with one schema are one input, in whatever order their columns are', async () => {
    await mkdir(at('same'));
    await writeTable('same/a.arrow', { n: ints(1), completion: utf8('a') });
    await writeTable('same/b.arrow', { completion: utf8('b'), n: ints(2) });
    await done(`${SEGMENT} same -o same.parquet`);
    expect(await queryDuckdb(`select n, completion, id from '${at('same.parquet')}'`)).toEqual([
      { n: 1, completion: 'a', id: 'a:0' },
      { n: 2, completion: 'b', id: 'b:0' },
    ]);
  });

  it.each([
    ['n', /b\.arrow: column "n" is Int32, expected Int64, as in .*a\.arrow/],
    ['m', /b\.arrow: has no column "n", as in .*a\.arrow/],
  ])('with another type or name are an error that names file and column: %s', async (name, message) => {
    await mkdir(at(name));
    const long = arrow.vectorFromArray([1n], new arrow.Int64());
    await writeTable(`${name}/a.arrow`, { n: long, completion: utf8('a') });
    await writeTable(`${name}/b.arrow`, { [name]: ints(1), completion: utf8('a') });
    await fails(`${SEGMENT} ${name} -o x.parquet`, 2, message);
  });

  it('JSON beside columns: an error for a typed output, and none for JSONL', async () => {
    await write('mixed.jsonl', '{"completion":"z"}\n');
    const inputs = `${fixture('polars.parquet')} mixed.jsonl`;
    const why = /polars\.parquet has columns with types and .*mixed\.jsonl is JSON/;
    await fails(`${SEGMENT} ${inputs} -o x.arrow`, 2, why);
    expect((await done(`${SEGMENT} ${inputs}`)).stdout.trim().split('\n')).toHaveLength(1001);
  });
});

it.each(['polars.parquet', 'polars.lz4.arrow'])(
  '%s: rows that nobody wants are passed over',
  async (name) => {
    for (const wanted of [(row: number) => row === 999, (row: number) => row % 400 === 7]) {
      const rows = await read(fixture(name), { wanted });
      const expected = Array.from({ length: 1000 }, (_, i) => i).filter(wanted);
      expect(rows.map(({ row }) => row)).toEqual(expected);
      expect(rows.map((row) => row.kind === 'row' && row.columns.id2)).toEqual(expected);
    }
  },
);

describe('streams', () => {
  it('Arrow on standard input keeps its types', async () => {
    await done(`${SEGMENT} - -o piped.parquet`, await readFile(fixture('types.zstd.arrows')));
    const query = `select decimal9, timestamp_tz is null as gone, id from '${at('piped.parquet')}' limit 1`;
    expect(await queryDuckdb(query)).toMatchObject([{ id: 'stdin:0', gone: false }]);
  });

  it('our own Arrow output can be read again', async () => {
    await done(`${SEGMENT} ${fixture('polars.parquet')} -o own.arrows`);
    await done(`${SEGMENT} - -o again.arrow`, await readFile(at('own.arrows')));
    expect(await read(at('again.arrow'))).toHaveLength(1000);
  });

  it.each([
    ['Parquet', 'polars.parquet', /stdin|-: Parquet cannot be read from a stream/],
    ['an Arrow file', 'types.arrow', /-: an Arrow file cannot be read from a stream/],
  ])('%s is refused with what to do', async (_, name, message) => {
    const { stderr } = await fails(SEGMENT, 2, message, await readFile(fixture(name)));
    expect(stderr).toMatch(/try: name the file/);
  });
});

describe('damage', () => {
  async function outcome(path: string): Promise<string> {
    try {
      const rows = await read(path);
      return `${rows.length} rows: ${rows.map(({ raw }) => raw)}`;
    } catch (error) {
      expect(error).toMatchObject({ name: 'RredcotError' });
      expect((error as Error).message).toContain(path);
      return (error as Error).message;
    }
  }

  async function damagedFile(name: string, change: (bytes: Buffer) => Buffer): Promise<string> {
    const path = at(`damaged-${name}`);
    await write(path, change(await readFile(fixture(name))));
    return path;
  }

  const BATCH_0 = /record batch 0, which begins with row 0, cannot be read/;
  it.each<[string, (bytes: Buffer) => Buffer, RegExp]>([
    ['types.arrow', (bytes) => bytes.subarray(0, -300), /has no footer: it was cut off/],
    ['types.arrow', () => Buffer.from('ARROW1\0\0'), /has no footer/],
    [
      'types.arrow',
      (bytes) => Buffer.concat([Buffer.from('ARROW1'), Buffer.alloc(99, 7), bytes.subarray(-10)]),
      /has no footer|cannot be read/,
    ],
    ['types.zstd.arrows', (bytes) => bytes.subarray(0, -500), BATCH_0],
    ['types.zstd.arrows', (bytes) => bytes.subarray(0, 100), /its schema cannot be read/],
    ['types.lz4.arrow', (bytes) => bytes.fill(0xee, 9000, 9200), /cannot be read/],
    ['types.parquet', (bytes) => bytes.subarray(0, -1), /has no footer at its end: it was cut off/],
    ['types.parquet', () => Buffer.from('PAR1'), /has no footer/],
    [
      'types.parquet',
      (bytes) => bytes.fill(0xff, bytes.length - 9000, bytes.length - 8000),
      /its footer cannot be read/,
    ],
    ['polars.parquet', (bytes) => bytes.fill(0xff, 10, 900), /row group \d, from row \d+ on, cannot be read/],
  ])('%s', async (name, change, message) => {
    expect(await outcome(await damagedFile(name, change))).toMatch(message);
  });

  it('is exit 65 and leaves no output', async () => {
    const path = await damagedFile('polars.parquet', (bytes) => bytes.fill(0xff, 10, 900));
    const { stderr } = await fails(`${SEGMENT} ${path} -o none.parquet`, 65, 'cannot be read');
    expect(stderr).not.toMatch(/\n\s+at /);
    await expect(readFile(at('none.parquet'))).rejects.toThrow();
  });

  it('bytes that flip anywhere give rows or our own error, never a crash', async () => {
    const whole = await readFile(fixture('types.arrow'));
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), async (place, flip) => {
        const bytes = Buffer.from(whole);
        bytes[place] = (bytes[place] as number) ^ flip;
        const path = at('flipped.arrow');
        await write(path, bytes);
        await outcome(path);
      }),
      // a list's type without its item
      { numRuns: 150, examples: [[14476, 136]] },
    );
  });

  it('an empty table is no damage', async () => {
    await writeTable('empty.arrow', { completion: utf8() });
    expect(await read(at('empty.arrow'))).toEqual([]);
    const { path: out } = await segmented(at('empty.arrow'), 'parquet');
    expect(await queryDuckdb(`select completion from '${out}'`)).toEqual([]);
    // and a Parquet file without a row group
    expect(await read(out)).toEqual([]);
    const found = await columnarColumns(await resolveInputs([out]));
    expect(found?.columns.map(({ name }) => name)).toContain('segments');
  });

  it('two columns of one name', async () => {
    const table = new arrow.Table({ a: arrow.vectorFromArray([1]), b: arrow.vectorFromArray([2]) });
    const [a, b] = Buffer.from('ab');
    const path = at('twice.arrow');
    await write(
      path,
      arrow.tableToIPC(table, 'file').map((byte) => (byte === b ? (a as number) : byte)),
    );
    expect(await outcome(path)).toMatch(/two columns are called "a"/);
  });
});

describe('lz4', () => {
  it('long matches and literals over several blocks', async () => {
    const { completion } = await readColumns(fixture('long.lz4.arrow'), ['completion']);
    for (const [j, text] of (completion ?? []).entries()) {
      const part = Buffer.from(Array.from({ length: 30000 }, (_, i) => 97 + ((i * i + j) % 26)));
      expect(text === part.toString().repeat(4)).toBe(true);
    }
  });

  const frameOf = (block: readonly number[], { flags = 0x60, size = [] as readonly number[] } = {}) => {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(block.length);
    const header = [0x04, 0x22, 0x4d, 0x18, flags, 0x70, ...size, 0x73];
    return Buffer.concat([Buffer.from(header), length, Buffer.from(block), Buffer.alloc(4)]);
  };
  const letters = [0x61, 0x62, 0x63, 0x64, 0x65];
  const TWO_BYTES = { flags: 0x68, size: [2, 0, 0, 0, 0, 0, 0, 0] };

  it.each([
    ['a match of distance 0', frameOf([0x40, ...letters.slice(0, 4), 0, 0, 0x10, 0x61]), /points outside/],
    ['a match before its frame', frameOf([0x40, ...letters.slice(0, 4), 5, 0, 0x10, 0x61]), /points outside/],
    ['more literals than bytes', frameOf([0x60, ...letters]), /cut off/],
    ['a distance of one byte', frameOf([0x40, ...letters.slice(0, 4), 1]), /outside the bounds/],
    ['a length that does not end', frameOf([0xf0, 255, 255]), /outside the bounds/],
    ['a dictionary', frameOf([0x10, 0x61], { flags: 0x61 }), /without a dictionary/],
    ['another version', frameOf([0x10, 0x61], { flags: 0xa0 }), /expected version 1/],
    ['another length', frameOf([0x10, 0x61], TWO_BYTES), /holds 1 bytes, its header says 2/],
    ['no magic', Buffer.alloc(16), /no lz4 frame/],
    ['no end', frameOf([0x50, ...letters]).subarray(0, -1), /outside the bounds/],
  ])('damaged, with %s, is an error', (_, frame, message) => {
    expect(() => decompressLz4(frame)).toThrow(message);
  });
});

it('a column of bytes: is no text: its rows are turned down by name, and as a column it comes along', async () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const columns = {
    completion: arrow.vectorFromArray([bytes('Step.\nA: 1')], new arrow.Binary()),
    more: arrow.vectorFromArray([bytes('x')], new arrow.Binary()),
    text: utf8('Step.\nA: 1'),
  };
  await writeTable('bytes.arrow', columns);
  const why = 'completion: completion is bytes, expected text: write the column as strings';
  await fails(`${SEGMENT} bytes.arrow -o bytes.jsonl`, 65, why);
  await done(`${SEGMENT} bytes.arrow --map completion=text -o bytes.parquet`);
  const query = `select typeof(more) as type, more::varchar as more from '${at('bytes.parquet')}'`;
  expect(await queryDuckdb(query)).toEqual([{ type: 'BLOB', more: 'x' }]);
});
