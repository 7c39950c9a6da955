// Rejects: the limit, and a mended rejects file given back as input, whose output continues the first one.
import { existsSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { basename } from 'node:path';
import { Field, Float64, Int64, List, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { openScene } from '../support/scene.js';

interface Reject {
  readonly file: string;
  readonly row: number;
  readonly byte_offset: number;
  readonly id: string;
  readonly code: string;
  readonly reason: string;
  readonly raw: string;
}

const { at, done, fails, rows: readRows, run, text, write: writeText } = await openScene();
const lineOf = (inputs: string, output: string) =>
  `segment ${inputs} -o ${output} --map completion=g[].text --no-policy --quiet --max-segments 3`;
const segment = (inputs: string, output: string, more = '') => done(`${lineOf(inputs, output)} ${more}`);
const write = (name: string, lines: readonly string[]) => writeText(name, `${lines.join('\n')}\n`);
const rejectsOf = (output: string) => readRows<Reject>(`${output}.rejects.jsonl`);
const row = (...texts: (string | null)[]) => JSON.stringify({ g: texts.map((text) => ({ text })), p: 'ü' });
const named = (id: string, ...texts: string[]) => JSON.stringify({ id, g: texts.map((text) => ({ text })) });

/** What is wrong in the lines of a file, and what the user makes of it. */
const BROKEN = [row('a\nb', 'c'), row('d', null, ''), '{"g": [{"text": "e"}, {"text": "f"}', row('g'), '{}'];
const MENDED = [
  row('a\nb', 'c'),
  row('d', 'D', 'DD'),
  '{"g": [{"text": "e"}, {"text": "f"}]}',
  row('g'),
  row('h'),
];

async function mend(path: string, original: string): Promise<void> {
  const right = (await text(original)).split('\n');
  const rejects = await readRows<Reject>(path);
  await writeText(
    path,
    rejects.map((reject) => ({ ...reject, raw: right[reject.row] })),
  );
}

describe('a mended rejects file', () => {
  it('gives the rows that were missing, under their own ids, and no other again', async () => {
    await write('x.jsonl', [...BROKEN, named('mine', 'i', '')]);
    await mkdir(at('right'));
    await write('right/x.jsonl', [...MENDED, named('mine', 'i', 'j')]);
    await segment('x.jsonl', 'first.jsonl');
    expect((await rejectsOf('first.jsonl')).map(({ id, code }) => [id, code])).toEqual([
      ['x:1/1', 'map'],
      ['x:1/2', 'empty_completion'],
      ['x:2', 'json'],
      ['x:4', 'map'],
      ['mine/1', 'empty_completion'],
    ]);
    await mend('first.jsonl.rejects.jsonl', 'right/x.jsonl');
    await segment('first.jsonl.rejects.jsonl', 'second.jsonl');
    await segment('right/x.jsonl', 'whole.jsonl');
    // the row's own columns pass through as they were read each time
    const read = async (name: string) =>
      (await readRows<{ id: string; source_file: string; source_row: number; g: unknown }>(name)).map(
        ({ g: _, source_file: file, ...traced }) => ({ ...traced, file: basename(file) }),
      );
    const both = [...(await read('first.jsonl')), ...(await read('second.jsonl'))];
    both.sort((a, b) => a.source_row - b.source_row || (a.id < b.id ? -1 : 1));
    expect(both).toEqual(await read('whole.jsonl'));
    expect(both).toHaveLength(11);
  });

  it('of a columnar input keeps the numbers that JSON lacks: an infinite reward is not a missing one', async () => {
    const table = new Table({
      completion: vectorFromArray(['a', 'b', 'c', 'd'], new Utf8()),
      // NaN is how pandas writes a missing value
      reward: vectorFromArray(
        [1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN],
        new Float64(),
      ),
      more: vectorFromArray([[1n], [2n ** 60n], [], []], new List(new Field('item', new Int64(), true))),
    });
    await writeText('infinite.arrow', tableToIPC(table, 'file'));
    const cut = async (input: string, output: string) => {
      await run(`segment ${input} -o ${output} --no-policy --quiet`);
      return rejectsOf(output);
    };
    const rejects = await cut('infinite.arrow', 'infinite.jsonl');
    expect(rejects.map(({ row, code, raw }) => [row, code, raw])).toEqual([
      [1, 'reward', '{"completion":"b","reward":Infinity,"more":[1152921504606846976]}'],
      [2, 'reward', '{"completion":"c","reward":-Infinity,"more":[]}'],
    ]);
    expect(await readRows('infinite.jsonl')).toHaveLength(2);
    expect(await cut('infinite.jsonl.rejects.jsonl', 'again.jsonl')).toEqual(rejects);
  });

  it('of two inputs with one name keeps them apart', async () => {
    for (const folder of ['d1', 'd2']) {
      await mkdir(at(folder));
      await write(`${folder}/y.jsonl`, ['{', row('a', 'b')]);
    }
    await segment('d1/y.jsonl d2/y.jsonl', 'two.jsonl');
    const rejects = await rejectsOf('two.jsonl');
    await writeText(
      'mended.jsonl',
      rejects.map((reject) => ({ ...reject, raw: row('z') })),
    );
    await segment('mended.jsonl', 'two-more.jsonl');
    expect((await readRows('two-more.jsonl')).map(({ id }) => id)).toEqual(['d1/y:0/0', 'd2/y:0/0']);
  });

  it('that is not mended is rejected again, with its first place', async () => {
    await write('z.jsonl', ['[1]', row('a'), '{"g": 7}', 'no json']);
    await segment('z.jsonl', 'z1.jsonl');
    const first = await rejectsOf('z1.jsonl');
    // one good row, for a file of nothing but rejects is an error
    await write('z-again.jsonl', [...first.map((reject) => JSON.stringify(reject)), row('b')]);
    await segment('z-again.jsonl', 'z2.jsonl');
    const second = await rejectsOf('z2.jsonl');
    const place = ({ file, row, byte_offset, id, raw }: Reject) => ({ file, row, byte_offset, id, raw });
    expect(second.map(place)).toEqual(first.map(place));
    expect(second.map(({ reason }) => reason)).toEqual([
      'raw holds no JSON object',
      expect.stringMatching(/^completion: g\[\]/),
      expect.stringMatching(/^raw is not JSON/),
    ]);
  });

  it('is known by all its keys and their types: another row is a row', async () => {
    const place = { file: 'a', row: 0, byte_offset: 0 };
    const reject = { ...place, id: 'a:0', code: 'json', reason: '', raw: row('inner') };
    const { code: _, ...less } = reject;
    const others = [{ ...reject, more: 1 }, less, { ...reject, row: -1 }, { ...reject, raw: {} }];
    await writeText('similar.jsonl', [...others, reject]);
    await done('segment similar.jsonl -o similar-out.jsonl --no-policy --map completion=file');
    expect(await readRows('similar-out.jsonl')).toHaveLength(4);
    expect((await rejectsOf('similar-out.jsonl'))[0]).toMatchObject({ code: 'map', raw: row('inner') });
  });
});

describe('--max-rejects', () => {
  it.each([
    ['4', 0],
    ['3', 65],
    ['45%', 0],
    ['44%', 65],
    ['0', 65],
  ])('%s of 4 in 9 traces: exit %i', async (limit, code) => {
    await write('limit.jsonl', [...BROKEN.slice(0, 4), ...BROKEN.slice(3)]);
    const output = `limit-${limit.replace('%', 'p')}.jsonl`;
    const made = await run(`${lineOf('limit.jsonl', output)} --max-rejects ${limit}`);
    expect(made.code, made.stderr).toBe(code);
    expect((await rejectsOf(output)).length).toBeGreaterThan(0);
    if (code === 0) return;
    expect(made.stderr).toMatch(
      new RegExp(`--max-rejects allows ${limit.replace('%', ' %')}.*rejects\\.jsonl`),
    );
    expect(existsSync(at(output))).toBe(false);
  });

  // row 1 has two rejects, rows 2 and 4 one each
  it.each([
    ['0', ''],
    ['40%', ''],
    ['40%', '--shard 0/2'],
  ])(
    '%s in a folder (%s): exit 65, the reasons stay, and a higher limit ends the run',
    async (limit, how) => {
      await write('limit.jsonl', BROKEN);
      const output = `limit-${limit.replace('%', 'p')}-${how.replace(/\W/g, '')}/`;
      const line = `${lineOf('limit.jsonl', output)} ${how}`;
      const why = /--max-rejects allows \d+ ?%?; the reasons are in limit-\w+-\w*\/rejects\n.*raise/;
      await fails(`${line} --max-rejects ${limit}`, 65, why);
      const names = await readdir(at(`${output}rejects`), { recursive: true });
      expect(names.filter((name) => name.endsWith('.jsonl'))).not.toEqual([]);
      await done(`${line} --max-rejects 90%`);
    },
  );

  it.each([
    ['3', 65],
    ['44%', 65],
    ['4', 0],
  ])('%s of a folder that is done: exit %i, and nothing is touched', async (limit, code) => {
    await write('limit.jsonl', BROKEN);
    const output = `done-${limit.replace('%', 'p')}/`;
    await segment('limit.jsonl', output);
    const why = /rejected, --max-rejects allows .*; the reasons are in done-\w+\/rejects/;
    await fails(`${lineOf('limit.jsonl', output)} --max-rejects ${limit}`, code, code === 0 ? /^$/ : why);
    expect(await readdir(at(output))).toContain('_run.json');
  });

  it('puts the reasons beside a folder where every trace was rejected', async () => {
    await write('none.jsonl', BROKEN.slice(-1));
    await fails(lineOf('none.jsonl', 'none/'), 65, 'the reasons, in none.rejects.jsonl');
    expect(await rejectsOf('none')).toHaveLength(1);
    expect(existsSync(at('none'))).toBe(false);
  });
});
