// Rows say which input they come from, and what the path of that input says by its hive keys is kept as columns.
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { BROKEN, type FixtureRow } from '../support/program.js';
import { fixtureRows, jsonLines, openScene } from '../support/scene.js';

interface Row {
  readonly id: string;
  readonly source_file: string;
  readonly source_row: number;
  readonly step?: string | null;
  readonly seed?: string | null;
}

const { at, done: ends, rows, write } = await openScene();
let traces: FixtureRow[];
const done = (line: string) => ends(`${line} --quiet`);
async function place(name: string, content: string): Promise<void> {
  await mkdir(dirname(at(name)), { recursive: true });
  await write(name, content);
}

beforeAll(async () => {
  traces = await fixtureRows(0, 6);
  await place('dump/step=3/part.jsonl', jsonLines(traces.slice(0, 2)));
  await place('dump/step=007/seed=a%20b/part.jsonl', jsonLines(traces.slice(2, 4)));
  const last = `${BROKEN}\n${jsonLines(traces.slice(4, 5))}`;
  await place('dump/step=__HIVE_DEFAULT_PARTITION__/part.jsonl', last);
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
const placesOf = async (name: string) =>
  (await rows<Row>(name)).map((row) => {
    return [row.source_file, row.step ?? null, row.seed ?? null, Number(row.source_row)];
  });

it('a row of several inputs names its own, by the path that leads to it, and the keys of the path', async () => {
  await done('segment dump --no-policy -o cut.jsonl');
  expect(await placesOf('cut.jsonl')).toEqual(PLACES);
  await done('score dump -o scored.parquet');
  expect(await placesOf('scored.parquet')).toEqual(PLACES);
  await done('sample dump --max-tokens 2 -o sampled.jsonl');
  const sampled = await rows<Row>('sampled.jsonl');
  expect(new Set(sampled.map(({ source_file: file }) => file))).toEqual(new Set(FILES.map(([file]) => file)));
  // the rejects say the same of theirs
  const [reject] = await rows<{ file: string }>('cut.jsonl.rejects.jsonl');
  expect(reject?.file).toBe(FILES[2][0]);
});

it('what is made of a scored file names the same', async () => {
  await done('redistribute scored.parquet --sigma softmax -o again.parquet');
  expect(await placesOf('again.parquet')).toEqual(PLACES);
  await done("filter again.parquet -o some.parquet --where 'reward >= 0'");
  expect(await placesOf('some.parquet')).toEqual(PLACES);
  await done('verify again.parquet');
});

it.each(['parquet', 'arrow'])(
  '%s inputs get the keys as columns of text, but for those that they have',
  async (format) => {
    for (const [n, [input]] of FILES.slice(0, 2).entries()) {
      const part = `${format}/lr=1e-${n}/a.${format}`;
      await mkdir(dirname(at(part)), { recursive: true });
      // these have a column `step` of their own, and none that is called `lr`
      await done(`segment ${input} --no-policy --keep prompt,completion,step -o ${part}`);
    }
    await done(`segment ${format} --no-policy --max-segments 3 -o ${format}.parquet`);
    const found = await rows<Row & { lr: string }>(`${format}.parquet`);
    expect(found.map(({ lr, step }) => [lr, step])).toEqual([
      ...[0, 1].map(() => ['1e-0', '007']),
      ...[0, 1].map(() => ['1e-1', '3']),
    ]);
  },
);

it('a mended reject has file and keys of its first reading', async () => {
  const [reject] = await rows<object>('cut.jsonl.rejects.jsonl');
  await write('mended.jsonl', [{ ...reject, raw: JSON.stringify(traces[5]) }]);
  await done('segment mended.jsonl --no-policy -o mended.out.jsonl');
  expect(await placesOf('mended.out.jsonl')).toEqual([[FILES[2][0], null, null, 0]]);
});
