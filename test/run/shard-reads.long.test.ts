// What a shard reads of its inputs: of a columnar file the row groups that it needs, of JSONL the bytes of its parts; and what one
// process writes that makes a file.
import { readFile, stat, writeFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { queryDuckdb } from '../support/io-helpers.js';
import { openScene } from '../support/scene.js';
import { snapshot } from '../torture/snapshot.js';

const GROUP_ROWS = 2048;

const { at: inFolder, done, fails, rows: rowsOf, write } = await openScene();
const SEGMENT = `--no-policy --segmenter newline --rows-per-part ${GROUP_ROWS} --quiet`;
const segment = (input: string, out: string, shard: string) =>
  `segment ${input} -o ${out}/ --format jsonl --shard ${shard} ${SEGMENT}`;

it('a shard decodes the row groups of its parts, and no other', async () => {
  const input = inFolder('traces.parquet');
  const rows = `select 'row ' || i || E'.\\nend.' as completion, i from range(${3 * GROUP_ROWS}) t(i)`;
  await queryDuckdb(`copy (${rows}) to '${input}' (format parquet, row_group_size ${GROUP_ROWS})`);
  // the pages of the second row group are damaged: who reads them ends with an error
  const bytes = await readFile(input);
  const pages = await queryDuckdb(
    `select data_page_offset as at, total_compressed_size as size from parquet_metadata('${input}') where row_group_id = 1`,
  );
  for (const { at, size } of pages) bytes.fill(0xff, Number(at), Number(at) + Number(size));
  await writeFile(input, bytes);

  for (const shard of ['0/3', '2/3']) await done(segment(input, 'out', shard));
  const found = await rowsOf<{ i: number }>('out/part-00002.jsonl');
  expect(found.map(({ i }) => i)).toEqual(Array.from({ length: GROUP_ROWS }, (_, n) => 2 * GROUP_ROWS + n));
  await fails(segment(input, 'out', '1/3'), 65, /row group 1, from row 2048 on/);
});

/** What this process has read and written, of any file. */
async function bytesMoved(): Promise<{ read: number; written: number }> {
  const text = await readFile('/proc/self/io', 'utf8');
  const [, read, written] = /^rchar: (\d+)\nwchar: (\d+)/.exec(text) ?? [];
  return { read: Number(read), written: Number(written) };
}

/** 24 MiB in 12,288 rows, whose completions are one line each: cutting them costs nothing. */
async function largeLines(): Promise<number> {
  const completion = 'one step '.repeat(215);
  const line = (n: number) => `${JSON.stringify({ completion, n }).padEnd(2047)}\n`;
  const text = Array.from({ length: 12_288 }, (_, n) => line(n)).join('');
  await write('large.jsonl', text);
  return text.length;
}

const MIB = 2 ** 20;

it.skipIf(process.platform !== 'linux')('a shard of JSONL reads all of it twice, at most', async () => {
  const size = await largeLines();
  const shards = 4;
  const before = await bytesMoved();
  for (let n = 0; n < shards; n++) await done(segment('large.jsonl', 'large', `${n}/${shards}`));
  const { read } = await bytesMoved();
  // each looks at all rows, then reads past those of others; and what it writes is read for its hash
  const others = shards * 4 * MIB + 4 * size;
  expect(read - before.read).toBeLessThan(size * (2 * shards + 1) + others);
  await done(segment('large.jsonl', 'whole', '0/1'));
  expect(await snapshot(inFolder('large'))).toEqual(await snapshot(inFolder('whole')));
});

it.skipIf(process.platform !== 'linux').each(['arrow', 'jsonl'])(
  'one process writes %s twice',
  async (ending) => {
    await largeLines();
    const before = await bytesMoved();
    await done(`segment large.jsonl -o cut.${ending} ${SEGMENT}`);
    const after = await bytesMoved();
    const made = (await stat(inFolder(`cut.${ending}`))).size;
    expect((after.written - before.written) / made).toBeLessThan(2.2);
  },
);
