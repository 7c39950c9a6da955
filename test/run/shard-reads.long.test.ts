// What a shard reads of its inputs: of a columnar file the row groups that it needs, of JSONL the bytes of its parts; and what one
// process writes that makes a file.
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { queryDuckdb } from '../support/io-helpers.js';
import { readJsonl, temporaryFolder } from '../support/program.js';
import { snapshot } from '../torture/snapshot.js';

const GROUP_ROWS = 2048;

async function segment(input: string, out: string, shard: string) {
  const flags = [
    '--no-policy',
    '--segmenter',
    'newline',
    '--format',
    'jsonl',
    '--rows-per-part',
    `${GROUP_ROWS}`,
  ];
  return rredcotHere(['segment', input, '-o', `${out}/`, '--shard', shard, '--quiet', ...flags]);
}

it('a shard decodes the row groups of its parts, and no other', async () => {
  const work = await temporaryFolder();
  const input = join(work, 'traces.parquet');
  const rows = `select 'row ' || i || E'.\\nend.' as completion, i from range(${3 * GROUP_ROWS}) t(i)`;
  await queryDuckdb(`copy (${rows}) to '${input}' (format parquet, row_group_size ${GROUP_ROWS})`);
  // the pages of the second row group are damaged: who reads them ends with an error
  const bytes = await readFile(input);
  const pages = await queryDuckdb(
    `select data_page_offset as at, total_compressed_size as size from parquet_metadata('${input}') where row_group_id = 1`,
  );
  for (const { at, size } of pages) bytes.fill(0xff, Number(at), Number(at) + Number(size));
  await writeFile(input, bytes);

  const out = join(work, 'out');
  for (const shard of ['0/3', '2/3']) {
    const run = await segment(input, out, shard);
    expect(run.code, run.stderr).toBe(0);
  }
  const found = await readJsonl<{ i: number }>(join(out, 'part-00002.jsonl'));
  expect(found.map(({ i }) => i)).toEqual(Array.from({ length: GROUP_ROWS }, (_, n) => 2 * GROUP_ROWS + n));
  const damaged = await segment(input, out, '1/3');
  expect([damaged.code, damaged.stderr]).toEqual([
    65,
    expect.stringMatching(/row group 1, from row 2048 on/),
  ]);
});

/** What this process has read and written, of any file. */
async function bytesMoved(): Promise<{ read: number; written: number }> {
  const text = await readFile('/proc/self/io', 'utf8');
  const [, read, written] = /^rchar: (\d+)\nwchar: (\d+)/.exec(text) ?? [];
  return { read: Number(read), written: Number(written) };
}

/** 24 MiB in 12,288 rows, whose completions are one line each: cutting them costs nothing. */
async function largeLines(work: string): Promise<{ path: string; size: number }> {
  const path = join(work, 'large.jsonl');
  const completion = 'one step '.repeat(215);
  const line = (n: number) => `${JSON.stringify({ completion, n }).padEnd(2047)}\n`;
  const text = Array.from({ length: 12_288 }, (_, n) => line(n)).join('');
  await writeFile(path, text);
  return { path, size: text.length };
}

const MIB = 2 ** 20;

it.skipIf(process.platform !== 'linux')(
  'a shard of JSONL reads all of it twice: to look at all rows, and to make its own parts',
  async () => {
    const work = await temporaryFolder();
    const { path, size } = await largeLines(work);
    const shards = 4;
    const [out, whole] = [join(work, 'out'), join(work, 'whole')];
    const before = await bytesMoved();
    for (let n = 0; n < shards; n++) {
      const run = await segment(path, out, `${n}/${shards}`);
      expect(run.code, run.stderr).toBe(0);
    }
    const { read } = await bytesMoved();
    // each looks at all rows, then reads past those of others; and what it writes is read for its hash
    const others = shards * 4 * MIB + 4 * size;
    expect(read - before.read).toBeLessThan(size * (2 * shards + 1) + others);
    await segment(path, whole, '0/1');
    expect(await snapshot(out)).toEqual(await snapshot(whole));
  },
);

it.skipIf(process.platform !== 'linux').each(['arrow', 'jsonl'])(
  'one process writes a file of %s twice',
  async (extension) => {
    const work = await temporaryFolder();
    const { path } = await largeLines(work);
    const output = join(work, `cut.${extension}`);
    const before = await bytesMoved();
    const flags = ['--no-policy', '--segmenter', 'newline', '--rows-per-part', '2048', '--quiet'];
    const run = await rredcotHere(['segment', path, '-o', output, ...flags]);
    expect(run.code, run.stderr).toBe(0);
    const after = await bytesMoved();
    const made = (await stat(output)).size;
    expect((after.written - before.written) / made).toBeLessThan(2.2);
  },
);
