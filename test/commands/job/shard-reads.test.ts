// What a shard reads of its inputs: of a columnar file the row groups that it needs, of JSONL the lines of others by their ends.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readParquetFooter } from '../../../dist/io/parquet/footer.js';
import { rredcotHere } from '../../support/in-process.js';
import { queryDuckdb } from '../../support/io-helpers.js';
import { readJsonl, temporaryFolder } from '../../support/program.js';

const GROUP_ROWS = 2048;

async function segment(input: string, out: string, shard: string) {
  const flags = ['--no-policy', '--format', 'jsonl', '--rows-per-chunk', `${GROUP_ROWS}`, '--quiet'];
  return rredcotHere(['segment', input, '-o', `${out}/`, '--shard', shard, ...flags]);
}

it('a shard decodes the row groups of its chunks, and no other', async () => {
  const work = await temporaryFolder();
  const input = join(work, 'traces.parquet');
  const rows = `select 'row ' || i || E'.\\nend.' as completion, i from range(${3 * GROUP_ROWS}) t(i)`;
  await queryDuckdb(`copy (${rows}) to '${input}' (format parquet, row_group_size ${GROUP_ROWS})`);
  const { groups } = await readParquetFooter(input);
  expect(groups.map((group) => group.rows)).toEqual([GROUP_ROWS, GROUP_ROWS, GROUP_ROWS]);
  // the pages of the second one are damaged: who reads them ends with an error
  const bytes = await readFile(input);
  const { start, end } = (groups[1] as (typeof groups)[number]).part();
  bytes.fill(0xff, start, end);
  await writeFile(input, bytes);

  const out = join(work, 'out');
  for (const shard of ['0/3', '2/3']) {
    const run = await segment(input, out, shard);
    expect(run.code, run.stderr).toBe(0);
  }
  const found = await readJsonl<{ i: number }>(join(out, 'chunks/00002-of-00003/000002.jsonl'));
  expect(found.map(({ i }) => i)).toEqual(Array.from({ length: GROUP_ROWS }, (_, n) => 2 * GROUP_ROWS + n));
  const damaged = await segment(input, out, '1/3');
  expect([damaged.code, damaged.stderr]).toEqual([
    65,
    expect.stringMatching(/row group 1, from row 2048 on/),
  ]);
});
