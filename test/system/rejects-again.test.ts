// Rejects: the limit, and a mended rejects file given back as input, whose output continues the first one.
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Field, Float64, Int64, List, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { readJsonl, temporaryFolder } from '../support/program.js';

interface Reject {
  readonly file: string;
  readonly row: number;
  readonly byte_offset: number;
  readonly id: string;
  readonly code: string;
  readonly reason: string;
  readonly raw: string;
}

let cwd: string;
beforeAll(async () => {
  cwd = await temporaryFolder();
});

const MAP = ['--map', 'completion=g[].text', '--no-policy', '--quiet', '--max-segments', '3'];
const segment = (inputs: string[], output: string, ...more: string[]) =>
  rredcotHere(['segment', ...inputs, '-o', output, ...MAP, ...more], { cwd });
const write = (name: string, lines: readonly string[]) => writeFile(join(cwd, name), `${lines.join('\n')}\n`);
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
  const rejects = await readJsonl<Reject>(join(cwd, path));
  const right = (await readFile(join(cwd, original), 'utf8')).split('\n');
  await write(
    path,
    rejects.map((reject) => JSON.stringify({ ...reject, raw: right[reject.row] })),
  );
}

describe('a mended rejects file', () => {
  it('gives the rows that were missing, under their own ids, and no other again', async () => {
    await write('x.jsonl', [...BROKEN, named('mine', 'i', '')]);
    await write('right/x.jsonl', []).catch(() => mkdir(join(cwd, 'right')));
    await write('right/x.jsonl', [...MENDED, named('mine', 'i', 'j')]);
    expect((await segment(['x.jsonl'], 'first.jsonl')).code).toBe(0);
    const rejects = await readJsonl<Reject>(join(cwd, 'first.jsonl.rejects.jsonl'));
    expect(rejects.map(({ id, code }) => [id, code])).toEqual([
      ['x:1/1', 'map'],
      ['x:1/2', 'empty_completion'],
      ['x:2', 'json'],
      ['x:4', 'map'],
      ['mine/1', 'empty_completion'],
    ]);
    await mend('first.jsonl.rejects.jsonl', 'right/x.jsonl');
    const again = await segment(['first.jsonl.rejects.jsonl'], 'second.jsonl');
    expect(again.code, again.stderr).toBe(0);
    expect((await segment(['right/x.jsonl'], 'whole.jsonl')).code).toBe(0);
    // the row's own columns pass through as they were read each time
    const read = async (name: string) =>
      (
        await readJsonl<{ id: string; source_file: string; source_row: number; g: unknown }>(join(cwd, name))
      ).map(({ g: _, source_file: file, ...traced }) => ({ ...traced, file: basename(file) }));
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
    await writeFile(join(cwd, 'infinite.arrow'), tableToIPC(table, 'file'));
    const flags = ['--no-policy', '--quiet'];
    const cut = async (input: string, output: string) => {
      await rredcotHere(['segment', input, '-o', output, ...flags], { cwd });
      return readJsonl<Reject>(join(cwd, `${output}.rejects.jsonl`));
    };
    const rejects = await cut('infinite.arrow', 'infinite.jsonl');
    expect(rejects.map(({ row, code, raw }) => [row, code, raw])).toEqual([
      [1, 'reward', '{"completion":"b","reward":Infinity,"more":[1152921504606846976]}'],
      [2, 'reward', '{"completion":"c","reward":-Infinity,"more":[]}'],
    ]);
    expect(await readJsonl(join(cwd, 'infinite.jsonl'))).toHaveLength(2);
    expect(await cut('infinite.jsonl.rejects.jsonl', 'again.jsonl')).toEqual(rejects);
  });

  it('of two inputs with one name keeps them apart', async () => {
    for (const folder of ['d1', 'd2']) {
      await mkdir(join(cwd, folder));
      await write(`${folder}/y.jsonl`, ['{', row('a', 'b')]);
    }
    expect((await segment(['d1/y.jsonl', 'd2/y.jsonl'], 'two.jsonl')).code).toBe(0);
    const rejects = await readJsonl<Reject>(join(cwd, 'two.jsonl.rejects.jsonl'));
    await write(
      'mended.jsonl',
      rejects.map((reject) => JSON.stringify({ ...reject, raw: row('z') })),
    );
    expect((await segment(['mended.jsonl'], 'two-more.jsonl')).code).toBe(0);
    const ids = (await readJsonl<{ id: string; group: string }>(join(cwd, 'two-more.jsonl'))).map(
      (r) => r.id,
    );
    expect(ids).toEqual(['d1/y:0/0', 'd2/y:0/0']);
  });

  it('that is not mended is rejected again, with its first place', async () => {
    await write('z.jsonl', ['[1]', row('a'), '{"g": 7}', 'no json']);
    expect((await segment(['z.jsonl'], 'z1.jsonl')).code).toBe(0);
    const first = await readJsonl<Reject>(join(cwd, 'z1.jsonl.rejects.jsonl'));
    // one good row, for a file of nothing but rejects is an error
    await write('z-again.jsonl', [...first.map((reject) => JSON.stringify(reject)), row('b')]);
    expect((await segment(['z-again.jsonl'], 'z2.jsonl')).code).toBe(0);
    const second = await readJsonl<Reject>(join(cwd, 'z2.jsonl.rejects.jsonl'));
    const place = ({ file, row, byte_offset, id, raw }: Reject) => ({ file, row, byte_offset, id, raw });
    expect(second.map(place)).toEqual(first.map(place));
    expect(second.map(({ reason }) => reason)).toEqual([
      'raw holds no JSON object',
      expect.stringMatching(/^completion: g\[\]/),
      expect.stringMatching(/^raw is not JSON/),
    ]);
  });

  it('is known by all its keys and their types: another row is a row', async () => {
    const reject = {
      file: 'a',
      row: 0,
      byte_offset: 0,
      id: 'a:0',
      code: 'json',
      reason: '',
      raw: row('inner'),
    };
    const { code: _, ...less } = reject;
    const others = [{ ...reject, more: 1 }, less, { ...reject, row: -1 }, { ...reject, raw: {} }];
    await write(
      'similar.jsonl',
      [...others, reject].map((columns) => JSON.stringify({ ...columns })),
    );
    const run = await rredcotHere(
      ['segment', 'similar.jsonl', '-o', 'similar-out.jsonl', '--no-policy', '--map', 'completion=file'],
      { cwd },
    );
    expect(run.code, run.stderr).toBe(0);
    expect(await readJsonl(join(cwd, 'similar-out.jsonl'))).toHaveLength(4);
    const [only] = await readJsonl<Reject>(join(cwd, 'similar-out.jsonl.rejects.jsonl'));
    expect(only).toMatchObject({ code: 'map', raw: row('inner') });
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
    const run = await segment(['limit.jsonl'], output, '--max-rejects', limit);
    expect(run.code, run.stderr).toBe(code);
    const rejects = await readJsonl<Reject>(join(cwd, `${output}.rejects.jsonl`));
    expect(rejects.length).toBeGreaterThan(0);
    if (code !== 0) {
      expect(run.stderr).toMatch(
        new RegExp(`--max-rejects allows ${limit.replace('%', ' %')}.*rejects\\.jsonl`),
      );
      expect(await readFile(join(cwd, output)).catch(() => null)).toBeNull();
    }
  });

  // row 1 has two rejects, rows 2 and 4 one each
  it.each([
    ['0', ''],
    ['40%', ''],
    ['40%', '0/2'],
    ['40%', '--workers=2'],
  ])(
    '%s in a folder (%s): exit 65, the reasons stay, and a higher limit ends the run',
    async (limit, how) => {
      await write('limit.jsonl', BROKEN);
      const output = `limit-${limit.replace('%', 'p')}-${how.replace(/\W/g, '')}/`;
      const flags = how.startsWith('--') ? [how] : how === '' ? [] : ['--shard', how];
      const first = await segment(['limit.jsonl'], output, '--max-rejects', limit, ...flags);
      expect(first.code, first.stderr).toBe(65);
      expect(first.stderr).toMatch(
        /--max-rejects allows \d+ ?%?; the reasons are in limit-\w+-\w*\/rejects\n.*raise/,
      );
      const names = await readdir(join(cwd, output, 'rejects'), { recursive: true });
      expect(names.filter((name) => name.endsWith('.jsonl'))).not.toEqual([]);
      const second = await segment(['limit.jsonl'], output, '--max-rejects', '90%', ...flags);
      expect(second.code, second.stderr).toBe(0);
    },
  );

  it.each([
    ['3', 65],
    ['44%', 65],
    ['4', 0],
  ])('%s of a folder that is done: exit %i, and nothing is touched', async (limit, code) => {
    await write('limit.jsonl', BROKEN);
    const output = `done-${limit.replace('%', 'p')}/`;
    const first = await segment(['limit.jsonl'], output);
    expect(first.code, first.stderr).toBe(0);
    const second = await segment(['limit.jsonl'], output, '--max-rejects', limit);
    expect(second.code, second.stderr).toBe(code);
    expect(second.stderr).toMatch(
      code === 0 ? /^$/ : /rejected, --max-rejects allows .*; the reasons are in done-\w+\/rejects/,
    );
    expect(await readdir(join(cwd, output))).toContain('_SUCCESS');
  });

  it('puts the reasons beside a folder where every trace was rejected', async () => {
    await write('none.jsonl', BROKEN.slice(-1));
    const { code, stderr } = await segment(['none.jsonl'], 'none/');
    expect([code, stderr]).toEqual([65, expect.stringContaining('the reasons, in none.rejects.jsonl')]);
    expect(await readJsonl(join(cwd, 'none.rejects.jsonl'))).toHaveLength(1);
    expect(existsSync(join(cwd, 'none'))).toBe(false);
  });
});
