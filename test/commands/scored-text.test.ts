// A scored file is enough by itself: texts, the place in a list, and the columns of the input and of a joined file that are asked for.
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readOutput } from '../support/io-helpers.js';
import { ROOT, readJsonl } from '../support/program.js';
import { fixtureRows, GIVEN, openScene, valued } from '../support/scene.js';

type Row = Readonly<Record<string, unknown>>;

const { at, done, fails, run, write } = await openScene();
const own = ['<think>\na\n</think>\nanswer: 7\n', 'answer: 1\n'].map((t) => ({ t }));
const traces = [
  { q: 'start 3: a+4 top?\n', r: own, a: '7', x: 1 },
  { q: 'start 4: a+4 top?\n', r: [{ t: 'other' }], a: '8', x: 2 },
];
const MAP = '--map prompt=q,completion=r[].t,reference=a';

beforeAll(async () => {
  await write('lists.jsonl', traces);
});

const written = async (command: string, name: string, flags = '') => {
  await done(`${command} lists.jsonl --quiet -o ${name} ${MAP} ${flags}`);
  return readOutput(at(name));
};
const segmented = (name: string, flags = '') => written('segment --no-policy', name, flags);
const refused = (flags: string, why: string | RegExp) =>
  fails(`segment lists.jsonl --no-policy -o refused.parquet ${MAP} ${flags}`, 2, why);

describe('texts', () => {
  it('are written where no column holds them, with the item of the list; inspect draws them', async () => {
    const { rows, texts } = await written('score', 'auto.parquet', '--baseline 0');
    expect(texts).toEqual({ prompt: 'q', completion: 'completion' });
    const found = rows.map((row) => [row.completion, row.source_item, Number(row.source_row)]);
    expect(found).toEqual([
      [traces[0]?.r[0]?.t, 0, 0],
      [traces[0]?.r[1]?.t, 1, 0],
      ['other', 0, 1],
    ]);
    expect(rows[0]).not.toHaveProperty('prompt');
    const second = await run('inspect auto.parquet --row lists:0/1');
    expect(second.stdout).toContain('answer: 1');
    expect(second.stdout).not.toContain('answer: 7');
  });

  it('of ids alone are what the ids spell', async () => {
    const ids = (text: string) => [...Buffer.from(text)];
    const completion = 'so é\nanswer: 7\n';
    const own = { prompt_ids: ids('start 3?\n'), completion_ids: ids(completion) };
    await write('ids.jsonl', [{ ...own, reward: 1, answer: '7' }]);
    await done('score ids.jsonl --quiet -o spelt.jsonl');
    const { rows } = await readOutput(at('spelt.jsonl'));
    expect(rows[0]).toMatchObject({ prompt: 'start 3?\n', completion, source_item: null });
    expect((await run('inspect spelt.jsonl')).stdout).toContain('so é\n');
  });

  it('are written under their own names by --columns, which writes what it says', async () => {
    const forced = await written('score', 'text.parquet', '--columns id,prompt,completion');
    expect(forced.texts).toEqual({ prompt: 'prompt', completion: 'completion' });
    expect(forced.rows[0]?.prompt).toBe(traces[0]?.q);
    const chosen = await segmented('columns.parquet', '--columns id,completion');
    expect(Object.keys(chosen.rows[0] as Row)).toEqual(['q', 'r', 'a', 'x', 'id', 'completion']);
  });
});

describe('columns of the input', () => {
  it('are left out by --drop, in files with types and without', async () => {
    for (const extension of ['parquet', 'jsonl']) {
      const dropped = await segmented(`drop.${extension}`, '--drop r,q --columns id');
      expect(Object.keys(dropped.rows[0] as Row)).toEqual(['a', 'x', 'id']);
    }
  });

  it('that are dropped hold no text any more', async () => {
    await write('plain.jsonl', '{"completion": "one"}\n');
    await done('segment plain.jsonl --no-policy --drop completion -o dropped.parquet');
    const { rows, texts } = await readOutput(at('dropped.parquet'));
    expect(Object.keys(rows[0] as Row)).toEqual([
      ...['id', 'group', 'completion', 'segments', 'source_file', 'source_row', 'source_item', 'status'],
    ]);
    expect([texts.completion, rows[0]?.completion]).toEqual(['completion', 'one']);
  });

  it('that are not there are refused', async () => {
    await refused('--drop x,Q', /--drop Q: the input has no such column .*\n {2}try: --drop q\n/);
  });
});

describe('--join-columns', () => {
  it('writes columns of the joined file, the prompt as messages among them', async () => {
    const dump = join(ROOT, 'test/io/map/dumps/verl-parquet');
    const [first] = await readJsonl<Row>(`${dump}.join.jsonl`);
    const { prompt, data_source, extra_info } = first as Row;
    for (const name of ['joined.parquet', 'joined.jsonl']) {
      const columns = `--join ${dump}.join.jsonl --join-columns prompt,data_source,extra_info`;
      await done(`segment ${dump}.jsonl --no-policy -o ${name} ${columns}`);
      const { rows } = await readOutput(at(name));
      expect(rows[0]).toMatchObject({ prompt, data_source });
      expect(JSON.parse(JSON.stringify(rows[0]?.extra_info))).toEqual(extra_info);
    }
  });

  it('gives another name to a column whose name is taken, and refuses one that is not there', async () => {
    const gold = traces.map(({ q, a }) => ({ q, a: `${a}!`, status: 'mine' }));
    await write('gold.jsonl', gold);
    const joined = '--join gold.jsonl --join-on q --join-columns';
    for (const format of ['jsonl', 'parquet']) {
      const { rows } = await segmented(`taken.${format}`, `${joined} a,status`);
      expect(rows[0], format).toMatchObject({
        ...{ a: '7', join_a: '7!', status: 'segments:by-length', join_status: 'mine' },
      });
    }
    await refused(`${joined} stats`, 'try: --join-columns status');
  });
});

it.each(['parquet', 'jsonl'])('a file that was scored already is told in one line: %s', async (form) => {
  await write('valued.jsonl', (await fixtureRows(0, 2)).map(valued));
  await done(`score valued.jsonl ${GIVEN} -o once.${form} --baseline 0`);
  const again = async (flags = '') => {
    const score = `score once.${form} ${GIVEN} --map reference=answer --sigma uniform --overwrite`;
    const { stderr } = await done(`${score} -o twice.${form} ${flags}`);
    return stderr.split('\n').filter((line) => /^WARN: .*(scored already|name of an output)/.test(line));
  };
  const columnsOf = async () => Object.keys((await readOutput(at(`twice.${form}`))).rows[0] as Row);
  const [told, ...more] = await again();
  expect(more).toEqual([]);
  expect(told).toContain('was scored already: rredcot redistribute gives another');
  const made = (await columnsOf()).filter((name) => name.startsWith('input_'));
  expect(made).toContain('input_sigma');
  expect(await again(`--drop ${made.map((name) => name.replace('input_', ''))}`)).toEqual([]);
  expect((await columnsOf()).filter((name) => name.startsWith('input_'))).toEqual([]);
});
