// Cases that once went wrong: rejects at the same time, inputs in the way of outputs, very long traces, interruptions.
import { spawn, spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { compareAnswer } from '../../dist/estimate/reward.js';
import { rredcotHere } from '../support/in-process.js';
import {
  CHAIN,
  FIXTURES,
  goodLine as good,
  PROMPT,
  ROOT,
  readJsonl,
  readScored,
  type ScoredRow,
  temporaryFolder,
} from '../support/program.js';

let folder: string;
beforeAll(async () => {
  folder = await temporaryFolder();
});

async function file(name: string, content: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

describe('rejects', () => {
  it('of traces that are at work together are all written, in order', async () => {
    const rows = Array.from({ length: 12 }, (_, i) => good(i < 9 ? { completion_ids: [999] } : {})).join('');
    const out = join(folder, 'race.jsonl.out.jsonl');
    const run = await rredcotHere(['segment', await file('race.jsonl', rows), '-o', out], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    const rejects = await readJsonl<{ row: number }>(`${out}.rejects.jsonl`);
    expect(rejects.map(({ row }) => row)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect((await readFile(out, 'utf8')).trim().split('\n').length).toBe(3);
    expect((await readdir(folder)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  it('of an earlier run are gone after one without any', async () => {
    const out = join(folder, 'twice.parquet');
    await rredcotHere(['score', await file('twice.jsonl', `{\n${good()}`), '-o', out], { cwd: folder });
    expect(await readdir(folder)).toContain('twice.parquet.rejects.jsonl');
    await rredcotHere(['score', await file('twice.jsonl', good()), '--overwrite', '-o', out], {
      cwd: folder,
    });
    expect(await readdir(folder)).not.toContain('twice.parquet.rejects.jsonl');
  });

  it('that cannot be written are an error of the call', async () => {
    await mkdir(join(folder, 'q.parquet.rejects.jsonl'));
    const run = await rredcotHere(['score', await file('q.jsonl', good()), '-o', join(folder, 'q.parquet')]);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/q\.parquet\.rejects\.jsonl/);
    expect((await readdir(folder)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });
});

describe('an input', () => {
  it('is never written over, as output or as rejects', async () => {
    const input = await file('same.jsonl', good());
    const rejects = await file('y.parquet.rejects.jsonl', good());
    for (const args of [
      ['segment', input, '-o', input],
      ['score', rejects, '-o', join(folder, 'y.parquet')],
    ]) {
      const run = await rredcotHere(args, { cwd: folder });
      expect(run.code, run.stderr).toBe(2);
      expect(run.stderr).toMatch(/is an input/);
      expect(await readFile(args[1] as string, 'utf8')).toBe(good());
    }
  });

  it('may be a pipe', () => {
    const segment = `node ${join(ROOT, 'bin/rredcot.js')} segment --no-policy`;
    const command = `${segment} <(head -5 ${FIXTURES}) | wc -l; mkfifo ${folder}/pipe; cat ${FIXTURES} > ${folder}/pipe & ${segment} ${folder}/pipe | wc -l`;
    const run = spawnSync('bash', ['-c', command], { encoding: 'utf8', timeout: 50_000 });
    expect(run.stdout.trim().split(/\s+/)).toEqual(['5', '512']);
  });

  it('shares no ids or groups with another of the same name', async () => {
    const row = (reward: number) =>
      `${JSON.stringify({ prompt: PROMPT, g: [{ c: CHAIN, r: reward }], answer: '7' })}\n`;
    for (const [name, reward] of [
      ['d1', 1],
      ['d2', 0],
    ] as const) {
      await mkdir(join(folder, name));
      await file(`${name}/x.jsonl`, row(reward));
    }
    const map = 'completion=g[].c,reward=g[].r';
    const run = await rredcotHere(['score', 'd1/x.jsonl', 'd2/x.jsonl', '--map', map, '-o', 'x.parquet'], {
      cwd: folder,
    });
    expect(run.code, run.stderr).toBe(0);
    const rows = await readScored(join(folder, 'x.parquet'));
    expect(rows.map(({ id, group, baseline }) => [id, group, baseline])).toEqual([
      ['d1/x:0/0', 'd1/x:0', 1],
      ['d2/x:0/0', 'd2/x:0', 0],
    ]);
  });

  it('gives the same baselines as a file and as a stream, rejected traces counted', async () => {
    const rows = [
      good({ group: 'a', reward: 1 }),
      good({ group: 'a', reward: 0 }),
      good({ group: 'a', reward: 0, completion_ids: [999] }),
    ].join('');
    const [a, b] = [join(folder, 'a.parquet'), join(folder, 'b.parquet')];
    expect((await rredcotHere(['score', await file('a.jsonl', rows), '-o', a])).code).toBe(0);
    expect((await rredcotHere(['score', '-o', b], { stdin: rows })).code).toBe(0);
    const baselines = [a, b].map(async (path) => (await readScored(path)).map((row) => row.baseline));
    expect(await Promise.all(baselines)).toEqual([
      [Math.fround(1 / 3), Math.fround(1 / 3)],
      [Math.fround(1 / 3), Math.fround(1 / 3)],
    ]);
  });

  it('as a stream may mix groups where the baseline needs none', async () => {
    const rows = ['a', 'b', 'a'].map((group) => good({ group })).join('');
    const out = join(folder, 'mixed-groups.parquet');
    const run = await rredcotHere(['score', '-o', out, '--baseline', 'value'], { stdin: rows });
    expect(run.code, run.stderr).toBe(0);
    expect((await readScored(out)).length).toBe(3);
  });

  it('as a stream is passed on line by line, whatever its rows hold', async () => {
    const rows = Array.from({ length: 1100 }, (_, i) =>
      good({ extra: i < 1030 ? 1 : 'text', ...(i > 1050 ? { late: [i] } : {}) }),
    ).join('');
    const run = await rredcotHere(['segment', '--no-policy', '--quiet'], { stdin: rows });
    expect(run.code).toBe(0);
    const out = run.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(out.length).toBe(1100);
    expect(out[1099]).toMatchObject({ extra: 'text', late: [1099], status: 'segments:by-length' });
  });
});

describe('texts that a careless program takes too long for, or too many arguments', () => {
  it.each([
    ['sentences', 'a. '.repeat(200_000), []],
    ['headings without an end', '#'.repeat(1_000_000), []],
    ['lines', 'a\n'.repeat(200_000), ['--segmenter', 'newline']],
    ['lines, merged', 'a\n'.repeat(200_000), []],
  ])('%s', async (_, completion, flags) => {
    const run = await rredcotHere(['segment', '--no-policy', ...flags], {
      stdin: `${JSON.stringify({ completion })}\n${good()}`,
    });
    expect(run.code, run.stderr.slice(0, 500)).toBe(0);
    expect(run.stdout.trim().split('\n').length).toBe(2);
  });
});

describe('a command line that ends early', () => {
  it('help into a reader that leaves ends quietly', () => {
    const command = `node ${join(ROOT, 'bin/rredcot.js')} score --help | true; echo \${PIPESTATUS[0]}`;
    for (let i = 0; i < 3; i++) {
      const run = spawnSync('bash', ['-c', command], { encoding: 'utf8' });
      expect(run.stderr).toBe('');
      expect(run.stdout).toBe('0\n');
    }
  });

  it('--limit counts rejected traces, so that a wrong map shows at once', async () => {
    const rows = `{\n${`${JSON.stringify({ question: 'a' })}\n`.repeat(50)}`;
    const out = join(folder, 'limited.parquet');
    const run = await rredcotHere(['score', await file('limited.jsonl', rows), '--limit', '3', '-o', out]);
    expect(run.code).toBe(65);
    expect(run.stderr).toMatch(
      /every one of 3 traces was rejected \(map 2, first .*limited\.jsonl:1: completion: .*\n {2}try: --map completion=<path>/s,
    );
    expect((await readJsonl(`${out}.rejects.jsonl`)).length).toBe(3);
  });
});

describe('joint', () => {
  it('turns down traces whose references have no solution', async () => {
    const rows = good({ group: 'a', solution: 'a: 3+4=7 top 7\n' }) + good({ group: 'a' });
    const out = join(folder, 'joint.parquet');
    const run = await rredcotHere([
      'score',
      await file('joint.jsonl', rows),
      '--estimator',
      'joint',
      '-o',
      out,
    ]);
    expect(run.code, run.stderr).toBe(0);
    expect((await readScored(out)).length).toBe(1);
    const [reject] = await readJsonl<{ code: string; reason: string }>(`${out}.rejects.jsonl`);
    expect(reject?.code).toBe('no_reference');
    expect(reject?.reason).toMatch(/solution=<path>/);
  });
});

describe('comparing answers', () => {
  const template = { close: '</think>\n', open: 'answer: ', closer: '\n' };
  const compared = (own: string, reference: string) =>
    compareAnswer(`x</think>\nanswer: ${own}\n`, [{ answer: reference, utility: 1 }], template).reward;
  it.each([
    ['7', '7', 1],
    [' 7. ', '7', 1],
    ['$1,234$', '1234', 1],
    ['1,234.50', '1234.5', 1],
    ['+07', '7', 1],
    ['-0', '0', 1],
    ['.5', '0.50', 1],
    ['8', '7', 0],
    ['-7', '7', 0],
    ['9007199254740993', '9007199254740992', 0],
    ['3 4', '34', null],
    ['1,2', '12', null],
    ['\\frac{1}{2}', '0.5', 1],
    ['\\sqrt{2}', '1.41', null],
    ['', '7', null],
    ['a  b', 'a b', 1],
  ])('%j against %j is %j', (own, reference, reward) => {
    expect(compared(own, reference)).toBe(reward);
  });
  it('a box is read to its closing brace', () => {
    const text = 'so \\boxed{\\frac{1}{2}} it is';
    expect(compareAnswer(text, [{ answer: '\\frac{1}{2}', utility: 1 }], template).reward).toBe(1);
  });
});

describe('an interruption', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('%s: exit 75, nothing left behind', async (signal) => {
    const cwd = await temporaryFolder();
    // one chunk, so that none is whole before the signal
    const flags = ['-o', 's.parquet', '--rows-per-chunk', '512'];
    const child = spawn(process.execPath, [join(ROOT, 'bin/rredcot.js'), 'score', FIXTURES, ...flags], {
      cwd,
    });
    let stderr = '';
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    // the temporary file says that the run has begun
    while ((await readdir(cwd)).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    child.kill(signal);
    const code = await new Promise((resolve) => child.on('close', resolve));
    expect(code, stderr).toBe(75);
    expect(stderr).toMatch(/interrupted/);
    expect(await readdir(cwd)).toEqual([]);
  });
});

describe('JSONL output', () => {
  it("keeps the input's columns as they were, under another name where ours differ", async () => {
    const row = good({ id: 'x', sigma: 'mine', reward: 1, big: 1, nested: { a: [null, 'é'] } });
    const run = await rredcotHere(['score', '-', '-o', '-', '--format', 'jsonl', '--quiet'], {
      stdin: row.replace('"big":1', '"big":9007199254740993'),
    });
    expect(run.code, run.stderr).toBe(0);
    expect(run.stdout).toContain('"big":9007199254740993');
    const scored = JSON.parse(run.stdout) as ScoredRow & Record<string, unknown>;
    expect(scored).toMatchObject({ id: 'x', input_sigma: 'mine', nested: { a: [null, 'é'] }, reward: 1 });
    expect(scored).not.toHaveProperty('input_reward');
    expect(scored).not.toHaveProperty('input_id');
  });
});
