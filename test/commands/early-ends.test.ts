// Runs that are told early, or not made at all: nothing but rejects, and --dry-run.
import { readdir } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { FIXTURES, goodLine } from '../support/program.js';
import { openScene } from '../support/scene.js';

const { done, fails, folder, rows, run, text, write } = await openScene();
/** What lies beside an output. */
const beside = async (name: string) => (await readdir(folder)).filter((each) => each.includes(name)).sort();

beforeAll(async () => {
  const lines = Array.from({ length: 1500 }, (_, n) =>
    goodLine({ prompt: 'p', completion: `c${n}`, answer: undefined, truth: '7' }),
  );
  await write('bare.jsonl', lines.join(''));
  await write('later.jsonl', `${lines.slice(0, 999).join('')}${goodLine()}`);
});

const score = (input: string, more: string) => `score ${input}.jsonl --baseline 0 -o ${more}`;

it('more columns than Parquet files are written with end the run before its first pass', async () => {
  const wide = Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [`c${n}`, n]));
  await write('wide.jsonl', goodLine(wide));
  const { stderr } = await fails(
    score('wide', 'wide.parquet'),
    2,
    /wide\.parquet: 10,0\d\d columns .*written with 10,000 at most/,
  );
  expect(stderr).toContain('--keep <a,b>');
  expect(await beside('wide.parquet')).toEqual([]);
  await done(score('wide', 'wide.parquet --keep c1'));
});

describe('1,000 rejects and no trace', () => {
  it('stop the survey, before anything is written', async () => {
    const { stderr } = await fails(
      score('bare', 'survey.parquet'),
      65,
      /all of the first 1,000 traces were rejected \(no_reference 1,000, first \S*bare\.jsonl:0: /,
    );
    expect(stderr).toContain('try: --map reference=truth;');
    expect(await beside('survey.parquet')).toEqual([]);
  });

  it.each(['many.jsonl', 'folder/'])(
    'stop the run of a stream, which has no survey, and leave the reasons of %s and nothing in the way',
    async (output) => {
      const format = output.endsWith('/') ? ' --format jsonl' : '';
      const name = output.replace('/', '');
      const piped = `score - --baseline 0 -o ${output} --rows-per-chunk 64${format}`;
      await fails(piped, 65, `in ${name}.rejects.jsonl`, await text('bare.jsonl'));
      expect(await beside(name)).toEqual([`${name}.rejects.jsonl`]);
      expect(await rows(`${name}.rejects.jsonl`)).toHaveLength(1000);
      // the mended command
      await done(score('bare', `${output}${format} --limit 2 --map reference=truth`));
    },
  );

  it('leave nothing in the way of workers either', async () => {
    const { stderr } = await fails(
      score('bare', 'shared.jsonl --workers 2 --rows-per-chunk 64'),
      65,
      'all of the first 1,000 traces were rejected (no_reference 1,000, first ',
    );
    expect(stderr).toContain('try: --map reference=truth;');
    expect(await beside('shared.jsonl')).toEqual([]);
  });

  it('do not stop a run with a trace among them, nor one that may reject all', async () => {
    await done(score('later', 'later.jsonl.gz --quiet'));
    const why = 'every one of 1,500 traces was rejected (no_reference 1,500';
    await fails(score('bare', 'all.jsonl --max-rejects 100%'), 65, why);
    expect(await beside('all.jsonl')).toEqual(['all.jsonl.rejects.jsonl']);
  });
});

it('inspect proposes a --map for what a row lacks', async () => {
  const { code, stdout } = await run('inspect bare.jsonl');
  expect([code, stdout]).toEqual([65, expect.stringMatching(/^try +--map reference=truth$/m)]);
});

describe('--dry-run', () => {
  it('tells what a run would do and makes none', async () => {
    const dry = `score ${FIXTURES} --limit 20 --quiet`;
    const { stdout } = await done(`${dry} --dry-run --workers 2`);
    expect(await beside('chains')).toEqual([]);
    await fails(
      score('bare', 'x --format jsonl --dry-run'),
      65,
      'all of the first 1,000 traces were rejected',
    );
    await done(`${dry} -o made.jsonl`);
    const made = await rows('made.jsonl');
    const sum = (of: (row: (typeof made)[0]) => number) => made.reduce((n, row) => n + of(row), 0);
    const tokens = sum(({ completion_ids }) => completion_ids.length);
    const count = (n: number) => String(n).replace(/\B(?=(\d{3})+$)/g, ',');
    expect(stdout).toMatch(/^traces +20, from 512 rows$/m);
    expect(stdout).toContain(
      `${count(tokens)} in completions, ${count(sum(({ prompt_ids }) => prompt_ids.length))} in prompts`,
    );
    const exits = count(sum(({ reference_logprobs }) => reference_logprobs.length));
    expect(stdout).toContain(`exits       ${exits}, with ${exits} branches`);
    expect(stdout).toMatch(/^branch .*⏎<think>⏎.*┃<\/think>⏎answer: ┃ \d⏎$/m);
    expect(stdout).toMatch(/^time +about [\d.]+ (s|min) on cpu, by 1[67] traces that ran$/m);
    expect(stdout).toMatch(/^memory +about [\d,]+ MiB/m);

    // the same as one object, for programs
    const printed = (await done(`${dry} --dry-run --json`)).stdout;
    expect(printed.split('\n')).toHaveLength(2);
    const told = JSON.parse(printed);
    expect(told).toMatchObject({ format: 1, rows: 512, traces: 20, rejects: 0, reject_codes: {} });
    expect(told).toMatchObject({ completion_tokens: tokens, exits: Number(exits), branches: Number(exits) });
    expect(told.seconds).toBeGreaterThan(0);
    expect(told.bytes).toBeGreaterThan(0);
    expect(told.branch.state).toContain('<think>');
    await fails(`score ${FIXTURES} --json`, 2, '--json says how a dry run');
  });

  it.each(['', '--json'])(
    '%s ends with 65 where every row would be rejected, with the cure',
    async (more) => {
      await write('few.jsonl', goodLine({ completion: undefined, text: 'x' }).repeat(3));
      const line = score('few', `x.jsonl --dry-run ${more}`);
      const { stdout, stderr } = await fails(line, 65, 'every one of 3 traces would be rejected (map 3, ');
      expect(stderr).toContain('\n  try: --map completion=');
      if (more === '') expect(stdout).toMatch(/^rejected +3 \(map 3\)$/m);
      else
        expect(JSON.parse(stdout)).toMatchObject({
          ...{ traces: 0, rejects: 3, seconds: null },
          reject_codes: { map: { count: 3, first: expect.stringContaining('few.jsonl:0: ') } },
        });
      expect(await beside('x.jsonl')).toEqual([]);
      // one row that would be scored is a run
      await write('few.jsonl', `${goodLine()}${goodLine({ completion: undefined })}`);
      expect((await done(line)).stderr).toContain(
        '1 of 2 traces were rejected, most of them (1) with map, first ',
      );
    },
  );
});
