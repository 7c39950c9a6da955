// Rows say which input they come from.
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { BROKEN, type FixtureRow } from '../support/program.js';
import { fixtureRows, jsonLines, openScene } from '../support/scene.js';

type Row = { readonly id: string; readonly source_file: string; readonly source_row: number };

const { at, done: ends, rows, write } = await openScene();
let traces: FixtureRow[];
const done = (line: string) => ends(`${line} --quiet`);
async function place(name: string, content: string): Promise<void> {
  await mkdir(dirname(at(name)), { recursive: true });
  await write(name, content);
}

beforeAll(async () => {
  traces = await fixtureRows(0, 6);
  await place('dump/a/part.jsonl', jsonLines(traces.slice(0, 2)));
  await place('dump/b/part.jsonl', jsonLines(traces.slice(2, 4)));
  await place('dump/c/part.jsonl', `${BROKEN}\n${jsonLines(traces.slice(4, 5))}`);
});

/** What the rows of the folder come from, in the order of its files. */
const FILES = ['dump/a/part.jsonl', 'dump/b/part.jsonl', 'dump/c/part.jsonl'] as const;
const PLACES = [
  ...[0, 1].map((row) => [FILES[0], row]),
  ...[0, 1].map((row) => [FILES[1], row]),
  [FILES[2], 1],
];
const placesOf = async (name: string) =>
  (await rows<Row>(name)).map((row) => [row.source_file, Number(row.source_row)]);

it('a row of several inputs names its own, by the path that leads to it', async () => {
  await done('segment dump --no-policy -o cut.jsonl');
  expect(await placesOf('cut.jsonl')).toEqual(PLACES);
  await done('score dump -o scored.parquet');
  expect(await placesOf('scored.parquet')).toEqual(PLACES);
  // the rejects say the same of theirs
  const [reject] = await rows<{ file: string }>('cut.jsonl.rejects.jsonl');
  expect(reject?.file).toBe(FILES[2]);
});

it('what is made of a scored file names the same', async () => {
  await done('redistribute scored.parquet --sigma softmax -o again.parquet');
  expect(await placesOf('again.parquet')).toEqual(PLACES);
  await done("filter again.parquet -o some.parquet --where 'reward >= 0'");
  expect(await placesOf('some.parquet')).toEqual(PLACES);
  await done('verify again.parquet');
});
