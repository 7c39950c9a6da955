// A run is its parts: what stands is kept, what is missing is made, by any number of shards; nothing of another run is replaced in silence.
import fs from 'node:fs/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { BROKEN, writeFixtures } from '../support/program.js';
import { fixtureRows, GIVEN, openScene, valued } from '../support/scene.js';
import { snapshot } from '../torture/snapshot.js';

const { at, done, fails, folder, rows, run, text, write } = await openScene();
const SEGMENT = 'segment traces.jsonl --no-policy';
const FORMATS = ['parquet', 'arrow', 'jsonl'] as const;
const hidden = async () => (await fs.readdir(folder)).filter((name) => name.startsWith('.'));
/** content, and when it was written */
const state = async (name: string) => [await fs.readFile(at(name), 'hex'), (await fs.stat(at(name))).mtimeMs];
/** Another bit in the middle of a file. */
async function flip(name: string): Promise<void> {
  const bytes = await fs.readFile(at(name));
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
  await fs.writeFile(at(name), bytes);
}

beforeEach(async () => {
  for (const name of await fs.readdir(folder)) await fs.rm(at(name), { recursive: true });
  await writeFixtures(at('traces.jsonl'), 10, { 4: BROKEN });
});

describe.each(FORMATS)('a folder of %s', (format) => {
  const command = `${SEGMENT} --format ${format} --rows-per-part 3`;
  const ofLines = format === 'jsonl' ? ['_facts'] : [];

  it('holds the parts, their rejects, what the run is and a card, and nothing else', async () => {
    await done(`${command} -o out/`);
    const parts = [0, 1, 2, 3].map((n) => `part-0000${n}.${format}`);
    expect((await fs.readdir(at('out'))).sort()).toEqual(
      ['README.md', '_run.json', 'rejects', ...ofLines, ...parts].sort(),
    );
    expect(await fs.readdir(at('out/rejects'))).toEqual(['part-00001.jsonl']);
    expect((await done('verify out/')).said).toContain('out: 4 parts, 10 traces, 1 reject; nothing found');
    const before = await snapshot(at('out'));
    expect((await done(`${command} -o out/`)).said).toContain('out is already done: 10 traces, 1 reject');
    expect(await snapshot(at('out'))).toEqual(before);
  });

  it('has the same bytes whatever number of shards has made it, and in whatever order', async () => {
    await done(`${command} -o one/`);
    for (const count of [2, 3, 7])
      for (let i = count - 1; i >= 0; i--)
        expect((await done(`${command} -o by${count}/ --shard ${i}/${count}`)).code).toBe(0);
    const one = await snapshot(at('one'));
    for (const count of [2, 3, 7]) expect(await snapshot(at(`by${count}`))).toEqual(one);
  });

  it('has what is missing made again, and what is damaged, and nothing else', async () => {
    await done(`${command} -o out/`);
    const whole = await snapshot(at('out'));
    const kept = await state(`out/part-00000.${format}`);
    await fs.rm(at(`out/part-00001.${format}`));
    await fs.rm(at('out/rejects/part-00001.jsonl'));
    const beside = format === 'jsonl' ? '_facts/part-00002.json' : `part-00002.${format}`;
    await fs.truncate(at(`out/${beside}`), 40);
    const { said } = await done(`${command} -o out/`);
    expect(said).toContain('resuming: 2 parts are there, in out');
    expect(said).toContain(`part-00002.${format}: is not the part that was written: it is made again`);
    expect(await snapshot(at('out'))).toEqual(whole);
    expect(await state(`out/part-00000.${format}`)).toEqual(kept);
    // a byte of the rows, and a line of the rejects, where all parts are there
    for (const edited of [`part-00003.${format}`, 'rejects/part-00001.jsonl']) {
      await flip(`out/${edited}`);
      const part = edited.replace('rejects/', '').replace(/jsonl$/, format);
      expect((await done(`${command} -o out/`)).said).toContain(`${part}: is not the part that was written`);
      expect(await snapshot(at('out'))).toEqual(whole);
    }
  });

  it('takes no part for another one that lies under its name', async () => {
    await done(`${command} -o out/`);
    const whole = await snapshot(at('out'));
    await fs.cp(at(`out/part-00000.${format}`), at(`out/part-00003.${format}`));
    if (format === 'jsonl') await fs.cp(at('out/_facts/part-00000.json'), at('out/_facts/part-00003.json'));
    await fails('verify out/', 65, 'does not say that it is part 3 of a run');
    await done(`${command} -o out/`);
    expect(await snapshot(at('out'))).toEqual(whole);
  });

  it('is refused by the first thing that differs, and dropped with --overwrite alone', async () => {
    await done(`${command} -o out/`);
    const before = await snapshot(at('out'));
    const another = /out: holds another run: in _run\.json, --max-segments/;
    await fails(`${command} -o out/ --max-segments 2`, 2, another);
    await fails(`${command} -o out/ --rows-per-part 4`, 2, /--rows-per-part is 3, here it is 4/);
    await fs.appendFile(at('traces.jsonl'), '\n');
    await fails(`${command} -o out/`, 2, /inputs\.0\.bytes/);
    // of the same size: its first and its last MiB are known by their hashes
    const changed = (await text('traces.jsonl')).trimEnd().replace(/.$/, '!');
    await write('traces.jsonl', `${changed}\n`);
    await fails(`${command} -o out/`, 2, /inputs\.0\.(head|tail)/);
    expect(await snapshot(at('out'))).toEqual(before);
    await write('out/note.txt', 'of a user');
    await done(`${command} -o out/ --max-segments 2 --overwrite`);
    await done(`${command} -o fresh/ --max-segments 2`);
    expect(await text('out/note.txt')).toBe('of a user');
    await fs.rm(at('out/note.txt'));
    expect(await snapshot(at('out'))).toEqual(await snapshot(at('fresh')));
  });

  it('is refused where a part of another run lies in it, or anything else and no run', async () => {
    await done(`${command} -o out/`);
    await done(`${command} -o other/ --max-segments 2`);
    for (const name of [`part-00002.${format}`, '_facts/part-00002.json'])
      await fs.cp(at(`other/${name}`), at(`out/${name}`)).catch(() => {});
    await fails(`${command} -o out/`, 2, `out/part-00002.${format}: is of another run than _run.json`);
    await fails('verify out/', 65, 'is of another run than _run.json');
    await fs.rm(at('other/_run.json'));
    await fails(`${command} -o other/`, 2, /other: holds \S+ and no _run\.json/);
  });

  it('names its missing parts to those who read it, and is read as one where none is', async () => {
    await done(`${command} -o out/ --shard 0/2`);
    await fails('verify out/', 75, 'out: missing: 1, 3 of 4 parts');
    await fails('segment out/ --no-policy -o x.jsonl', 75, 'of its 4 parts these are missing: 1, 3');
    await done(`${command} -o out/ --shard 1/2`);
    await done('segment out/ --no-policy -o x.jsonl --columns id,segments');
    expect((await rows('x.jsonl')).map(({ id }) => id)).toHaveLength(10);
  });
});

describe.each(['cut.parquet', 'cut.arrow', 'cut.jsonl', 'cut.arrows'])('a file %s', (output) => {
  const command = `${SEGMENT} -o ${output} --rows-per-part 3`;
  /** A refusal before anything is touched. @param said what differs */
  async function refused(line: string, said: RegExp, stdin?: string): Promise<void> {
    const before = await state(output);
    expect((await fails(line, 2, said, stdin)).stderr).toContain('--overwrite');
    expect(await state(output)).toEqual(before);
    expect(await hidden()).toEqual([]);
  }

  it('is done when it is asked for again, refused by what differs, and replaced where that is asked for', async () => {
    await done(command);
    expect((await done(`verify ${output}`)).said).toContain('10 traces, 1 reject; nothing found');
    expect(await hidden()).toEqual([]);
    const before = await state(output);
    expect((await done(command)).stderr).toContain(`${output} is already done: 10 traces, 1 reject`);
    expect(await state(output)).toEqual(before);
    await refused(`${command} --max-segments 2`, /another run: --max-segments is .*, here it is 2/);
    const piped = `segment - --no-policy -o ${output}`;
    await refused(piped, /another run|a stream/, await text('traces.jsonl'));
    await done(`${command} --max-segments 2 --overwrite`);
    expect((await state(output))[0]).not.toBe(before[0]);
  });

  it('is refused where its inputs are others, or it was edited, or is nobody of ours', async () => {
    await done(command);
    await write('other.jsonl', (await text('traces.jsonl')).repeat(2));
    await refused(command.replace('traces', 'other'), /of other inputs/);
    const later = new Date(Date.now() + 60_000);
    await fs.utimes(at('traces.jsonl'), later, later);
    await refused(command, /is older than its input: traces\.jsonl/);
    await fs.utimes(at('traces.jsonl'), 1, 1);
    await flip(output);
    await refused(command, /is not the file|no output of a run/);
    expect([2, 65]).toContain((await run(`verify ${output}`)).code);
    await write(output, 'somebody wrote this\n');
    await refused(command, /is no output of a run|is not the file/);
  });

  it('goes on from the parts that a killed run has left, and no other run may', async () => {
    await done(command);
    const whole = await snapshot(folder);
    await fs.rm(at(output));
    const format = /parquet|arrow|jsonl/.exec(output)?.[0];
    await done(`${SEGMENT} --format ${format} -o out/ --rows-per-part 3`);
    await fs.rename(at('out'), at(`.${output}.run`));
    for (const name of await fs.readdir(at(`.${output}.run`)))
      if (name.startsWith('part-00002')) await fs.rm(at(`.${output}.run/${name}`));
    await fails(`${command} --max-segments 2`, 2, /holds another run: in _run\.json, --max-segments/);
    const { said } = await done(command);
    expect(said).toContain('resuming: 3 parts are there');
    expect(await snapshot(folder)).toEqual(whole);
    // of two attempts the counts alone are of both: no figure of one stands among them
    const summary = JSON.parse(await text(`${output}.summary.json`));
    expect(summary).toMatchObject({ traces: 10, rejects: 1 });
    for (const figure of ['seconds', 'tokens_per_s', 'mean_logprob', 'uniform_share'])
      expect(summary).not.toHaveProperty(figure);
  });

  it('counts what was cut off as padding in every attempt', async () => {
    const padded = { prompt_ids: [1, 2], completion_ids: [5, 6, 0, 0], completion: 'a\nb', prompt: 'p' };
    const lines = Array.from({ length: 6 }, () =>
      JSON.stringify({ ...padded, completion_mask: [1, 1, 0, 0] }),
    );
    await write('traces.jsonl', lines.join('\n'));
    const format = /parquet|arrow|jsonl/.exec(output)?.[0];
    await done(`${SEGMENT} --format ${format} -o out/ --rows-per-part 3`);
    await fs.rename(at('out'), at(`.${output}.run`));
    await fs.rm(at(`.${output}.run/part-00001.${format}`));
    expect((await done(`${SEGMENT} -o ${output} --rows-per-part 3`)).said).toContain(
      'padding was cut off 3 traces',
    );
    const summary = JSON.parse(await text(`${output}.summary.json`));
    expect(summary).toMatchObject({ traces: 6, padded_traces: 6, padding_tokens: 12 });
  });

  it('of a stream is written in one go', async () => {
    const stdin = await text('traces.jsonl');
    await done(`segment - --no-policy -o ${output}`, stdin);
    expect((await done(`verify ${output}`)).said).toContain('10 traces, 1 reject; nothing found');
    await refused(`segment - --no-policy -o ${output}`, /whether a stream is what it was made of/, stdin);
    await done(`segment - --no-policy -o ${output} --overwrite`, stdin);
    expect(await hidden()).toEqual([]);
  });
});

it('a stream is not cut into parts', async () => {
  const stdin = await text('traces.jsonl');
  await fails('segment - --no-policy -o out/', 2, /a stream is not cut into parts/, stdin);
});

it('a run has no more parts than names have digits', async () => {
  await write('many.jsonl', `${'{"completion":"x"}\n'.repeat(100_001)}`);
  const why = /make 100001 parts, and a run has at most 100000\n.*--rows-per-part/;
  await fails('segment many.jsonl --no-policy -o out/ --rows-per-part 1', 2, why);
});

it.each(['--baseline value', '--baseline group'])(
  'a limit ends where it ends, whichever parts are there already (%s)',
  async (flags) => {
    // rows of three traces each, and the limit in the middle of one
    const all = (await fixtureRows(0, 8)).map(valued);
    const lists = all.map((row) => ({ ...row, completion: Array(3).fill(row.completion) }));
    await write('lists.jsonl', lists);
    const command = `score lists.jsonl ${GIVEN} --map completion=completion[] ${flags} --limit 14 --rows-per-part 2 --format jsonl -o`;
    await done(`${command} one/`);
    const whole = await snapshot(at('one'));
    expect(Object.keys(whole).filter((name) => name.startsWith('part-'))).toHaveLength(3);
    for (const part of [0, 1, 2]) {
      await fs.rm(at(`one/part-0000${part}.jsonl`));
      await done(`${command} one/`);
      expect(await snapshot(at('one'))).toEqual(whole);
    }
  },
);

describe('what is made of a scored file', () => {
  beforeEach(async () => {
    await write('valued.jsonl', (await fixtureRows(0, 4)).map(valued));
    await done(`score valued.jsonl ${GIVEN} -o scored.parquet`);
  });

  it.each([
    [
      'redistribute scored.parquet -o out.jsonl --sigma rudder',
      '--residual answer',
      /another run: --residual/,
    ],
    ['filter scored.parquet -o out.parquet --where reward>=0', '--where id!=x', /another run/],
  ])('%s is done, refused and replaced alike', async (command, more, said) => {
    const output = command.includes('jsonl') ? 'out.jsonl' : 'out.parquet';
    await done(command);
    const before = await state(output);
    expect((await done(command)).stderr).toContain('is already done');
    await fails(`${command} ${more}`, 2, said);
    expect(await state(output)).toEqual(before);
    await done(`${command} ${more} --overwrite`);
  });
});
