// Files that are a part of a data set say so, in each format and however they came about, and what needs whole groups goes by it.
import { copyFile, mkdir, readdir } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { readMetadata } from '../support/io-helpers.js';
import { fixtureRows, GIVEN, openScene, valued } from '../support/scene.js';

const FORMATS = ['parquet', 'arrow', 'jsonl'] as const;
const VALUE = '--baseline value --quiet';
const PARTS = `--rows-per-part 4 ${VALUE}`;

const { at, done, rows, run, text, write } = await openScene();
/** What is said where a group's mean would follow from the traces of an output. */
const means = async (path: string) => {
  const { code, stderr } = await run(
    `redistribute ${path} --baseline group -o means.jsonl --overwrite --quiet`,
  );
  return `${code} ${stderr}`;
};
/** What `verify` notes of it; nothing is found in any. */
const noted = async (path: string) => {
  const made = await run(`verify ${path} --log-json`);
  expect([made.code, made.stdout]).toEqual([0, '']);
  return made.stderr.split('\n').flatMap((line) => {
    const record = line === '' ? {} : JSON.parse(line);
    return record.code === 'part' ? [record.msg as string] : [];
  });
};
const partOf = async (name: string) => (await readMetadata(at(name))).keys.get('rredcot.part');
/** two groups of eight */
beforeAll(async () => {
  const fixtures = await fixtureRows(0, 16);
  await write('traces.jsonl', fixtures);
  // a note makes them large enough for two files of 64 KiB
  const long = fixtures.map((row) => ({ ...valued(row), note: 'so far so good '.repeat(500) }));
  await write('valued.jsonl', long);
  await done('score traces.jsonl -o stored.jsonl --quiet');
});

it.each(['lost.parquet', 'lost.jsonl', 'lost/'])(
  'traces that %s has lost to the rejects are told',
  async (output) => {
    const [first, ...others] = await rows<object>('valued.jsonl');
    await write('lost-rows.jsonl', [{ ...first, values: [0.5] }, ...others]);
    await done(`score lost-rows.jsonl ${GIVEN} -o ${output} ${VALUE}`);
    const said = /has rejected 1 trace: the mean of a group's rewards is that of those that are left/;
    const told = async () =>
      (await done(`redistribute ${output} --baseline group --overwrite -o told.jsonl`)).stderr;
    expect(await told()).toMatch(said);
    // as it was computed of all of them
    await done(`score lost-rows.jsonl ${GIVEN} -o ${output} --baseline group --quiet --overwrite`);
    expect(await told()).not.toMatch(said);
  },
);

describe.each(['parquet', 'jsonl'] as const)('a limit, %s', (format) => {
  const [cut, whole] = [`cut.${format}`, `uncut.${format}`];
  // what a calibration is fitted to is the policy's
  const score = format === 'jsonl' ? 'score traces.jsonl' : `score valued.jsonl ${GIVEN}`;
  beforeAll(async () => {
    await done(`${score} --limit 9 -o ${cut} ${VALUE}`);
    await done(`${score} --limit 16 -o ${whole} ${VALUE}`);
  });

  it('is told by the file, where it has cut something', async () => {
    if (format === 'parquet') expect(await partOf(cut)).toBe('{"by":"limit","limit":9}');
    expect(await noted(cut)).toEqual([`${cut}: was cut by --limit 9: groups may lack traces`]);
    expect(await noted(whole)).toEqual([]);
    const { warnings } = JSON.parse((await done(`summary ${cut} --json`)).stdout);
    const said = 'the file was cut by --limit 9: its groups may lack traces';
    expect(warnings[0]).toEqual({ code: 'part', message: said });
  });

  it('leaves no means of groups, and tells of what else is made of them', async () => {
    expect(await means(cut)).toMatch(
      /^65 .*cut\.\w+: was cut by --limit 9, so that the mean of its groups' rewards is not known/,
    );
    expect(await means(whole)).toBe('0 ');
    const [made, stored] = await Promise.all(['means.jsonl', 'stored.jsonl'].map((name) => rows(name)));
    expect(made?.map(({ baseline }) => baseline)).toEqual(stored?.map(({ baseline }) => baseline));
    const again = '-o again.jsonl --map reference=answer --overwrite';
    for (const [file, isPart] of [
      [cut, true],
      [whole, false],
    ] as const) {
      const said = async (line: string) => (await done(`${line} --log-json`)).said;
      for (const [line, told] of [
        ...(format === 'jsonl'
          ? ([[`calibrate ${file} -o calibration.json`, /"code":"part"/]] as const)
          : []),
        [
          `score ${file} ${again} ${format === 'jsonl' ? '' : `${GIVEN} --baseline group`}`,
          /"code":"part_input"/,
        ],
      ] as const)
        if (isPart) expect(await said(line)).toMatch(told);
        else expect(await said(line)).not.toMatch(/"code":"part(_input)?"/);
      // what is made of a part is one
      expect(await noted('again.jsonl')).toHaveLength(Number(isPart));
    }
    await done(`redistribute ${cut} --sigma rudder --overwrite -o rudder.arrow --quiet`);
    expect(await means('rudder.arrow')).toMatch(/^65 /);
  });
});

describe('a limit', () => {
  it('of a stream leaves a part, since nobody has seen what follows', async () => {
    const stdin = await text('valued.jsonl');
    await done(`score - ${GIVEN} --limit 9 -o stream.parquet ${VALUE}`, stdin);
    expect(await noted('stream.parquet')).toHaveLength(1);
    // and what follows of the last group follows of a part of it; groups that nothing follows of may be cut
    const cutGroup = async (baseline: string) =>
      (await run(`score - ${GIVEN} --limit 9 -o - --format jsonl --baseline ${baseline}`, stdin)).stderr;
    expect(await cutGroup('group')).toContain('WARN: --limit 9 may have cut the last group, "top-0001": ');
    expect(await cutGroup('value')).not.toContain('may have cut');
  });

  it('is told of a run folder, too', async () => {
    await done(`score valued.jsonl ${GIVEN} --limit 9 -o limited/ --format jsonl ${PARTS}`);
    expect(await noted('limited/')).toHaveLength(1);
    expect(await means('limited/')).toMatch(/^65 .*was cut by --limit 9/);
    await done('filter limited/ -o limited.jsonl --quiet');
    expect(await means('limited.jsonl')).toMatch(/^65 .*was cut by --limit 9/);
  });
});

describe.each(FORMATS)('a run that is not whole, %s', (format) => {
  const out = `run-${format}`;
  const score = `score valued.jsonl ${GIVEN} -o ${out}/ ${PARTS} --format ${format}`;
  beforeAll(() => done(`${score} --shard 0/2`));

  it('is a part where its parts are named', async () => {
    const there = `${out}/part-*.${format}`;
    expect(await means(there)).toMatch(/^65 .*has 2 of 4 pieces of its run, so that the mean/);
    await done(['filter', there, '-o', `part.${format}`, '--quiet']);
    expect(await means(`part.${format}`)).toMatch(/^65 .*has 2 of 4 pieces of its run/);
    const part = `${out}/part-00002.${format}`;
    expect(await noted(part)).toEqual([expect.stringContaining('has 1 of 4 pieces of its run')]);
    const again = await done(
      `score ${part} ${GIVEN} --baseline group --map reference=answer --log-json -o again.jsonl --overwrite`,
    );
    expect(again.stderr).toContain('"part_input"');
    expect((await run(`redistribute ${out}/ -o no.jsonl`)).code).toBe(75);
    const { missing_parts: missing } = JSON.parse((await done(`summary ${out}/ --json`)).stdout);
    expect(missing).toEqual([1, 3]);
  });

  it('is none when it is finished, however its parts are named together', async () => {
    await done(`${score} --shard 1/2`);
    for (const place of [`${out}/`, `${out}/part-*`]) expect(await means(place)).toBe('0 ');
    expect(await noted(`${out}/`)).toEqual([]);
    if (format === 'jsonl') return;
    // a part says so itself, wherever it lies
    const copies = `copies-${format}`;
    await mkdir(at(copies));
    const names = (await readdir(at(out))).filter((name) => name.startsWith('part-'));
    for (const [n, name] of names.entries()) {
      await copyFile(at(`${out}/${name}`), at(`${copies}/${n}.${format}`));
      expect(await means(copies)).toMatch(n < 3 ? `65 rredcot: ${copies}: has ${n + 1} of 4 pieces` : /^0 $/);
    }
  });
});
