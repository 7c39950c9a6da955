// Cases that once went wrong: rejects at the same time, inputs in the way of outputs, very long traces, interruptions.
import { spawnSync } from 'node:child_process';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FIXTURES, goodLine as good, ROOT } from '../support/program.js';
import { openScene } from '../support/scene.js';

const { at, done, fails, folder, rows, run, text, write } = await openScene();
const left = async (ending: string) => (await readdir(folder)).filter((name) => name.endsWith(ending));

describe('rejects', () => {
  it('of traces that are at work together are all written, in order', async () => {
    const lines = Array.from({ length: 12 }, (_, i) => good(i < 9 ? { completion_ids: [999] } : {}));
    await write('race.jsonl', lines.join(''));
    await done('segment race.jsonl -o race.out.jsonl');
    const rejects = await rows<{ row: number }>('race.out.jsonl.rejects.jsonl');
    expect(rejects.map(({ row }) => row)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect(await rows('race.out.jsonl')).toHaveLength(3);
    expect(await left('.tmp')).toEqual([]);
  });

  it('of an earlier run are gone after one without any', async () => {
    await write('twice.jsonl', `{\n${good()}`);
    await done('score twice.jsonl -o twice.out.jsonl');
    expect(await readdir(folder)).toContain('twice.out.jsonl.rejects.jsonl');
    await write('twice.jsonl', good());
    await done('score twice.jsonl --overwrite -o twice.out.jsonl');
    expect(await readdir(folder)).not.toContain('twice.out.jsonl.rejects.jsonl');
  });

  it('that cannot be written are an error of the call', async () => {
    await mkdir(at('q.out.jsonl.rejects.jsonl'));
    await write('q.jsonl', good());
    await fails('score q.jsonl -o q.out.jsonl', 2, /q\.out\.jsonl\.rejects\.jsonl/);
    expect(await left('.tmp')).toEqual([]);
  });
});

describe('an input', () => {
  it('is never written over, as output or as rejects', async () => {
    for (const [input, line] of [
      ['same.jsonl', 'segment same.jsonl -o same.jsonl'],
      ['y.out.jsonl.rejects.jsonl', 'score y.out.jsonl.rejects.jsonl -o y.out.jsonl'],
    ] as const) {
      await write(input, good());
      await fails(line, 2, /is an input/);
      expect(await text(input)).toBe(good());
    }
  });

  it('may be a pipe', () => {
    const segment = `node ${join(ROOT, 'bin/rredcot.js')} segment --no-policy`;
    const command = `${segment} <(head -5 ${FIXTURES}) | wc -l; mkfifo ${folder}/pipe; cat ${FIXTURES} > ${folder}/pipe & ${segment} ${folder}/pipe | wc -l`;
    const run = spawnSync('bash', ['-c', command], { encoding: 'utf8', timeout: 50_000 });
    expect(run.stdout.trim().split(/\s+/)).toEqual(['5', '512']);
  });

  it('gives the same baselines as a file and as a stream, rejected traces counted', async () => {
    const more = [{ reward: 1 }, { reward: 0 }, { reward: 0, completion_ids: [999] }];
    await write('a.jsonl', more.map((own) => good({ group: 'a', ...own })).join(''));
    await done('score a.jsonl -o a.out.jsonl');
    await done('score -o b.out.jsonl', await text('a.jsonl'));
    for (const name of ['a.out.jsonl', 'b.out.jsonl'])
      expect((await rows(name)).map((row) => row.baseline)).toEqual(
        [1, 1].map(() => expect.closeTo(1 / 3, 6)),
      );
  });

  it('as a stream may mix groups where the baseline needs none', async () => {
    const stdin = ['a', 'b', 'a'].map((group) => good({ group })).join('');
    await done('score -o mixed-groups.out.jsonl --baseline value', stdin);
    expect(await rows('mixed-groups.out.jsonl')).toHaveLength(3);
  });

  it('as a stream is passed on line by line, whatever its rows hold', async () => {
    const lines = Array.from({ length: 1100 }, (_, i) =>
      good({ extra: i < 1030 ? 1 : 'text', ...(i > 1050 ? { late: [i] } : {}) }),
    );
    const { stdout } = await done('segment --no-policy --quiet', lines.join(''));
    const out = stdout.trim().split('\n');
    expect(out.length).toBe(1100);
    const last = JSON.parse(out[1099] as string);
    expect(last).toMatchObject({ extra: 'text', late: [1099], status: 'segments:by-length' });
  });
});

it.each([
  ['sentences', 'a. '.repeat(200_000), ''],
  ['headings without an end', '#'.repeat(1_000_000), ''],
  ['lines', 'a\n'.repeat(200_000), '--segmenter newline'],
  ['lines, merged', 'a\n'.repeat(200_000), ''],
])('a text that a careless program takes too long for: %s', async (_, completion, flags) => {
  const stdin = `${JSON.stringify({ completion })}\n${good()}`;
  const { code, stdout, stderr } = await run(`segment --no-policy ${flags}`, stdin);
  expect(code, stderr.slice(0, 500)).toBe(0);
  expect(stdout.trim().split('\n').length).toBe(2);
});

it('--limit counts rejected traces, so that a wrong map shows at once', async () => {
  await write('limited.jsonl', `{\n${'{"question":"a"}\n'.repeat(50)}`);
  await fails(
    'score limited.jsonl --limit 3 -o limited.out.jsonl',
    65,
    /every one of 3 traces was rejected \(map 2, first .*limited\.jsonl:1: completion: .*\n {2}try: --map completion=<path>/s,
  );
  expect(await rows('limited.out.jsonl.rejects.jsonl')).toHaveLength(3);
});
