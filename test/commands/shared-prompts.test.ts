// Traces behind one prompt, which `score` reads once a window: the same numbers as by themselves, the same bytes however they are cut.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, type FixtureRow, readJsonl, type ScoredRow, storedValues } from '../support/program.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const GROUPS = ['top-0022', 'top-0026'];
const FLAGS = '--segmenter fixed --fixed-length 500 --max-segments 1';

let folder: string;
const at = (name: string) => join(folder, name);
const run = async (line: string) => {
  const { code, stdout, stderr } = await rredcotHere(line.split(' '), { cwd: folder });
  expect(code, `${stdout}${stderr}`).toBe(0);
};

beforeAll(async () => {
  folder = await temporaryFolder();
  // two groups of eight, whose completions are short beside their prompt of 34 tokens
  const rows = (await readJsonl<FixtureRow>(FIXTURES)).filter(({ group }) => GROUPS.includes(group));
  expect(rows).toHaveLength(16);
  await writeFile(at('traces.jsonl'), `${rows.map((row) => JSON.stringify(row)).join('\n')}\n`);
  await run(`score traces.jsonl ${FLAGS} --rows-per-chunk 8 -o whole.jsonl`);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it('gives the numbers of traces that are alone, to 1e-5, and not by the same sums', async () => {
  await run(`score traces.jsonl ${FLAGS} --rows-per-chunk 1 -o apart.jsonl`);
  const [whole, apart] = await Promise.all(
    ['whole', 'apart'].map((name) => readJsonl<ScoredRow>(at(`${name}.jsonl`))),
  );
  let worst = 0;
  for (const [n, row] of (whole as ScoredRow[]).entries()) {
    const alone = (apart as ScoredRow[])[n] as ScoredRow;
    expect(row.id).toBe(alone.id);
    const numbers = (of: ScoredRow) => [...of.logprobs, ...of.entropies, ...storedValues(of)];
    const [found, expected] = [numbers(row), numbers(alone)];
    expect(found).toHaveLength(expected.length);
    for (const [i, value] of found.entries())
      worst = Math.max(worst, Math.abs(value - (expected[i] as number)));
  }
  if (process.env.MEASURE) console.log({ worst });
  expect(worst).toBeLessThan(1e-5);
  expect(worst).toBeGreaterThan(0); // else nothing was shared
});

it('writes the same bytes in shards', async () => {
  for (const shard of [0, 1])
    await run(`score traces.jsonl ${FLAGS} --rows-per-chunk 8 --shard ${shard}/2 --format jsonl -o parts/`);
  await run('merge parts/ -o merged.jsonl');
  const [merged, whole] = await Promise.all(
    ['merged', 'whole'].map((name) => readFile(at(`${name}.jsonl`), 'utf8')),
  );
  expect(merged === whole).toBe(true);
});
