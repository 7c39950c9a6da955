// Rows dealt out to folders by a column: as other programs read them, whatever the values are.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { queryDuckdb } from '../support/io-helpers.js';
import { BROKEN } from '../support/program.js';
import { pythonWith } from '../support/python.js';
import { fixtureRows, GIVEN, openScene, valued } from '../support/scene.js';
import { snapshot } from '../torture/snapshot.js';

const { at, done, fails, folder, json, rows, text, write } = await openScene();
const SCORE = `score traces.jsonl ${GIVEN} --rows-per-part 4`;
const STEPS = ['step=10', 'step=9'];
const python = pythonWith('pyarrow.dataset');

/** Two steps, each in every part, and a row that is rejected. */
const stepped = async (count: number, more: (n: number) => object = () => ({})) =>
  (await fixtureRows(0, count)).map((row, n) => ({ ...valued(row), step: 9 + (n % 2), ...more(n) }));
async function writeTraces(traces: readonly object[]): Promise<void> {
  const lines = traces.map((row) => JSON.stringify(row));
  await write('traces.jsonl', `${lines.toSpliced(2, 0, BROKEN).join('\n')}\n`);
}
const foldersIn = async (out: string) => (await fs.readdir(at(out))).sort();
const left = async () => (await fs.readdir(folder)).filter((name) => name.startsWith('.'));
/** ids of a step, in the order of the inputs */
const idsOf = async (step: number) =>
  (await stepped(12)).filter((row) => row.step === step).map(({ id }) => id);

beforeEach(async () => {
  for (const name of await fs.readdir(folder)) await fs.rm(at(name), { recursive: true });
  await writeTraces(await stepped(12));
});

describe.each(['parquet', 'arrow'])('a run dealt out to %s', (format) => {
  const command = `${SCORE} --partition step --format ${format}`;

  it('has a folder a value, of rows in their order without the column, the rejects and the summary beside it', async () => {
    await done(`${command} -o out/`);
    expect(await foldersIn('out')).toEqual(STEPS);
    for (const name of STEPS) expect(await fs.readdir(at(`out/${name}`))).toEqual([`part-00000.${format}`]);
    expect((await rows<object>('out.rejects.jsonl')).length).toBe(1);
    expect(await json('out.summary.json')).toMatchObject({
      traces: 12,
      rejects: 1,
      config: { partition: 'step' },
    });
    expect(await left()).toEqual([]);
    // one after the other as they are, and with the step as their names have it
    await done(`redistribute out/ -o all.jsonl`);
    const all = await rows<{ id: string; step: number; sigma: number[] }>('all.jsonl');
    expect(all.map(({ id }) => id)).toEqual([...(await idsOf(10)), ...(await idsOf(9))]);
    expect(all.map(({ step }) => step)).toEqual([...Array(6).fill(10), ...Array(6).fill(9)]);
    await done(`${SCORE} -o plain.jsonl`);
    const plain = await rows<{ id: string; sigma: number[] }>('plain.jsonl');
    for (const { id, sigma } of plain) expect(all.find((row) => row.id === id)?.sigma).toEqual(sigma);
  });

  it('is done when it is asked for again, checked by verify, and made again where a file is another one', async () => {
    await done(`${command} -o out/`);
    const whole = await snapshot(at('out'));
    expect((await done(`${command} -o out/`)).said).toContain('out is already done: 12 traces, 1 reject');
    expect((await done('verify out/')).said).toContain('2 parts, 12 traces, 1 reject; nothing found');
    await fails(`${command} -o out/ --sigma rudder`, 2, /another run: --sigma/);
    await fs.rm(at('out/step=9'), { recursive: true });
    await fails('verify out/', 65, 'out: holds 6 traces, expected 12');
    await fails(`${command} -o out/`, 2, /holds 6 traces, expected 12\n.*--overwrite/);
    await done(`${command} -o out/ --overwrite`);
    expect(await snapshot(at('out'))).toEqual(whole);
    const file = `out/step=9/part-00000.${format}`;
    const bytes = await fs.readFile(at(file));
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
    await fs.writeFile(at(file), bytes);
    await fails(`${command} -o out/`, 2, /step=9\/part-00000.\w+ is not the file that was written/);
    await done(`${command} -o out/ --sigma rudder --overwrite`);
    await fails(`${command} -o out/`, 2, /another run: --sigma/);
    expect(await left()).toEqual([]);
  });

  it('has the same bytes by any number of shards; the last of them deals out', async () => {
    await done(`${command} -o one/`);
    for (const i of [2, 0]) {
      expect((await done(`${command} -o out/ --shard ${i}/3`)).said).toMatch(/[1-3] of 4 parts are there/);
      await expect(fs.stat(at('out'))).rejects.toThrow('ENOENT');
    }
    await done(`${command} -o out/ --shard 1/3`);
    expect(await snapshot(at('out'))).toEqual(await snapshot(at('one')));
    expect(await text('out.rejects.jsonl')).toBe(await text('one.rejects.jsonl'));
    expect(await left()).toEqual([]);
  });
});

it('a folder takes the place of an older run, and of nothing that is nobody’s', async () => {
  const command = `${SCORE} --partition step -o out/`;
  await done(command);
  await done(`${command} --sigma rudder --overwrite`);
  await write('out/note.txt', 'of a user');
  await fails(
    `${command} --overwrite`,
    2,
    /out: is there already, and is no output of a run\n {2}try: name another/,
  );
  expect(await text('out/note.txt')).toBe('of a user');
  await fs.mkdir(at('data'));
  await write('data/traces.parquet', 'of a user');
  await fails(`${SCORE} --partition step -o data/ --overwrite`, 2, /data: is there already/);
  expect(await left()).toEqual([]);
  await fails(`${SCORE} --partition step -o data/`, 2, /data: is there .*\n {2}try: name another output/);
  await fs.rm(at('out/note.txt'));
  await write('out/step=9/more.parquet', 'of a user');
  await fails(`${command} --overwrite`, 2, /out: is there already/);
  expect(await text('out/step=9/more.parquet')).toBe('of a user');
  await fs.symlink(at('out'), at('link'));
  await fails(`${command.replace('out/', 'link/')} --overwrite`, 2, /link\/ is no folder .*or a link to one/);
  await fs.rm(at('link'));
  await fs.mkdir(at('empty'));
  await done(`${SCORE} --partition step -o empty`);
  expect(await foldersIn('empty')).toEqual(STEPS);
});

it('parts never stand beside rows that were dealt out, nor does an output take the place of its input', async () => {
  await done(`${SCORE} --partition step -o out`);
  const whole = await snapshot(at('out'));
  await fails(`${SCORE} -o out/ --overwrite`, 2, /out: holds step=\S+ and no _run.json.*\n {2}try: [^,]*$/);
  await done(`${SCORE} -o run/`);
  for (const out of ['out', 'run'])
    await fails(
      `segment ${out} --no-policy -o ${out}/ --overwrite`,
      2,
      /is an input, or has one, and would be/,
    );
  await fails('segment out --no-policy --partition family -o out/ --overwrite', 2, /out: is an input/);
  expect(await snapshot(at('out'))).toEqual(whole);
  await done('verify run');
});

it('a column that is called sigma, and is something else', async () => {
  await writeTraces(await stepped(12, (n) => ({ sigma: n % 2 ? 'wide' : 'narrow' })));
  await done('segment traces.jsonl --no-policy --partition sigma -o out/');
  expect(await foldersIn('out')).toEqual(['sigma=narrow', 'sigma=wide']);
  await done('segment traces.jsonl --no-policy --partition step -o steps/');
  await done('verify steps/');
});

describe('values', () => {
  const VALUES = ['a/b', null, 'ü %\ud800', "!'()*", '..', '', 'a=b', '~-._', '12'];
  const NAMES =
    'step=|step=%21%27%28%29%2A|step=%C3%BC%20%25%EF%BF%BD|step=..|step=12|step=__HIVE_DEFAULT_PARTITION__';
  const byValue = (rows: readonly { step: unknown; id: unknown }[]) =>
    Object.fromEntries(rows.map(({ id, step }) => [String(id), step && Buffer.from(`${step}`).toString()]));
  let expected: Record<string, unknown>;

  beforeEach(async () => {
    const traces = await stepped(18, (n) => ({ step: VALUES[n % VALUES.length] }));
    // a row without the column, too
    const [first, ...others] = traces as [(typeof traces)[0], ...typeof traces];
    const { step: _, ...lacking } = first;
    await writeTraces([lacking, ...others]);
    expected = byValue([{ ...first, step: null as never }, ...others]);
    await done(`${SCORE} --partition step -o out/`);
  });

  it('are spelled in the names of folders, and read from them by DuckDB and by us', async () => {
    expect((await foldersIn('out')).join('|')).toBe(`${NAMES}|step=a%2Fb|step=a%3Db|step=~-._`);
    const found = await queryDuckdb(
      `SELECT id, step FROM read_parquet('${at('out')}/**/*.parquet', hive_partitioning = true)`,
    );
    expect(byValue(found as never)).toEqual(expected);
    await done(`redistribute out/ -o all.jsonl`);
    expect(byValue(await rows('all.jsonl'))).toEqual(expected);
  });

  it.skipIf(python === undefined)('are those of pyarrow (skipped where it is not there)', () => {
    const program = `
import json, os, sys, pyarrow as pa, pyarrow.dataset as ds
rows = ds.dataset(sys.argv[1], partitioning="hive").to_table(columns=["id", "step"])
ds.write_dataset(rows, sys.argv[2], partitioning=["step"], partitioning_flavor="hive", format="parquet")
print(json.dumps([rows.to_pylist(), sorted(os.listdir(sys.argv[1])), sorted(os.listdir(sys.argv[2]))]))`;
    const said = execFileSync(python as string, ['-c', program, at('out'), at('theirs')], {
      encoding: 'utf8',
    });
    const [found, ours, theirs] = JSON.parse(said);
    expect(byValue(found)).toEqual(expected);
    expect(ours).toEqual(theirs);
  });
});

describe('what cannot be dealt out is refused before anything is computed:', () => {
  it.each<[what: string, more: (n: number) => object, flags: string, why: RegExp]>([
    [
      'a column that is not there',
      () => ({}),
      '--partition stpe -o out/',
      /no such column \(.*step.*--partition step/s,
    ],
    [
      'one of ours',
      () => ({}),
      '--partition status -o out/',
      /--partition status: the input has no such column/,
    ],
    ['a column that is dropped', () => ({}), '--partition step --drop step -o out/', /no such column/],
    [
      'a number with a fraction',
      () => ({ step: 1.5 }),
      '--partition step -o out/',
      /has 1\.5, expected whole numbers/,
    ],
    [
      'a list',
      () => ({ step: [1] }),
      '--partition step -o out/',
      /has 1, expected whole numbers alone, or texts/,
    ],
    [
      'numbers and texts',
      (n) => ({ step: n === 5 ? 'five' : n }),
      '--partition step -o out/',
      /has five, expected whole numbers/,
    ],
    [
      'what would be read as another number',
      (n) => ({ step: n === 5 ? '007' : '7' }),
      '--partition step -o out/',
      /has 007, expected .* can name a folder/,
    ],
    [
      'a long text',
      () => ({ step: 'x'.repeat(300) }),
      '--partition step -o out/',
      /expected .* can name a folder/,
    ],
    [
      'what stands for no value',
      () => ({ step: '__HIVE_DEFAULT_PARTITION__' }),
      '--partition step -o out/',
      /can name/,
    ],
    ['the id', () => ({}), '--partition id -o out/', /id: is a column of the output.*such as a copy of id/s],
    ['the group', () => ({}), '--partition group -o out/', /group: is a column of the output/],
    ['no column', () => ({}), '--partition stop -o out/', /has no such column.*--partition step/s],
    ['JSON lines', () => ({}), '--partition step -o out/ --format jsonl', /no folder .* Parquet or Arrow/],
    ['a file', () => ({}), '--partition step -o out.parquet', /out\.parquet is no folder/],
  ])('%s', async (_, more, flags, why) => {
    await writeTraces(await stepped(12, more));
    await fails(`${SCORE} ${flags}`, 2, why);
    expect((await fs.readdir(folder)).sort()).toEqual(['traces.jsonl']);
  });

  it('more values than folders that anybody wants', async () => {
    const [row] = await stepped(1);
    const of = (count: number) =>
      Array.from({ length: count }, (_, step) => ({ ...row, id: `${step}`, step }));
    await writeTraces(of(1001));
    const command = 'segment traces.jsonl --no-policy --partition step -o out/';
    await fails(command, 2, /--partition step: the column has more than 1,000 values/);
    expect((await fs.readdir(folder)).sort()).toEqual(['traces.jsonl']);
    // of the first thousand traces there are as many
    await writeTraces(of(20));
    await done(`${command} --limit 3`);
    expect(await foldersIn('out')).toEqual(['step=0', 'step=1']);
  });
});
