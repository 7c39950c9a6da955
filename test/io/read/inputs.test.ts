// Inputs as people have them: packed, as one JSON list, by pattern, by folder, cut off in the middle.
import { spawn } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { readRows, resolveInputs } from '../../../dist/io/read/inputs.js';
import type { ReadOptions } from '../../../dist/rows.js';
import { rredcotHere } from '../../support/in-process.js';
import { collect, queryDuckdb, temporaryFolder } from '../../support/io-helpers.js';
import { ROOT } from '../../support/program.js';

const folder = await temporaryFolder();

async function file(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name);
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, content);
  return path;
}

async function read(paths: readonly string[], opts: ReadOptions = {}) {
  return collect(readRows(await resolveInputs(paths), opts));
}

/** What can be compared of rows: number, offset and columns, or the code of a bad one. */
async function seen(path: string, opts: ReadOptions = {}) {
  return (await read([path], opts)).map((row) => [
    row.row,
    row.byteOffset,
    row.kind === 'row' ? row.columns : row.rejection.code,
  ]);
}

/** A zstd frame without compression: magic, one-segment header with the size in 4 bytes, raw blocks. */
function zstdFrame(content: Buffer, blockBytes = 1000): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32LE(content.length);
  const parts: Uint8Array[] = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0]), size];
  for (let at = 0; at < content.length || at === 0; at += blockBytes) {
    const block = content.subarray(at, at + blockBytes);
    const header = Buffer.alloc(3);
    header.writeUIntLE((block.length << 3) | (at + blockBytes >= content.length ? 1 : 0), 0, 3);
    parts.push(header, block);
  }
  return Buffer.concat(parts);
}

const LINES = Array.from({ length: 3000 }, (_, n) => JSON.stringify({ n, text: 'é'.repeat(n % 50) }));
const TEXT = Buffer.from(`${LINES.join('\n')}\n`);
const half = TEXT.indexOf('\n', TEXT.length / 2) + 1;
const HALVES = [TEXT.subarray(0, half), TEXT.subarray(half)];

/** A frame that its reader passes over, as pzstd begins with one and seekable files end with one. */
const SKIPPED = Buffer.from([0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);

describe('packed text', () => {
  it.each([
    ['gzip', 'a.jsonl.gz', () => gzipSync(TEXT)],
    ['gzip of several members', 'b.jsonl.gz', () => Buffer.concat(HALVES.map((part) => gzipSync(part)))],
    ['gzip in a block of zeros', 'f.jsonl.gz', () => Buffer.concat([gzipSync(TEXT), Buffer.alloc(40_000)])],
    ['gzip before anything else', 'g.jsonl.gz', () => Buffer.concat([gzipSync(TEXT), Buffer.from('hello')])],
    ['gzip without its extension', 'c.jsonl', () => gzipSync(TEXT)],
    ['zstd', 'd.jsonl.zst', () => zstdFrame(TEXT)],
    ['zstd amid skipped frames', 'h.jsonl.zst', () => Buffer.concat([SKIPPED, zstdFrame(TEXT), SKIPPED])],
    ['zstd of several frames', 'e.jsonl.zst', () => Buffer.concat(HALVES.map((part) => zstdFrame(part)))],
  ])('%s is read like the text itself', async (_, name, content) => {
    const plain = await seen(await file('plain.jsonl', TEXT));
    expect(plain).toHaveLength(3000);
    expect(await seen(await file(name, content()))).toEqual(plain);
  });

  it.each([
    ['gzip', 'cut.jsonl.gz', () => gzipSync(TEXT, { level: 1 })],
    ['zstd', 'cut.jsonl.zst', () => zstdFrame(TEXT)],
  ])('%s that was cut off: the rows before it, then one reject', async (kind, name, content) => {
    const whole = content();
    for (const length of [whole.length - 1, whole.length >> 1, 40]) {
      const rows = await read([await file(name, whole.subarray(0, length))]);
      const bad = rows.pop();
      expect(rows.map((row) => row.kind === 'row' && row.columns)).toEqual(
        LINES.slice(0, rows.length).map((line) => JSON.parse(line)),
      );
      expect(bad).toMatchObject({ kind: 'bad', row: rows.length, rejection: { code: 'truncated' } });
      // nothing that came before the cut is lost: half the file gives about half the rows
      if (length === whole.length >> 1) expect(rows.length).toBeGreaterThan(1000);
      // zstd gives whole blocks only
      if (length === whole.length - 1)
        expect(rows.length).toBeGreaterThanOrEqual(kind === 'gzip' ? 3000 : 2950);
      if (rows.length < 3000) expect(LINES[rows.length]?.startsWith(bad?.raw ?? '?')).toBe(true);
    }
  });

  it('gzip that is damaged in the middle is an error that names file and place', async () => {
    const bytes = gzipSync(TEXT);
    bytes.fill(0xff, bytes.length >> 1, (bytes.length >> 1) + 40);
    const path = await file('damaged.jsonl.gz', bytes);
    const why = /damaged\.jsonl\.gz: the gzip data cannot be unpacked near byte \d/;
    const message = expect.stringMatching(why);
    await expect(read([path])).rejects.toMatchObject({ name: 'RredcotError', exitCode: 65, message });
  });

  it('counts packed bytes, so that they can be set against the size of the file', async () => {
    const bytes = gzipSync(TEXT);
    let counted = 0;
    const rows = await read([await file('counted.jsonl.gz', bytes)], { onBytes: (n) => (counted += n) });
    expect(rows).toHaveLength(3000);
    expect(counted).toBe(bytes.length);
  });
});

describe('a JSON list', () => {
  const values = LINES.map((line) => JSON.parse(line));
  const list = (pretty?: number) => JSON.stringify(values, null, pretty);

  it.each([
    ['in one line', list()],
    ['over many lines', list(2)],
    ['after white space and a byte order mark', `\ufeff \n${list()}\n`],
  ])('%s gives its elements', async (_, text) => {
    const path = await file('list.json', text);
    const rows = await read([path]);
    const bytes = Buffer.from(text);
    expect(rows.map((row) => row.kind === 'row' && row.columns)).toEqual(values);
    for (const row of rows.slice(0, 5)) {
      const raw = Buffer.from(row.raw);
      expect(bytes.subarray(row.byteOffset ?? 0, (row.byteOffset ?? 0) + raw.length).equals(raw)).toBe(true);
    }
  });

  it('cuts no string and no nested list, wherever the chunks end', async () => {
    const value = fc.record({ a: fc.jsonValue(), '[b],{"\\': fc.string() });
    await fc.assert(
      fc.asyncProperty(fc.array(value, { maxLength: 5 }), async (values) => {
        const path = await file('any.json', JSON.stringify(values, null, 1));
        const rows = await read([path]);
        expect(rows.map((row) => row.kind === 'row' && JSON.parse(row.raw))).toEqual(
          JSON.parse(JSON.stringify(values)),
        );
      }),
      { numRuns: 100 },
    );
  });

  it('a broken element costs no other; a missing end is a reject', async () => {
    const path = await file('broken.json', '[{"a":1}, {"a":}, 7 ,\n{"a":2},{"a":[3,');
    expect(await seen(path)).toEqual([
      [0, 1, { a: 1 }],
      [1, 10, 'json'],
      [2, 18, 'json'],
      [3, 22, { a: 2 }],
      [4, 30, 'truncated'],
    ]);
    expect(await seen(await file('empty.json', ' [ ] '))).toEqual([]);
    await expect(read([await file('more.json', '[{"a":1}] {"a":2}')])).rejects.toThrow(
      /more\.json: text after the end of the list at byte 10/,
    );
  });

  it('in a file of lines is one bad line', async () => {
    expect(await seen(await file('lines.jsonl', '[{"a":1}]\n{"a":2}\n'))).toEqual([
      [0, 0, 'json'],
      [1, 10, { a: 2 }],
    ]);
  });
});

it.each([
  ['JSONL', 'skip.jsonl', '{"a":0}\n\nnonsense\n{"a":2}\n{"a":3}'],
  ['a list', 'skip.json', '[{"a":0},nonsense,{"a":2},{"a":3}]'],
])('rows that nobody wants: %s: are counted and neither parsed nor reported', async (_, name, text) => {
  const path = await file(name, text);
  const kinds = async (wanted: (row: number) => boolean) =>
    (await read([path], { wanted })).map(({ kind, row }) => `${kind} ${row}`);
  expect(await kinds((row) => row >= 2)).toEqual(['row 2', 'row 3']);
  expect(await kinds((row) => row === 1)).toEqual(['bad 1']);
});

describe('keys of folders', () => {
  it('are columns of JSON rows, whose own come first: whole numbers where all are, null, text', async () => {
    const deep = 'keys/step=-07/n=9007199254740993/of=100%25%2F2';
    await file(`${deep}/a.jsonl`, '{"n":1}\n{}\n[]\n');
    await file('keys/step=__HIVE_DEFAULT_PARTITION__/of=3/a=b=c/b.json', '[{"x":{"y":2}}]');
    await file('keys/c.jsonl', '{"step":5}\n');
    const told: string[] = [];
    const rows = await read([join(folder, 'keys')], {
      onLoss: (code, message) => told.push(`${code} ${message}`),
    });
    const nothing = { step: null, n: null, of: null, a: null };
    expect(rows.map((row) => (row.kind === 'row' ? row.columns : null))).toEqual([
      { ...nothing, step: 5 },
      { ...nothing, n: 1, step: -7, of: '100%/2' },
      { ...nothing, n: 9007199254740993n, step: -7, of: '100%/2' },
      null,
      { ...nothing, x: { y: 2 }, of: '3', a: 'b=c' },
    ]);
    expect(told).toEqual([
      `hive_key ${join(folder, 'keys/c.jsonl')}: "step" is a key of its folder and a column of its rows, which is taken`,
      `hive_key ${join(folder, deep, 'a.jsonl')}: "n" is a key of its folder and a column of its rows, which is taken`,
    ]);
  });

  it('are in the output what DuckDB reads of them, of Parquet as of Arrow', async () => {
    const at = (name: string) => join(folder, name);
    const segment = async (from: string, to: string, ...more: string[]) => {
      const { code, stderr } = await rredcotHere(['segment', from, '--no-policy', ...more, '-o', to]);
      expect(code, stderr).toBe(0);
    };
    const kinds = "(VALUES (3, 'a b'), (10, 'é/x=%'), (NULL, NULL)) t(step, name)";
    const source = `SELECT 'p' AS prompt, '<think>a\nb</think>1' AS completion, step, name FROM ${kinds}`;
    await queryDuckdb(`COPY (${source}) TO '${at('hive')}' (FORMAT parquet, PARTITION_BY (step, name))`);
    for (const { path } of await resolveInputs([at('hive')])) {
      const arrow = path.replace('/hive/', '/of-arrow/').replace(/parquet$/, 'arrow');
      await mkdir(join(arrow, '..'), { recursive: true });
      await segment(path, arrow, '--drop', 'step,name');
    }
    const rows = (table: string) =>
      queryDuckdb(`SELECT step, name, typeof(step) AS a, typeof(name) AS b FROM ${table} ORDER BY step`);
    const expected = await rows(`read_parquet('${at('hive')}/**/*.parquet', hive_partitioning = true)`);
    expect(expected).toHaveLength(3);
    for (const from of ['hive', 'of-arrow']) {
      await segment(at(from), at(`${from}.parquet`), '--map', 'group=step');
      expect(await rows(`'${at(`${from}.parquet`)}'`)).toEqual(expected);
      const other = `SELECT * FROM '${at(`${from}.parquet`)}' WHERE "group" IS DISTINCT FROM step::VARCHAR`;
      expect(await queryDuckdb(other)).toEqual([]);
    }
  });
});

describe('patterns and folders', () => {
  beforeAll(async () => {
    for (const name of [
      ...['set/b.jsonl', 'set/a.jsonl.gz', 'set/deep/b.jsonl', 'set/deep/c[1].jsonl', 'set/.hidden.jsonl'],
      ...['set/.cache/x.jsonl', 'set/_SUCCESS', 'set/b.jsonl.rejects.jsonl', 'set/README.md'],
      'set/dataset_info.json',
    ])
      await file(name, name.endsWith('.gz') ? gzipSync('{"a":1}\n') : '{"a":1}\n');
    await mkdir(join(folder, 'bare'), { recursive: true });
  });

  const names = async (path: string) =>
    (await resolveInputs([join(folder, path)])).map((input) => input.path.slice(folder.length + 1));

  it.each([
    ['set', ['set/a.jsonl.gz', 'set/b.jsonl', 'set/deep/b.jsonl', 'set/deep/c[1].jsonl']],
    ['set/*.jsonl', ['set/b.jsonl', 'set/b.jsonl.rejects.jsonl']],
    ['set/**/b.jsonl', ['set/b.jsonl', 'set/deep/b.jsonl']],
    ['set/{a,b}.jsonl*', ['set/a.jsonl.gz', 'set/b.jsonl', 'set/b.jsonl.rejects.jsonl']],
    ['set/[ab].jsonl', ['set/b.jsonl']],
    ['set/?.jsonl', ['set/b.jsonl']],
    ['set/deep/c[1].jsonl', ['set/deep/c[1].jsonl']],
  ])('%s', async (path, expected) => expect(await names(path)).toEqual(expected));

  it('stems stay apart', async () => {
    const stems = async (...paths: string[]) =>
      (await resolveInputs(paths.map((path) => join(folder, path)))).map(({ stem }) => stem);
    expect(await stems('set')).toEqual(['a', join(folder, 'set/b'), join(folder, 'set/deep/b'), 'c[1]']);
    await file('set2/a.jsonl', '{}');
    await file('set2/a.json', '{}');
    expect(await stems('set2')).toEqual([join(folder, 'set2/a.json'), join(folder, 'set2/a.jsonl')]);
  });

  it('a run of ours is its parts, once all are there', async () => {
    await file('run/_run.json', '{"parts":2,"output":"jsonl"}');
    await file('run/rejects/part-00000.jsonl', '{}');
    await file('run/other.jsonl', '{}');
    await file('run/part-00001.jsonl', '{"a":1}');
    const why = 'run: is a run that is not finished: of its 2 parts these are missing: 0';
    await expect(names('run')).rejects.toThrow(why);
    expect(await names('run/part-*')).toEqual(['run/part-00001.jsonl']);
    await file('run/part-00000.jsonl', '');
    expect(await names('run')).toEqual(['run/part-00000.jsonl', 'run/part-00001.jsonl']);
    // another program's says nothing
    await file('other/_run.json', '{"a":1}');
    await file('other/x.jsonl', '{}');
    expect(await names('other')).toEqual(['other/x.jsonl']);
  });

  it.each([
    ['nowhere.jsonl', /nowhere\.jsonl: cannot be read: no such file/],
    ['set/*.csv', /set\/\*\.csv: no file matches/],
    ['bare', /bare: no file below it/],
  ])('%s is an error', async (path, message) => {
    const refused = { name: 'RredcotError', exitCode: 2, message: expect.stringMatching(message) };
    await expect(names(path)).rejects.toMatchObject(refused);
  });
});

describe('what is not read, or not what its name says', () => {
  it.each([
    ['x.jsonl', Buffer.from([0xff, 0xfe, 0x7b, 0]), /x\.jsonl: is UTF-16 text/],
    ['x.jsonl.bz2', Buffer.from('BZh91AY'), /is bzip2 data/],
    ['x.zip', Buffer.from('PK\x03\x04....'), /is a zip archive/],
    ['x.pkl', Buffer.from([0x80, 5, 0x95]), /is a Python pickle/],
    ['x.parquet', Buffer.from('{"a":1}'), /x\.parquet: begins with .*, expected Parquet/],
    ['x.arrow', Buffer.alloc(0), /x\.arrow: is empty, expected Arrow/],
    ['x.jsonl.gz', Buffer.from('{"a":1}'), /expected gzip/],
    ['x.csv', Buffer.from('prompt,completion\n'), /x\.csv: is a table as text/],
    ['x.tsv.gz', gzipSync('prompt\tcompletion\n'), /is a table as text/],
    ['x.tar', Buffer.from('x.jsonl\0'), /is a tar archive/],
    ['x.tgz', gzipSync('x.jsonl\0'), /is a tar archive/],
  ])('%s', async (name, content, message) => {
    const path = await file(name, content);
    const refused = { name: 'RredcotError', exitCode: 2, message: expect.stringMatching(message) };
    await expect(resolveInputs([path])).rejects.toMatchObject(refused);
  });

  it('stdin twice', async () => {
    await expect(resolveInputs(['-', '-'])).rejects.toMatchObject({ exitCode: 2 });
    expect(await resolveInputs([])).toMatchObject([{ path: '-', stem: 'stdin', size: null, layout: null }]);
  });
});

describe('standard input', () => {
  const row = '{"completion":"a\\nb"}\n';
  it.each([
    ['JSONL', Buffer.from(row)],
    ['gzip', gzipSync(row)],
    ['zstd', zstdFrame(Buffer.from(row))],
  ])('%s is known by its first bytes', async (_, stdin) => {
    const run = await rredcotHere(['segment', '--no-policy'], { stdin });
    expect(run.code, run.stderr).toBe(0);
    expect(JSON.parse(run.stdout)).toMatchObject({ completion: 'a\nb', id: 'stdin:0' });
  });

  it('a pipe by name, one byte at a time', async () => {
    const script = `import { resolveInputs, readRows } from './dist/io/read/inputs.js';
      const rows = [];
      for await (const row of readRows(await resolveInputs(['/dev/stdin']))) rows.push(row.columns);
      console.log(JSON.stringify(rows));`;
    const piped = `cat | "${process.execPath}" --input-type=module -e "$0"`;
    const child = spawn('sh', ['-c', piped, script], { cwd: ROOT });
    for (const byte of gzipSync(row)) {
      child.stdin.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    child.stdin.end();
    let out = '';
    for await (const chunk of child.stdout) out += chunk;
    expect(JSON.parse(out)).toEqual([{ completion: 'a\nb' }]);
  });
});

it('an input that is given twice is refused, also under another name for it', async () => {
  const a = await file('twice/a.jsonl', '{}\n');
  const b = join(folder, 'twice/b.jsonl');
  await symlink(a, b);
  await expect(resolveInputs([a, a])).rejects.toMatchObject({ exitCode: 2, message: `${a}: is given twice` });
  await expect(resolveInputs([a, b])).rejects.toThrow(`is given twice, also as ${a}`);
  await expect(resolveInputs([join(folder, 'twice/*.jsonl'), a])).rejects.toThrow('is given twice');
});
