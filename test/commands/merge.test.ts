// `merge`: whatever the layout of shards and chunks, the rows of an unsplit run come out, in input order, once each.
import { createHash } from 'node:crypto';
import { appendFile, cp, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { Table, TimestampSecond, tableFromIPC, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { beforeAll, describe, expect, it } from 'vitest';
import { merge, parseFileSize } from '../../dist/commands/merge.js';
import { editJson } from '../support/edited-run.js';
import { queryDuckdb, readMetadata, readWithHyparquet } from '../support/io-helpers.js';
import { openScene } from '../support/scene.js';

function plain(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value;
}

const { at, done, expectSame, fails, folder: work, json, rows, text, write } = await openScene();
const INPUTS = ['part-0.jsonl', 'part-1.jsonl'];
/** where a run of the whole went, for each format */
const single = (extension: string) => `single.${extension}`;

/** rows of 0 to 4 traces, some of them bad, some rows no JSON: 61 and 30 of them in two files */
beforeAll(async () => {
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
    await write(INPUTS[n] as string, `${lines.join('\n')}\n`);
  }
  for (const extension of ['parquet', 'arrow', 'jsonl']) await segment(single(extension));
});

const segment = (output: string, more = '') =>
  done(`segment ${INPUTS.join(' ')} -o ${output} --no-policy --quiet --map completion=all[].text ${more}`);

/** A run in shards; without some of them. */
async function shards(count: number, extension: string, rowsPerChunk: number, without: number[] = []) {
  const folder = `${extension}-${count}-${rowsPerChunk}-${without}`;
  for (let i = 0; i < count; i++)
    if (!without.includes(i))
      await segment(
        `${folder}/`,
        `--format ${extension} --shard ${i}/${count} --rows-per-chunk ${rowsPerChunk}`,
      );
  return folder;
}

/** Of a folder whose chunks are there, or as far as they are. */
const merged = (folder: string, output: string, more = '') => done(`merge ${folder} -o ${output} ${more}`);
/** Files below a size that the flag is too large for: --file-size begins at 64 KiB. */
async function mergedBelow(fileSize: number, folder: string, output: string): Promise<void> {
  const nothing = () => {};
  const log = { info: nothing, warn: nothing, text: nothing, record: nothing, progress: nothing };
  const opts = { format: undefined, partial: false, overwrite: false, signal: new AbortController().signal };
  expect(await merge(at(folder), { ...opts, output: `${at(output)}/`, fileSize }, log)).toBe(0);
}
const left = async (word: string) => (await readdir(work)).filter((name) => name.includes(word));

const hash = async (name: string) =>
  createHash('sha256')
    .update(await readFile(at(name)))
    .digest('hex');

/** Metadata but for what says which run and which file it is: the single one has chunks of another size. */
function withoutIdentity(metadata: ReadonlyMap<string, string>): Map<string, string> {
  return new Map([...metadata].filter(([key]) => key !== 'rredcot.run' && key !== 'rredcot.sha256').sort());
}

/** Names of the files of rows in a folder. */
async function dataFiles(folder: string): Promise<string[]> {
  return (await readdir(at(folder))).filter((name) => name.startsWith('data-')).sort();
}

async function rowsOf(name: string): Promise<unknown[]> {
  if (name.endsWith('.parquet')) return readWithHyparquet(at(name));
  const table = tableFromIPC(await readFile(at(name)));
  return table.toArray().map((row) => JSON.parse(JSON.stringify(row, plain)));
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
      const output = `merged-${count}-${rowsPerChunk}.${extension}`;
      await merged(folder, output);
      const expected = single(extension);
      if (extension === 'jsonl') await expectSame(output, expected);
      else expect(await rowsOf(output)).toEqual(await rowsOf(expected));
      if (extension === 'parquet')
        expect(withoutIdentity((await readMetadata(at(output))).keys)).toEqual(
          withoutIdentity((await readMetadata(at(expected))).keys),
        );
      if (extension === 'arrow') {
        const metadata = async (name: string) => tableFromIPC(await readFile(at(name))).schema.metadata;
        expect(withoutIdentity(await metadata(output))).toEqual(withoutIdentity(await metadata(expected)));
      }
      await expectSame(`${output}.rejects.jsonl`, `${expected}.rejects.jsonl`);
      const before = await hash(output);
      await merged(folder, output, '--overwrite');
      expect(await hash(output)).toBe(before);
      expect((await readdir(work)).filter((name) => name.startsWith('.'))).toEqual([]);
    },
  );

  it('makes files below a size, and one format of the other', async () => {
    const folder = await shards(2, 'parquet', 10);
    await mergedBelow(36_000, folder, 'files');
    const names = await dataFiles('files');
    expect(names.length).toBeGreaterThan(1);
    expect(names).toEqual(names.map((_, n) => `data-${String(n).padStart(5, '0')}.parquet`));
    for (const name of names) expect((await stat(at(`files/${name}`))).size).toBeLessThan(36_000);
    const found = await Promise.all(names.map((name) => rowsOf(`files/${name}`)));
    expect(found.flat()).toEqual(await rowsOf(single('parquet')));
    // again: nothing is done, nothing is wrong; but not where another run is
    await merged(folder, 'files/');
    expect((await dataFiles('files')).length).toBe(names.length);
    await fails(
      `merge ${await shards(2, 'parquet', 40)} -o files/`,
      2,
      'expected a new folder or an empty one',
    );

    await merged(folder, 'as.arrow');
    expect(await rowsOf('as.arrow')).toEqual(await rowsOf(single('arrow')));
    await fails(`merge ${folder} -o x.parquet --file-size 1MiB`, 2, /needs a folder/);
  });

  it('makes no JSONL of columns, and names what does', async () => {
    const folder = await shards(2, 'parquet', 40);
    const { said } = await fails(`merge ${folder} -o as.jsonl`, 2, /the chunks are parquet/);
    await merged(folder, 'all.parquet');
    const [, command = ''] = /duckdb -c "(.*?)"/.exec(said) ?? [];
    await queryDuckdb(command.replaceAll(/'(all\.\w+)'/g, (_, name) => `'${at(name)}'`));
    const values = (all: readonly unknown[]) => all.map((row) => JSON.parse(JSON.stringify(row, plain)));
    // a run to JSONL writes no key that the row lacks; every row here has them all
    expect(values(await rows('all.jsonl'))).toEqual(values(await rows(single('jsonl'))));
    await fails(`merge ${await shards(2, 'jsonl', 40)} -o lines.arrow`, 2, '--format arrow');
  });

  it('makes JSONL files below a size', async () => {
    const folder = await shards(2, 'jsonl', 10);
    await mergedBelow(60_000, folder, 'lines');
    const names = await dataFiles('lines');
    expect(names.length).toBeGreaterThan(1);
    for (const name of names) expect((await stat(at(`lines/${name}`))).size).toBeLessThan(60_000);
    const texts = await Promise.all(names.map((name) => text(`lines/${name}`)));
    expect(texts.join('')).toBe(await text(single('jsonl')));
    await merged(folder, 'lines.jsonl.gz');
    expect(gunzipSync(await readFile(at('lines.jsonl.gz'))).toString()).toBe(texts.join(''));
  });

  it.each(['parquet', 'arrow', 'jsonl'] as const)(
    'a folder of %s has a card that names its files, as the run has',
    async (format) => {
      const folder = await shards(2, format, 40);
      await merged(folder, `card-${format}/`);
      const ofRun = await text(`${folder}/README.md`);
      expect(ofRun).toContain(`path: "chunks/*-of-*/*.${format}"`);
      // the same traces of the same columns, in other files
      expect(await text(`card-${format}/README.md`)).toBe(ofRun.replace('chunks/*-of-*/*', 'data-*'));
    },
  );

  it.each(['parquet', 'jsonl'])('refuses a %s chunk of another run, and so does status', async (format) => {
    const [folder, other] = [await shards(2, format, 10), await shards(2, format, 20)];
    const record = 'done/00000-of-00002/000002.json';
    const names = [record, `chunks/00000-of-00002/000002.${format}`, 'rejects/00000-of-00002/000002.jsonl'];
    const place = `foreign-${format}`;
    await cp(at(folder), at(place), { recursive: true });
    for (const name of names) await cp(at(`${other}/${name}`), at(`${place}/${name}`));
    await rm(at(`${place}/done/00000-of-00002.json`));
    for (const line of [`status ${place}`, `merge ${place} -o foreign.${format} --partial`])
      await fails(line, 65, `${record}: is of another run`);
  });

  it('a folder of an unfinished run has no card', async () => {
    const folder = await shards(2, 'jsonl', 10, [0, 1]);
    await segment(`${folder}/`, '--format jsonl --shard 0/2 --rows-per-chunk 10');
    await rm(at(`${folder}/done/00000-of-00002.json`));
    await merged(folder, 'some/', '--partial');
    expect(await readdir(at('some'))).toEqual(['_merged.json', 'data-00000.jsonl']);
  });

  it('gives Parquet the types that it has where the chunks are Arrow', async () => {
    const table = new Table({
      completion: vectorFromArray(['a.', 'b.'], new Utf8()),
      at: vectorFromArray([0, 1_600_000_000_000], new TimestampSecond('UTC')),
    });
    await write('seconds.arrow', tableToIPC(table, 'file'));
    for (const format of ['arrow', 'parquet']) {
      await done(`segment seconds.arrow -o seconds-${format}/ --no-policy --format ${format}`);
      await merged(`seconds-${format}`, `seconds-${format}.parquet`);
    }
    const converted = await rowsOf('seconds-arrow.parquet');
    expect(converted).toEqual(await rowsOf('seconds-parquet.parquet'));
    expect(converted[1]).toMatchObject({ at: new Date('2020-09-13T12:26:40.000Z') });
  });

  it('of an unfinished run ends with 75, unless what is there will do', async () => {
    const folder = await shards(3, 'jsonl', 10, [1]);
    const why = /chunks are missing in 1 of 3 shards \(00001-of-00003/;
    await fails(`merge ${folder} -o partial.jsonl`, 75, why);
    await merged(folder, 'partial.jsonl', '--partial');
    const lines = (await text(single('jsonl'))).trimEnd().split('\n');
    const ordinal = (line: string) => {
      const { id, source_row: row } = JSON.parse(line) as { id: string; source_row: number };
      return id.startsWith('part-1') ? 61 + row : row;
    };
    const expected = lines.filter((line) => Math.floor(ordinal(line) / 10) % 3 !== 1);
    expect((await text('partial.jsonl')).trimEnd().split('\n')).toEqual(expected);
  });

  it.each(['parquet', 'arrow', 'jsonl'])('names a damaged %s chunk and writes nothing', async (extension) => {
    const folder = await shards(2, extension, 25);
    const chunk = `${folder}/chunks/00001-of-00002/000003.${extension}`;
    await appendFile(at(chunk), 'x');
    const merge = `merge ${folder} -o damaged.${extension}`;
    await fails(merge, 65, `${chunk} has changed since it was written`);
    // the same where the record has been made to agree
    await write(chunk, (await readFile(at(chunk))).subarray(0, 150));
    const sha256 = await hash(chunk);
    await editJson(at(`${folder}/done/00001-of-00002/000003.json`), (record) =>
      Object.assign(record, { sha256 }),
    );
    if (extension !== 'jsonl') await fails(merge, 65, chunk);
    expect(await left('damaged.')).toEqual([]);
  });

  it.each(['parquet', 'arrow', 'jsonl'])(
    'counts the traces of %s chunks, and refuses another number',
    async (extension) => {
      const folder = `miscounted-${extension}`;
      await cp(at(await shards(2, extension, 15)), at(folder), { recursive: true });
      const path = `${folder}/done/00000-of-00002/000002.json`;
      const { traces, traces_per_row: perRow } = await json(path);
      const counts = { traces: traces + 1, traces_per_row: perRow.with(0, perRow[0] + 1) };
      await editJson(at(path), (record) => Object.assign(record, counts));
      const sum = (await rows(single('jsonl'))).length;
      const why =
        extension === 'jsonl'
          ? `${folder}: ${sum + 1} traces and `
          : `000002.${extension}: holds ${traces} traces, its record says ${traces + 1}`;
      await fails(`merge ${folder} -o miscounted.${extension}`, 65, why);
      expect(await left('miscounted.')).toEqual([]);
    },
  );

  it('counts the rejects as well, and refuses another number', async () => {
    await cp(at(await shards(2, 'parquet', 15)), at('rejects-miscounted'), { recursive: true });
    await editJson<{ rejects: number }>(
      at('rejects-miscounted/done/00000-of-00002/000002.json'),
      (record) => record.rejects++,
    );
    await fails(
      'merge rejects-miscounted -o rejects-miscounted.parquet',
      65,
      /: \d+ traces and (\d+) rejects are there, its records count \d+ and (?!\1$)\d+$/m,
    );
  });

  it('of shards without rows, or without any row at all, is a file with the columns', async () => {
    await write('few.jsonl', '{"completion": "a.\\nb."}\n');
    for (const i of [0, 1, 2]) await done(`segment few.jsonl -o few/ --no-policy --shard ${i}/3 --quiet`);
    await merged('few', 'few.parquet');
    expect(await readMetadata(at('few.parquet'))).toMatchObject({ rows: 1 });
    await write('few.jsonl', '');
    await done('segment few.jsonl -o few/ --no-policy --overwrite --quiet');
    await merged('few', 'none.parquet');
    expect(await readMetadata(at('none.parquet'))).toMatchObject({ rows: 0 });
    await merged('few', 'none.arrow');
    expect(tableFromIPC(await readFile(at('none.arrow'))).schema.names).toContain('segments');
    expect((await left('rejects')).filter((name) => name.startsWith('none.'))).toEqual([]);
  });

  it.each(['parquet', 'jsonl'])('of %s does not pass over a chunk whose record is gone', async (format) => {
    const folder = await shards(2, format, 15);
    const record = `${folder}/done/00000-of-00002/000002.json`;
    const before = await json(record);
    const merge = `merge ${folder} -o without-record.${format}`;
    await rm(at(record));
    await fails(merge, 75, 'chunks 2');
    await fails(`${merge} --partial`, 65, `${record}: is missing`);
    expect(await left(`without-record.${format}`)).toEqual([]);
    // the shard's record knows it: the same command puts it back
    await segment(`${folder}/`, `--format ${format} --shard 0/2 --rows-per-chunk 15`);
    expect(await json(record)).toEqual(before);
    await done(merge);
  });

  it('takes no shard for done whose record lost a chunk', async () => {
    const folder = await shards(2, 'jsonl', 15);
    const path = `${folder}/done/00000-of-00002.json`;
    const { chunks } = await json(path);
    await editJson<{ chunks: object[] }>(at(path), (record) => record.chunks.pop());
    const { chunk } = chunks.at(-1);
    for (const lost of [
      `chunks/00000-of-00002/00000${chunk}.jsonl`,
      `done/00000-of-00002/00000${chunk}.json`,
    ])
      await rm(at(`${folder}/${lost}`));
    await fails(`merge ${folder} -o lost.jsonl`, 75, '');
    await segment(`${folder}/`, '--format jsonl --shard 0/2 --rows-per-chunk 15');
    expect((await json(path)).chunks).toEqual(chunks);
    await merged(folder, 'lost.jsonl');
  });

  it('does not write over an input of the run', async () => {
    const folder = await shards(1, 'jsonl', 20);
    const before = await hash('part-0.jsonl');
    await fails(`merge ${folder} -o part-0.jsonl`, 2, 'part-0.jsonl: is an input, and would be written over');
    expect(await hash('part-0.jsonl')).toBe(before);
  });

  it('drops what a killed merge has left', async () => {
    await mkdir(at('.again.parquet.rredcot-merge'));
    await write('.again.parquet.rredcot-merge/.again.parquet.0123abcd.tmp', 'x');
    await merged(await shards(2, 'parquet', 40), 'again.parquet');
    expect((await readdir(work)).filter((name) => name.startsWith('.again'))).toEqual([]);
  });

  it('says how much it has written, and refuses what is no run folder', async () => {
    const { stderr } = await merged(await shards(1, 'jsonl', 20), 'said.jsonl');
    expect(stderr).toMatch(
      /traces written to .*said\.jsonl\n.*rejects written to .*said\.jsonl\.rejects\.jsonl/,
    );
    await fails('merge said.jsonl -o x.jsonl', 2, '');
  });

  it('reads sizes', () => {
    expect([undefined, '64KiB', '1.5GiB', '70000'].map(parseFileSize)).toEqual([
      ...[undefined, 65_536, 1.5 * 2 ** 30, 70_000],
    ]);
    for (const size of ['4GiB', '1', 'many', '1GB']) expect(() => parseFileSize(size)).toThrow(/--file-size/);
  });
});
