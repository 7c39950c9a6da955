// A scored file is enough by itself: texts, the place in a list, and the columns of the input and of a joined file that are asked for.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { inputMetadata, readRows, resolveInputs } from '../../dist/io/read/inputs.js';
import { TEXT_KEY } from '../../dist/io/write/output.js';
import { rredcotHere } from '../support/in-process.js';
import { collect } from '../support/io-helpers.js';
import { ROOT, readJsonl, temporaryFolder } from '../support/program.js';

const DUMPS = join(ROOT, 'test/io/map/dumps');

type Row = Readonly<Record<string, unknown>>;

async function rowsOf(path: string): Promise<{ rows: Row[]; texts: Record<string, string> }> {
  const inputs = await resolveInputs([path]);
  const metadata = await inputMetadata(inputs[0] as (typeof inputs)[0]);
  const rows = (await collect(readRows(inputs))).map((row) => (row.kind === 'row' ? row.columns : {}));
  return { rows, texts: JSON.parse(metadata.get(TEXT_KEY) ?? '{}') };
}

let folder: string;
let input: string;
const traces = [
  {
    q: 'start 3: a+4 top?\n',
    r: [{ t: '<think>\na\n</think>\nanswer: 7\n' }, { t: 'answer: 1\n' }],
    a: '7',
    x: 1,
  },
  { q: 'start 4: a+4 top?\n', r: [{ t: 'other' }], a: '8', x: 2 },
];
const MAP = ['--map', 'prompt=q,completion=r[].t,reference=a'];

beforeAll(async () => {
  folder = await temporaryFolder();
  input = join(folder, 'lists.jsonl');
  await writeFile(input, traces.map((row) => `${JSON.stringify(row)}\n`).join(''));
});

async function written(command: string, name: string, ...args: string[]) {
  const output = join(folder, name);
  const run = await rredcotHere([command, input, '--quiet', '-o', output, ...MAP, ...args]);
  expect(run.code, run.stderr).toBe(0);
  return rowsOf(output);
}
const segmented = (name: string, ...args: string[]) => written('segment', name, '--no-policy', ...args);
const refused = async (...args: string[]) => {
  const output = join(folder, 'refused.parquet');
  const run = await rredcotHere(['segment', input, '--no-policy', '-o', output, ...MAP, ...args]);
  expect(run.code).toBe(2);
  return run.stderr;
};

describe('texts', () => {
  it('are written where no column holds them, with the item of the list; inspect draws them', async () => {
    const { rows, texts } = await written('score', 'auto.parquet', '--baseline', '0');
    expect(texts).toEqual({ prompt: 'q', completion: 'completion' });
    const found = rows.map((row) => [row.completion, row.source_item, Number(row.source_row)]);
    expect(found).toEqual([
      [traces[0]?.r[0]?.t, 0, 0],
      [traces[0]?.r[1]?.t, 1, 0],
      ['other', 0, 1],
    ]);
    expect(rows[0]).not.toHaveProperty('prompt');
    const second = await rredcotHere(['inspect', join(folder, 'auto.parquet'), '--row', 'lists:0/1']);
    expect(second.stdout).toContain('answer: 1');
    expect(second.stdout).not.toContain('answer: 7');
  });

  it('of ids alone are what the ids spell', async () => {
    const ids = (text: string) => [...Buffer.from(text)];
    const path = join(folder, 'ids.jsonl');
    const row = {
      prompt_ids: ids('start 3?\n'),
      completion_ids: ids('so é\nanswer: 7\n'),
      reward: 1,
      answer: '7',
    };
    await writeFile(path, `${JSON.stringify(row)}\n`);
    const output = join(folder, 'ids.jsonl.gz');
    expect((await rredcotHere(['score', path, '--quiet', '-o', output])).code).toBe(0);
    const { rows } = await rowsOf(output);
    expect(rows[0]).toMatchObject({
      prompt: 'start 3?\n',
      completion: 'so é\nanswer: 7\n',
      source_item: null,
    });
    expect((await rredcotHere(['inspect', output])).stdout).toContain('so é\n');
  });

  it('--text writes both under their own names, --no-text neither, --columns what it says', async () => {
    const forced = await written('score', 'text.parquet', '--text');
    expect(forced.texts).toEqual({ prompt: 'prompt', completion: 'completion' });
    expect(forced.rows[0]?.prompt).toBe(traces[0]?.q);
    const never = await segmented('no-text.parquet', '--no-text');
    expect(never.texts).toEqual({ prompt: 'q' });
    expect(never.rows[0]).not.toHaveProperty('completion');
    const chosen = await segmented('columns.parquet', '--columns', 'id,completion');
    expect(Object.keys(chosen.rows[0] as Row)).toEqual(['q', 'r', 'a', 'x', 'id', 'completion']);
    expect(await refused('--text', '--columns', 'id')).toContain('--columns says which');
  });
});

describe('columns of the input', () => {
  it('are chosen by --drop and --keep, in files with types and without', async () => {
    for (const extension of ['parquet', 'jsonl']) {
      const dropped = await segmented(`drop.${extension}`, '--drop', 'r,q', '--columns', 'id');
      expect(Object.keys(dropped.rows[0] as Row)).toEqual(['a', 'x', 'id']);
      const kept = await segmented(`keep.${extension}`, '--keep', 'x', '--columns', 'id');
      expect(Object.keys(kept.rows[0] as Row)).toEqual(['x', 'id']);
    }
  });

  it('that are dropped hold no text any more', async () => {
    const plain = join(folder, 'plain.jsonl');
    await writeFile(plain, '{"completion": "one"}\n');
    const output = join(folder, 'dropped.parquet');
    const run = await rredcotHere(['segment', plain, '--no-policy', '--drop', 'completion', '-o', output]);
    expect(run.code, run.stderr).toBe(0);
    const { rows, texts } = await rowsOf(output);
    expect(Object.keys(rows[0] as Row)).toEqual([
      'id',
      'group',
      'completion',
      'segments',
      'source_file',
      'source_row',
      'source_item',
      'status',
    ]);
    expect([texts.completion, rows[0]?.completion]).toEqual(['completion', 'one']);
  });

  it('that are not there are refused, and two lists at once', async () => {
    expect(await refused('--drop', 'x,Q')).toMatch(
      /--drop Q: the input has no such column .*\n {2}try: --drop q\n/,
    );
    expect(await refused('--drop', 'q', '--keep', 'a')).toContain('--keep and --drop both');
  });
});

describe('--join-columns', () => {
  const dump = join(DUMPS, 'verl-parquet');
  const join_ = ['--join', `${dump}.join.jsonl`, '--join-columns'];

  it('writes columns of the joined file, the prompt as messages among them', async () => {
    const [first] = await readJsonl<Row>(`${dump}.join.jsonl`);
    for (const extension of ['parquet', 'jsonl']) {
      const output = join(folder, `joined.${extension}`);
      const args = ['--no-policy', '-o', output, ...join_, 'prompt,data_source,extra_info'];
      const run = await rredcotHere(['segment', `${dump}.jsonl`, ...args]);
      expect(run.code, run.stderr).toBe(0);
      const { rows } = await rowsOf(output);
      const { prompt, data_source, extra_info } = first as Row;
      expect(rows[0]).toMatchObject({ prompt, data_source });
      expect(JSON.parse(JSON.stringify(rows[0]?.extra_info))).toEqual(extra_info);
    }
  });

  it('gives another name to a column whose name is taken, and refuses one that is not there', async () => {
    const output = join(folder, 'taken.jsonl');
    const gold = join(folder, 'gold.jsonl');
    await writeFile(
      gold,
      traces.map(({ q, a }) => `${JSON.stringify({ q, a: `${a}!`, status: 'mine' })}\n`).join(''),
    );
    const joined = ['--join', gold, '--join-on', 'q', '--join-columns'];
    for (const format of ['jsonl', 'parquet']) {
      const { rows } = await segmented(`taken.${format}`, ...joined, 'a,status');
      expect(rows[0], output).toMatchObject({
        a: '7',
        join_a: '7!',
        status: 'segments:by-length',
        join_status: 'mine',
      });
    }
    expect(await refused(...joined, 'stats')).toContain('try: --join-columns status');
  });
});

describe('a file that was scored already', () => {
  it.each(['parquet', 'jsonl'])('is told in one line, with what to do: %s', async (form) => {
    const scored = join(folder, `once.${form}`);
    await written('score', `once.${form}`, '--baseline', '0');
    const again = async (...flags: string[]) => {
      const output = join(folder, `twice.${form}`);
      const args = [
        scored,
        '--map',
        'reference=a',
        '--sigma',
        'uniform',
        '--overwrite',
        '-o',
        output,
        ...flags,
      ];
      const run = await rredcotHere(['score', ...args]);
      expect(run.code, run.stderr).toBe(0);
      return run.stderr
        .split('\n')
        .filter((line) => /^WARN: .*(scored already|name of an output)/.test(line));
    };
    const [told, ...more] = await again();
    expect(more).toEqual([]);
    expect(told).toContain(`once.${form}: was scored already: rredcot redistribute ${scored} gives another`);
    const [, columns] = /kept as input_<name>, without it: --drop ([a-z_,]+)$/.exec(told as string) ?? [];
    expect(columns?.split(',')).toEqual(expect.arrayContaining(['sigma', 'segments', 'logprobs', 'status']));
    const kept = await rowsOf(join(folder, `twice.${form}`));
    expect(kept.rows[0]).toHaveProperty('input_sigma');
    expect(await again('--drop', columns as string)).toEqual([]);
    const { rows } = await rowsOf(join(folder, `twice.${form}`));
    expect(Object.keys(rows[0] as Row).filter((name) => name.startsWith('input_'))).toEqual([]);
  });
});
