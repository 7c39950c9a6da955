// `merge`: whatever the layout of shards and chunks, the rows of an unsplit run come out, in input order, once each.
import { createHash } from 'node:crypto';
import { appendFile, cp, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Table, TimestampSecond, tableFromIPC, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { beforeAll, describe, expect, it } from 'vitest';
import { merge, parseFileSize } from '../../dist/commands/merge.js';
import { status } from '../../dist/commands/status.js';
import { verify } from '../../dist/commands/verify.js';
import { rredcotHere } from '../support/in-process.js';
import { queryDuckdb, readMetadata, readWithHyparquet } from '../support/io-helpers.js';
import { readJsonl, temporaryFolder } from '../support/program.js';

function plain(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value;
}

let work: string;
let inputs: string[];
/** where a run of the whole went, for each format */
const single = (extension: string) => join(work, `single.${extension}`);
const MAP = 'completion=all[].text';

/** rows of 0 to 4 traces, some of them bad, some rows no JSON: 61 and 30 of them in two files */
beforeAll(async () => {
  work = await temporaryFolder();
  inputs = [];
  for (const [n, rows] of [61, 30].entries()) {
    const lines = Array.from({ length: rows }, (_, r) => {
      if (r % 13 === 5) return `{"broken": ${r}`;
      const all = Array.from({ length: (r * 7) % 5 }, (_, i) => ({
        text: i === 2 && r % 4 === 0 ? '' : `thought ${i}.\n`.repeat(1 + ((r * i) % 6)),
      }));
      return JSON.stringify({
        all,
        note: r % 3 === 0 ? null : `row ${r}`,
        deep: { flags: [r % 2 === 0, null] },
      });
    });
    inputs.push(join(work, `part-${n}.jsonl`));
    await writeFile(inputs[n] as string, `${lines.join('\n')}\n`);
  }
  for (const extension of ['parquet', 'arrow', 'jsonl']) await segment(single(extension));
});

async function segment(output: string, ...more: string[]): Promise<void> {
  const flags = ['--no-policy', '--quiet', '--map', MAP, ...more];
  const { code, stderr } = await rredcotHere(['segment', ...inputs, '-o', output, ...flags]);
  expect(code, stderr).toBe(0);
}

/** A run in shards; without some of them. */
async function shards(count: number, extension: string, rowsPerChunk: number, without: number[] = []) {
  const folder = join(work, `${extension}-${count}-${rowsPerChunk}-${without}`);
  for (let i = 0; i < count; i++)
    if (!without.includes(i)) {
      const layout = ['--shard', `${i}/${count}`, '--rows-per-chunk', `${rowsPerChunk}`];
      await segment(`${folder}/`, '--format', extension, ...layout);
    }
  return folder;
}

const LOG = { info: () => {}, warn: () => {}, text: () => {}, record: () => {}, progress: () => {} };

function merged(
  out: string,
  output: string,
  more: { partial?: boolean; fileSize?: number; format?: 'arrow'; overwrite?: boolean } = {},
) {
  const { partial = false, fileSize, format, overwrite = false } = more;
  const { signal } = new AbortController();
  return merge(out, { output, format, fileSize, partial, overwrite, signal }, LOG);
}

async function verified(out: string) {
  const found: string[] = [];
  const opts = { signal: new AbortController().signal, print: (line: string) => void found.push(line) };
  return { code: await verify(out, opts, LOG), found: found.join('\n') };
}

async function dropLine(path: string): Promise<void> {
  const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
  await writeFile(path, `${lines.slice(0, -1).join('\n')}\n`);
}

async function hash(path: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(path))
    .digest('hex');
}

/** Metadata but for what says which run and which file it is: the single one has chunks of another size. */
function withoutIdentity(metadata: ReadonlyMap<string, string>): Map<string, string> {
  return new Map([...metadata].filter(([key]) => key !== 'rredcot.run' && key !== 'rredcot.sha256').sort());
}

/** Names of the files of rows in a folder. */
async function dataFiles(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.startsWith('data-')).sort();
}

async function rowsOf(path: string): Promise<unknown[]> {
  if (path.endsWith('.parquet')) return readWithHyparquet(path);
  return tableFromIPC(await readFile(path))
    .toArray()
    .map((row) => JSON.parse(JSON.stringify(row, plain)));
}

describe('merge', () => {
  it.each([
    [3, 'parquet', 16],
    [3, 'arrow', 10],
    [4, 'jsonl', 5],
  ])(
    '%i shards of %s in chunks of %i rows: the rows of a single file',
    async (count, extension, rowsPerChunk) => {
      const folder = await shards(count, extension, rowsPerChunk);
      const output = join(work, `merged-${count}-${rowsPerChunk}.${extension}`);
      expect(await merged(folder, output)).toBe(0);
      const expected = single(extension);
      if (extension === 'jsonl')
        expect(await readFile(output, 'utf8')).toBe(await readFile(expected, 'utf8'));
      else expect(await rowsOf(output)).toEqual(await rowsOf(expected));
      if (extension === 'parquet')
        expect(withoutIdentity((await readMetadata(output)).keys)).toEqual(
          withoutIdentity((await readMetadata(expected)).keys),
        );
      if (extension === 'arrow') {
        const metadata = async (path: string) => tableFromIPC(await readFile(path)).schema.metadata;
        expect(withoutIdentity(await metadata(output))).toEqual(withoutIdentity(await metadata(expected)));
      }
      expect(await readFile(`${output}.rejects.jsonl`, 'utf8')).toBe(
        await readFile(`${expected}.rejects.jsonl`, 'utf8'),
      );
      const before = await hash(output);
      await merged(folder, output);
      expect(await hash(output)).toBe(before);
      expect((await readdir(work)).filter((name) => name.startsWith('.'))).toEqual([]);
    },
  );

  it('makes files below a size, and one format of the other', async () => {
    const folder = await shards(2, 'parquet', 10);
    const output = join(work, 'files');
    expect(await merged(folder, `${output}/`, { fileSize: 36_000 })).toBe(0);
    const names = await dataFiles(output);
    expect(names.length).toBeGreaterThan(1);
    expect(names).toEqual(names.map((_, n) => `data-${String(n).padStart(5, '0')}.parquet`));
    for (const name of names) expect((await stat(join(output, name))).size).toBeLessThan(36_000);
    const rows = await Promise.all(names.map((name) => rowsOf(join(output, name))));
    expect(rows.flat()).toEqual(await rowsOf(single('parquet')));
    // again: nothing is done, nothing is wrong; but not where another run is
    expect(await merged(folder, `${output}/`)).toBe(0);
    expect((await dataFiles(output)).length).toBe(names.length);
    const another = await shards(2, 'parquet', 40);
    await expect(merged(another, `${output}/`)).rejects.toMatchObject({ exitCode: 2 });

    expect(await merged(folder, join(work, 'as.arrow'))).toBe(0);
    expect(await rowsOf(join(work, 'as.arrow'))).toEqual(await rowsOf(single('arrow')));
    await expect(merged(folder, join(work, 'x.parquet'), { fileSize: 1e6 })).rejects.toThrow(
      /needs a folder/,
    );
  });

  it('makes no JSONL of columns, and names what does', async () => {
    const folder = await shards(2, 'parquet', 40);
    const refusal = await merged(folder, join(work, 'as.jsonl')).catch((error) => error);
    expect(refusal).toMatchObject({ exitCode: 2, message: expect.stringMatching(/the chunks are parquet/) });
    await merged(folder, join(work, 'all.parquet'));
    const [, command = ''] = /duckdb -c "(.*?)"/.exec(refusal.hint) ?? [];
    await queryDuckdb(command.replaceAll(/'(all\.\w+)'/g, (_, name) => `'${join(work, name)}'`));
    const values = (rows: readonly unknown[]) => rows.map((row) => JSON.parse(JSON.stringify(row, plain)));
    const made = await readJsonl<Record<string, unknown>>(join(work, 'all.jsonl'));
    const asLines = await readJsonl<Record<string, unknown>>(single('jsonl'));
    // a run to JSONL writes no key that the row lacks; every row here has them all
    expect(values(made)).toEqual(values(asLines));

    const lines = await shards(2, 'jsonl', 40);
    await expect(merged(lines, join(work, 'as.arrow'))).rejects.toMatchObject({
      exitCode: 2,
      hint: expect.stringContaining('--format arrow'),
    });
  });

  it('makes JSONL files below a size', async () => {
    const folder = await shards(2, 'jsonl', 10);
    const output = join(work, 'lines');
    expect(await merged(folder, `${output}/`, { fileSize: 60_000 })).toBe(0);
    const names = await dataFiles(output);
    expect(names.length).toBeGreaterThan(1);
    for (const name of names) expect((await stat(join(output, name))).size).toBeLessThan(60_000);
    const text = await Promise.all(names.map((name) => readFile(join(output, name), 'utf8')));
    expect(text.join('')).toBe(await readFile(single('jsonl'), 'utf8'));
    await merged(folder, join(work, 'lines.jsonl.gz'));
    expect(gunzipSync(await readFile(join(work, 'lines.jsonl.gz'))).toString()).toBe(text.join(''));
  });

  it.each(['parquet', 'arrow', 'jsonl'] as const)(
    'a folder of %s has a card that names its files, as the run has',
    async (format) => {
      const folder = await shards(2, format, 40);
      const output = join(work, `card-${format}`);
      await merged(folder, `${output}/`);
      const ofRun = await readFile(join(folder, 'README.md'), 'utf8');
      const ofMerged = await readFile(join(output, 'README.md'), 'utf8');
      expect(ofRun).toContain(`path: "chunks/*-of-*/*.${format}"`);
      // the same traces of the same columns, in other files
      expect(ofMerged).toBe(ofRun.replace('chunks/*-of-*/*', 'data-*'));
    },
  );

  it('verify finds damage in a merged folder, and nothing in a whole one', async () => {
    const folder = await shards(2, 'jsonl', 10);
    const whole = join(work, 'whole');
    await merged(folder, `${whole}/`, { fileSize: 60_000 });
    expect(await verified(whole)).toEqual({ code: 0, found: '' });
    const damages: readonly (readonly [(at: string) => Promise<unknown>, RegExp])[] = [
      [(at) => dropLine(join(at, 'data-00001.jsonl')), /data-00001\.jsonl: has changed/],
      [(at) => rm(join(at, 'data-00001.jsonl')), /data-00001\.jsonl: is missing/],
      [(at) => writeFile(join(at, 'data-9.jsonl'), ''), /data-9\.jsonl: is not in .*_merged\.json/],
      [(at) => appendFile(`${at}.rejects.jsonl`, '{}\n'), /rejects\.jsonl: has changed/],
      [(at) => appendFile(join(at, 'README.md'), 'mine'), /README\.md: has changed/],
      [(at) => writeFile(join(at, '_merged.json'), '{}'), /_merged\.json: is damaged/],
    ];
    for (const [n, [damage, expected]] of damages.entries()) {
      const output = join(work, `damaged-${n}`);
      for (const name of ['', '.rejects.jsonl'])
        await cp(`${whole}${name}`, `${output}${name}`, { recursive: true });
      await damage(output);
      const { code, found } = await verified(output);
      expect([code, found]).toEqual([65, expect.stringMatching(expected)]);
    }
  });

  it.each(['parquet', 'jsonl'])(
    'refuses a %s chunk of another run, and so do verify and status',
    async (format) => {
      const [folder, other] = [await shards(2, format, 10), await shards(2, format, 20)];
      const chunk = `chunks/00000-of-00002/000002.${format}`;
      const record = 'done/00000-of-00002/000002.json';
      const rejects = 'rejects/00000-of-00002/000002.jsonl';
      const place = join(work, `foreign-${format}`);
      await cp(folder, place, { recursive: true });
      for (const name of [chunk, record, rejects]) await cp(join(other, name), join(place, name));
      await rm(join(place, 'done/00000-of-00002.json'));
      const foreign = expect.stringContaining(`${join(place, record)}: is of another run`);
      await expect(status(place, { json: false }, () => {})).rejects.toMatchObject({
        exitCode: 65,
        message: foreign,
      });
      await expect(merged(place, join(work, `foreign.${format}`), { partial: true })).rejects.toMatchObject({
        exitCode: 65,
        message: foreign,
      });
      expect(await verified(place)).toMatchObject({ code: 65, found: foreign });
      // the same where the record has been made to fit
      const { run } = JSON.parse(await readFile(join(place, 'run.json'), 'utf8'));
      const edited = { ...JSON.parse(await readFile(join(place, record), 'utf8')), run };
      const counts = { rows: 10, traces_per_row: null, traces: 10 };
      await writeFile(join(place, record), JSON.stringify({ ...edited, ...counts }));
      const { code, found } = await verified(place);
      expect([code, found]).toEqual([
        65,
        expect.stringMatching(
          format === 'parquet' ? /000002\.parquet: is of another run/ : /000002\.jsonl: /,
        ),
      ]);
    },
  );

  it('a folder of an unfinished run has no card', async () => {
    const folder = await shards(2, 'jsonl', 10, [0, 1]);
    await segment(`${folder}/`, '--format', 'jsonl', '--shard', '0/2', '--rows-per-chunk', '10');
    const output = join(work, 'some');
    await rm(join(folder, 'done/00000-of-00002.json'));
    expect(await merged(folder, `${output}/`, { partial: true })).toBe(0);
    expect(await readdir(output)).toEqual(['_merged.json', 'data-00000.jsonl']);
  });

  it('gives Parquet the types that it has where the chunks are Arrow', async () => {
    const input = join(work, 'seconds.arrow');
    const table = new Table({
      completion: vectorFromArray(['a.', 'b.'], new Utf8()),
      at: vectorFromArray([0, 1_600_000_000_000], new TimestampSecond('UTC')),
    });
    await writeFile(input, tableToIPC(table, 'file'));
    const folder = join(work, 'seconds');
    for (const format of ['arrow', 'parquet'])
      await rredcotHere(['segment', input, '-o', `${folder}-${format}/`, '--no-policy', '--format', format]);
    for (const format of ['arrow', 'parquet'])
      await merged(`${folder}-${format}`, join(work, `seconds-${format}.parquet`));
    const [converted, expected] = await Promise.all(
      ['arrow', 'parquet'].map((format) => rowsOf(join(work, `seconds-${format}.parquet`))),
    );
    expect(converted).toEqual(expected);
    expect(converted?.[1]).toMatchObject({ at: new Date('2020-09-13T12:26:40.000Z') });
  });

  it('of an unfinished run ends with 75, unless what is there will do', async () => {
    const folder = await shards(3, 'jsonl', 10, [1]);
    const output = join(work, 'partial.jsonl');
    await expect(merged(folder, output)).rejects.toMatchObject({
      exitCode: 75,
      message: expect.stringMatching(/chunks are missing in 1 of 3 shards \(00001-of-00003/),
    });
    expect(await merged(folder, output, { partial: true })).toBe(0);
    const lines = (await readFile(single('jsonl'), 'utf8')).trimEnd().split('\n');
    const ordinal = (line: string) => {
      const { id, source_row: row } = JSON.parse(line) as { id: string; source_row: number };
      return id.startsWith('part-1') ? 61 + row : row;
    };
    const expected = lines.filter((line) => Math.floor(ordinal(line) / 10) % 3 !== 1);
    expect((await readFile(output, 'utf8')).trimEnd().split('\n')).toEqual(expected);
  });

  it.each(['parquet', 'arrow', 'jsonl'])('names a damaged %s chunk and writes nothing', async (extension) => {
    const folder = await shards(2, extension, 25);
    const chunk = join(folder, `chunks/00001-of-00002/000003.${extension}`);
    await appendFile(chunk, 'x');
    const output = join(work, `damaged.${extension}`);
    await expect(merged(folder, output)).rejects.toMatchObject({
      exitCode: 65,
      message: `${chunk} has changed since it was written`,
    });
    // the same where the record has been made to agree
    const path = join(folder, 'done/00001-of-00002/000003.json');
    const record = JSON.parse(await readFile(path, 'utf8'));
    await writeFile(chunk, (await readFile(chunk)).subarray(0, 150));
    await writeFile(path, JSON.stringify({ ...record, sha256: await hash(chunk) }));
    if (extension !== 'jsonl')
      await expect(merged(folder, output)).rejects.toMatchObject({
        exitCode: 65,
        message: expect.stringContaining(chunk),
      });
    expect((await readdir(work)).filter((name) => name.includes('damaged.'))).toEqual([]);
  });

  it.each(['parquet', 'arrow', 'jsonl'])(
    'counts the traces of %s chunks, and refuses another number',
    async (extension) => {
      const folder = join(work, `miscounted-${extension}`);
      await cp(await shards(2, extension, 15), folder, { recursive: true });
      const path = join(folder, 'done/00000-of-00002/000002.json');
      const record = JSON.parse(await readFile(path, 'utf8'));
      const { traces, traces_per_row: perRow } = record;
      await writeFile(
        path,
        JSON.stringify({ ...record, traces: traces + 1, traces_per_row: perRow.with(0, perRow[0] + 1) }),
      );
      const output = join(work, `miscounted.${extension}`);
      const sum = (await readJsonl(single('jsonl'))).length;
      await expect(merged(folder, output)).rejects.toMatchObject({
        exitCode: 65,
        message: expect.stringContaining(
          extension === 'jsonl'
            ? `${folder}: ${sum + 1} traces and `
            : `000002.${extension}: holds ${traces} traces, its record says ${traces + 1}`,
        ),
      });
      expect((await readdir(work)).filter((name) => name.includes('miscounted.'))).toEqual([]);
    },
  );

  it('counts the rejects as well, and refuses another number', async () => {
    const folder = join(work, 'rejects-miscounted');
    await cp(await shards(2, 'parquet', 15), folder, { recursive: true });
    const path = join(folder, 'done/00000-of-00002/000002.json');
    const record = JSON.parse(await readFile(path, 'utf8'));
    await writeFile(path, JSON.stringify({ ...record, rejects: record.rejects + 1 }));
    await expect(merged(folder, join(work, 'rejects-miscounted.parquet'))).rejects.toMatchObject({
      exitCode: 65,
      message: expect.stringMatching(
        /: \d+ traces and (\d+) rejects are there, its records count \d+ and (?!\1$)\d+$/,
      ),
    });
  });

  it('of shards without rows, or without any row at all, is a file with the columns', async () => {
    const folder = join(work, 'few');
    const few = join(work, 'few.jsonl');
    await writeFile(few, '{"completion": "a.\\nb."}\n');
    for (const i of [0, 1, 2])
      await rredcotHere(['segment', few, '-o', `${folder}/`, '--no-policy', '--shard', `${i}/3`, '--quiet']);
    await merged(folder, join(work, 'few.parquet'));
    expect(await readMetadata(join(work, 'few.parquet'))).toMatchObject({ rows: 1 });
    await writeFile(few, '');
    await rredcotHere(['segment', few, '-o', `${folder}/`, '--no-policy', '--overwrite', '--quiet']);
    await merged(folder, join(work, 'none.parquet'));
    expect(await readMetadata(join(work, 'none.parquet'))).toMatchObject({ rows: 0 });
    await merged(folder, join(work, 'none.arrow'));
    expect(tableFromIPC(await readFile(join(work, 'none.arrow'))).schema.names).toContain('segments');
    expect(
      (await readdir(work)).filter((name) => name.startsWith('none.') && name.includes('rejects')),
    ).toEqual([]);
  });

  it.each(['parquet', 'jsonl'])('of %s does not pass over a chunk whose record is gone', async (format) => {
    const folder = await shards(2, format, 15);
    const record = join(folder, 'done/00000-of-00002/000002.json');
    const bytes = await readFile(record);
    const output = join(work, `without-record.${format}`);
    await rm(record);
    await expect(merged(folder, output)).rejects.toMatchObject({
      exitCode: 75,
      message: expect.stringContaining('chunks 2'),
    });
    await expect(merged(folder, output, { partial: true })).rejects.toMatchObject({
      exitCode: 65,
      message: expect.stringContaining(`${record}: is missing`),
    });
    expect((await readdir(work)).filter((name) => name.includes(`without-record.${format}`))).toEqual([]);
    // the shard's record knows it: the same command puts it back
    await segment(`${folder}/`, '--format', format, '--shard', '0/2', '--rows-per-chunk', '15');
    expect(JSON.parse(await readFile(record, 'utf8'))).toEqual(JSON.parse(`${bytes}`));
    expect(await merged(folder, output)).toBe(0);
  });

  it('takes no shard for done whose record lost a chunk', async () => {
    const folder = await shards(2, 'jsonl', 15);
    const path = join(folder, 'done/00000-of-00002.json');
    const record = JSON.parse(await readFile(path, 'utf8'));
    await writeFile(path, JSON.stringify({ ...record, chunks: record.chunks.slice(0, -1) }));
    const { chunk } = record.chunks.at(-1);
    for (const lost of [
      `chunks/00000-of-00002/00000${chunk}.jsonl`,
      `done/00000-of-00002/00000${chunk}.json`,
    ])
      await rm(join(folder, lost));
    await expect(merged(folder, join(work, 'lost.jsonl'))).rejects.toMatchObject({ exitCode: 75 });
    await segment(`${folder}/`, '--format', 'jsonl', '--shard', '0/2', '--rows-per-chunk', '15');
    expect(JSON.parse(await readFile(path, 'utf8')).chunks).toEqual(record.chunks);
    expect(await merged(folder, join(work, 'lost.jsonl'))).toBe(0);
  });

  it('does not write over an input of the run', async () => {
    const folder = await shards(1, 'jsonl', 20);
    const [input = ''] = inputs;
    const before = await hash(input);
    await expect(merged(folder, input)).rejects.toMatchObject({
      exitCode: 2,
      message: `${input}: is an input, and would be written over`,
    });
    expect(await hash(input)).toBe(before);
  });

  it('drops what a killed merge has left', async () => {
    const folder = await shards(2, 'parquet', 40);
    await mkdir(join(work, '.again.parquet.rredcot-merge'));
    await writeFile(join(work, '.again.parquet.rredcot-merge/.again.parquet.0123abcd.tmp'), 'x');
    await merged(folder, join(work, 'again.parquet'));
    expect((await readdir(work)).filter((name) => name.startsWith('.again'))).toEqual([]);
    await rm(join(work, 'again.parquet'));
  });

  it('has a command line', async () => {
    const folder = await shards(1, 'jsonl', 20);
    const output = join(work, 'all.jsonl');
    const run = await rredcotHere(['merge', folder, '-o', output, '--overwrite']);
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toMatch(
      /traces written to .*all\.jsonl\n.*rejects written to .*all\.jsonl\.rejects\.jsonl/,
    );
    expect((await rredcotHere(['merge', output, '-o', 'x.jsonl'])).code).toBe(2);
  });

  it('reads sizes', () => {
    expect([undefined, '64KiB', '1.5GiB', '70000'].map(parseFileSize)).toEqual([
      undefined,
      65_536,
      1.5 * 2 ** 30,
      70_000,
    ]);
    for (const text of ['4GiB', '1', 'many', '1GB']) expect(() => parseFileSize(text)).toThrow(/--file-size/);
  });
});
