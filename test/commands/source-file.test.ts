// Rows say which input they come from, and what the path of that input says by its hive keys is kept as columns.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { BROKEN, FIXTURES, readJsonl, readScored, temporaryFolder } from '../support/program.js';

interface Row {
  readonly id: string;
  readonly source_file: string;
  readonly source_row: number;
  readonly step?: string | null;
  readonly seed?: string | null;
}

let cwd: string;
let lines: string[];
async function done(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await rredcotHere([...args, '--quiet'], { cwd });
  expect(code, stderr).toBe(0);
  return stdout;
}
async function write(name: string, ...some: string[]): Promise<void> {
  await mkdir(dirname(join(cwd, name)), { recursive: true });
  await writeFile(join(cwd, name), some.map((line) => `${line}\n`).join(''));
}
const rowsOf = (name: string) => readJsonl<Row>(join(cwd, name));

beforeAll(async () => {
  cwd = await temporaryFolder();
  lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 6);
  await write('dump/step=3/part.jsonl', ...lines.slice(0, 2));
  await write('dump/step=007/seed=a%20b/part.jsonl', ...lines.slice(2, 4));
  await write('dump/step=__HIVE_DEFAULT_PARTITION__/part.jsonl', BROKEN, lines[4] as string);
});

/** What the rows of the folder come from, in the order of its files. */
const FILES = [
  ['dump/step=007/seed=a%20b/part.jsonl', '007', 'a b'],
  ['dump/step=3/part.jsonl', '3', null],
  ['dump/step=__HIVE_DEFAULT_PARTITION__/part.jsonl', null, null],
] as const;
const PLACES = [
  ...[0, 1].map((row) => [...FILES[0], row]),
  ...[0, 1].map((row) => [...FILES[1], row]),
  [...FILES[2], 1],
];
const placesOf = (rows: readonly Row[]) =>
  rows.map((row) => [row.source_file, row.step ?? null, row.seed ?? null, Number(row.source_row)]);

it('a row of several inputs names its own, by the path that leads to it, and the keys of the path', async () => {
  await done('segment', 'dump', '--no-policy', '-o', 'cut.jsonl');
  expect(placesOf(await rowsOf('cut.jsonl'))).toEqual(PLACES);
  await done('score', 'dump', '-o', 'scored.parquet');
  expect(placesOf((await readScored(join(cwd, 'scored.parquet'))) as unknown as Row[])).toEqual(PLACES);
  await done('sample', 'dump', '--max-tokens', '2', '-o', 'sampled.jsonl');
  const sampled = await rowsOf('sampled.jsonl');
  expect(new Set(sampled.map(({ source_file: file }) => file))).toEqual(new Set(FILES.map(([file]) => file)));
  // the rejects say the same of theirs
  const [reject] = await readJsonl<{ file: string }>(join(cwd, 'cut.jsonl.rejects.jsonl'));
  expect(reject?.file).toBe(FILES[2][0]);
});

it('what is made of a scored file names the same', async () => {
  await done('redistribute', 'scored.parquet', '--sigma', 'abs', '-o', 'again.parquet');
  expect(placesOf((await readScored(join(cwd, 'again.parquet'))) as unknown as Row[])).toEqual(PLACES);
  await done('filter', 'again.parquet', '-o', 'some.parquet', '--where', 'reward >= 0');
  expect(placesOf((await readScored(join(cwd, 'some.parquet'))) as unknown as Row[])).toEqual(PLACES);
  await done('verify', 'again.parquet');
  // a run is held against its inputs
  await done('segment', 'dump', '--no-policy', '--format', 'jsonl', '-o', 'run/');
  await done('verify', 'run');
});

it.each(['parquet', 'arrow'])(
  '%s inputs get the keys as columns of text, but for those that they have',
  async (format) => {
    const part = (n: number) => `${format}/lr=1e-${n}/a.${format}`;
    for (const [n, [input]] of FILES.slice(0, 2).entries()) {
      await mkdir(dirname(join(cwd, part(n))), { recursive: true });
      // these have a column `step` of their own, and none that is called `lr`
      await done('segment', input, '--no-policy', '--keep', 'prompt,completion,step', '-o', part(n));
    }
    await done('segment', format, '--no-policy', '--max-segments', '3', '-o', `${format}.parquet`);
    const rows = (await readScored(join(cwd, `${format}.parquet`))) as unknown as (Row & { lr: string })[];
    expect(rows.map(({ lr, step }) => [lr, step])).toEqual([
      ...[0, 1].map(() => ['1e-0', '007']),
      ...[0, 1].map(() => ['1e-1', '3']),
    ]);
  },
);

it('a mended reject has file and keys of its first reading', async () => {
  const [reject] = await readJsonl<object>(join(cwd, 'cut.jsonl.rejects.jsonl'));
  await write('mended.jsonl', JSON.stringify({ ...reject, raw: lines[5] }));
  await done('segment', 'mended.jsonl', '--no-policy', '-o', 'mended.out.jsonl');
  expect(placesOf(await rowsOf('mended.out.jsonl'))).toEqual([[FILES[2][0], null, null, 0]]);
});
