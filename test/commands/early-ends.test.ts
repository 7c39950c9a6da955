// Runs that are told early, or not made at all: nothing but rejects, and --dry-run; the summary of one that was made.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, goodLine, readJsonl, temporaryFolder } from '../support/program.js';

let folder: string;
const at = (name: string) => join(folder, name);
/** What lies beside an output. */
const beside = async (name: string) => (await readdir(folder)).filter((each) => each.includes(name)).sort();

beforeAll(async () => {
  folder = await temporaryFolder();
  const bare = (n: number) =>
    `${JSON.stringify({ prompt: 'p', completion: `c${n}`, reward: 1, truth: '7' })}\n`;
  const lines = Array.from({ length: 1500 }, (_, n) => bare(n));
  await writeFile(at('bare.jsonl'), lines.join(''));
  await writeFile(at('later.jsonl'), `${lines.slice(0, 999).join('')}${goodLine()}`);
});

const FLAGS = ['--baseline', '0'];
const score = (input: string, output: string, ...args: string[]) =>
  rredcotHere(['score', at(input), '-o', at(output), ...FLAGS, ...args]);

it('more columns than Parquet files are written with end the run before its first pass', async () => {
  const wide = Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [`c${n}`, n]));
  await writeFile(at('wide.jsonl'), goodLine(wide));
  const { code, stderr } = await score('wide.jsonl', 'wide.parquet');
  expect(code, stderr).toBe(2);
  expect(stderr).toMatch(/wide\.parquet: 10,0\d\d columns .*written with 10,000 at most/);
  expect(stderr).toContain('--keep <a,b>');
  expect(await beside('wide.parquet')).toEqual([]);
  const kept = await score('wide.jsonl', 'wide.parquet', '--keep', 'c1');
  expect(kept.code, kept.stderr).toBe(0);
});

describe('1,000 rejects and no trace', () => {
  it('stop the survey, before anything is written', async () => {
    const { code, stderr } = await score('bare.jsonl', 'survey.parquet');
    expect(code).toBe(65);
    expect(stderr).toMatch(
      /all of the first 1,000 traces were rejected \(no_reference 1,000, first \S+bare\.jsonl:0: /,
    );
    expect(stderr).toContain('try: --map reference=truth;');
    expect(await beside('survey.parquet')).toEqual([]);
  });

  it.each(['many.jsonl', 'folder/'])(
    'stop the run of a stream, which has no survey, and leave the reasons of %s and nothing in the way',
    async (output) => {
      const format = output.endsWith('/') ? ['--format', 'jsonl'] : [];
      const name = output.replace('/', '');
      const stdin = await readFile(at('bare.jsonl'));
      const piped = ['score', '-', '-o', at(output), ...FLAGS, ...format, '--rows-per-chunk', '64'];
      const { code, stderr } = await rredcotHere(piped, { stdin });
      expect(code, stderr).toBe(65);
      expect(stderr).toContain(`in ${at(name)}.rejects.jsonl`);
      expect(await beside(name)).toEqual([`${name}.rejects.jsonl`]);
      expect(await readJsonl(at(`${name}.rejects.jsonl`))).toHaveLength(1000);
      // the mended command
      const mended = await score('bare.jsonl', output, ...format, '--limit', '2', '--map', 'reference=truth');
      expect(mended.code, mended.stderr).toBe(0);
    },
  );

  it('leave nothing in the way of workers either', async () => {
    const { code, stderr } = await score(
      'bare.jsonl',
      'shared.jsonl',
      '--workers',
      '2',
      '--rows-per-chunk',
      '64',
    );
    expect(code).toBe(65);
    expect(stderr).toContain('all of the first 1,000 traces were rejected (no_reference 1,000, first ');
    expect(stderr).toContain('try: --map reference=truth;');
    expect(await beside('shared.jsonl')).toEqual([]);
  });

  it('do not stop a run with a trace among them, nor one that may reject all', async () => {
    const found = await score('later.jsonl', 'later.jsonl.gz', '--quiet');
    expect(found.code, found.stderr).toBe(0);
    const all = await score('bare.jsonl', 'all.jsonl', '--max-rejects', '100%');
    expect(all.code).toBe(65);
    expect(all.stderr).toContain('every one of 1,500 traces was rejected (no_reference 1,500');
    expect(await beside('all.jsonl')).toEqual(['all.jsonl.rejects.jsonl']);
  });
});

it('inspect proposes a --map for what a row lacks', async () => {
  const { code, stdout } = await rredcotHere(['inspect', at('bare.jsonl')]);
  expect(code).toBe(65);
  expect(stdout).toMatch(/^try +--map reference=truth$/m);
});

describe('--dry-run', () => {
  it('tells what a run would do and makes none', async () => {
    const { code, stdout, stderr } = await rredcotHere(
      ['score', FIXTURES, '--limit', '20', '--dry-run', '--workers', '2', '--quiet'],
      { cwd: folder },
    );
    expect(code, stderr).toBe(0);
    expect(await beside('chains')).toEqual([]);
    const bad = await score('bare.jsonl', 'x', '--format', 'jsonl', '--dry-run');
    expect(bad.code).toBe(65);
    expect(bad.stderr).toContain('all of the first 1,000 traces were rejected');

    const made = await rredcotHere(['score', FIXTURES, '--limit', '20', '--quiet', '-o', at('made.jsonl')]);
    expect(made.code).toBe(0);
    const rows = await readJsonl<{ completion_ids: []; prompt_ids: []; reference_logprobs: [] }>(
      at('made.jsonl'),
    );
    const sum = (of: (row: (typeof rows)[0]) => number) => rows.reduce((n, row) => n + of(row), 0);
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
    const json = await rredcotHere(['score', FIXTURES, '--limit', '20', '--dry-run', '--json', '--quiet']);
    expect(json.code, json.stderr).toBe(0);
    expect(json.stdout.split('\n')).toHaveLength(2);
    const told = JSON.parse(json.stdout);
    expect(told).toMatchObject({ format: 1, rows: 512, traces: 20, rejects: 0, reject_codes: {} });
    expect(told).toMatchObject({ completion_tokens: tokens, exits: Number(exits), branches: Number(exits) });
    expect(told.seconds).toBeGreaterThan(0);
    expect(told.bytes).toBeGreaterThan(0);
    expect(told.branch.state).toContain('<think>');
    const rows2 = await rredcotHere(['score', FIXTURES, '--json']);
    expect(rows2).toMatchObject({ code: 2, stderr: expect.stringContaining('--json says how a dry run') });
  });

  it.each([[[]], [['--json']]])(
    '%j ends with 65 where every row would be rejected, with the cure',
    async (more) => {
      await writeFile(at('few.jsonl'), goodLine({ completion: undefined, text: 'x' }).repeat(3));
      const { code, stdout, stderr } = await score('few.jsonl', 'x.jsonl', '--dry-run', ...more);
      expect([code, stderr]).toEqual([
        65,
        expect.stringContaining('every one of 3 traces would be rejected (map 3, '),
      ]);
      expect(stderr).toContain('\n  try: --map completion=');
      if (more.length === 0) expect(stdout).toMatch(/^rejected +3 \(map 3\)$/m);
      else
        expect(JSON.parse(stdout)).toMatchObject({
          ...{ traces: 0, rejects: 3, seconds: null },
          reject_codes: { map: { count: 3, first: expect.stringContaining('few.jsonl:0: ') } },
        });
      expect(await beside('x.jsonl')).toEqual([]);
      // one row that would be scored is a run
      await writeFile(at('few.jsonl'), `${goodLine()}${goodLine({ completion: undefined })}`);
      const half = await score('few.jsonl', 'x.jsonl', '--dry-run', ...more);
      expect(half.code).toBe(0);
      expect(half.stderr).toContain('1 of 2 traces were rejected, most of them (1) with map, first ');
    },
  );
});

describe('<output>.summary.json', () => {
  it('stands beside an output, with what the run did and how', async () => {
    await writeFile(at('one.jsonl'), goodLine());
    const run = await score('one.jsonl', 'one.parquet', '--quiet', '--sigma', 'uniform');
    expect(run.code, run.stderr).toBe(0);
    const summary = JSON.parse(await readFile(at('one.parquet.summary.json'), 'utf8'));
    expect(summary).toMatchObject({
      format: 1,
      traces: 1,
      rejects: 0,
      config: { rule: 'uniform', baseline: 0 },
    });
  });
});
