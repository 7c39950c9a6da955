// Rejects: the limit, and the numbers that JSON lacks.
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { Field, Float64, Int64, List, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { openScene } from '../support/scene.js';

const { at, done, fails, rows: readRows, run, write: writeText } = await openScene();
const lineOf = (inputs: string, output: string) =>
  `segment ${inputs} -o ${output} --map completion=g[].text --no-policy --quiet --max-segments 3`;
const segment = (inputs: string, output: string, more = '') => done(`${lineOf(inputs, output)} ${more}`);
const write = (name: string, lines: readonly string[]) => writeText(name, `${lines.join('\n')}\n`);
const rejectsOf = (output: string) =>
  readRows<Record<'row' | 'code' | 'raw', unknown>>(`${output}.rejects.jsonl`);
const row = (...texts: (string | null)[]) => JSON.stringify({ g: texts.map((text) => ({ text })), p: 'ü' });

/** What is wrong in the lines of a file. */
const BROKEN = [row('a\nb', 'c'), row('d', null, ''), '{"g": [{"text": "e"}, {"text": "f"}', row('g'), '{}'];
it('a reject of a columnar input keeps the numbers that JSON lacks: an infinite reward is not a missing one', async () => {
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
  ])('%s in a folder (%s): exit 65, the reasons stay, a higher limit ends the run', async (limit, how) => {
    await write('limit.jsonl', BROKEN);
    const output = `limit-${limit.replace('%', 'p')}-${how.replace(/\W/g, '')}/`;
    const line = `${lineOf('limit.jsonl', output)} ${how}`;
    const why = /--max-rejects allows \d+ ?%?; the reasons are in limit-\w+-\w*\/rejects\n.*raise/;
    await fails(`${line} --max-rejects ${limit}`, 65, why);
    const names = await readdir(at(`${output}rejects`), { recursive: true });
    expect(names.filter((name) => name.endsWith('.jsonl'))).not.toEqual([]);
    await done(`${line} --max-rejects 90%`);
  });

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
