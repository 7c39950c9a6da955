// `rredcot sample` and its output: traces that score reads, the same whatever the batch or shard, judged as documented.
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { EMBEDDED, FIXTURES, type FixtureRow, ROOT, readJsonl, temporaryFolder } from '../support/program.js';

interface Sampled {
  readonly id: string;
  readonly input_id: string;
  readonly group: string;
  readonly prompt: string;
  readonly completion: string;
  readonly prompt_ids: number[];
  readonly completion_ids: number[];
  readonly logprobs: number[];
  readonly input_logprobs: number[];
  readonly finish_reason: string;
  readonly reward: number | null;
  readonly answer: string;
  readonly status: string;
}

const cwd = await temporaryFolder();
const PROMPTS = 6;
const N = 4;
let prompts: { id: string; prompt: string; answer: string }[];
let sampled: Sampled[];

async function run(...args: string[]) {
  const result = await rredcotHere(args, { cwd });
  expect(result.code, result.stderr).toBe(0);
  return result;
}

beforeAll(async () => {
  const rows = await readJsonl<FixtureRow>(FIXTURES);
  const first = rows.filter(({ group }, n) => rows.findIndex((row) => row.group === group) === n);
  prompts = first.slice(0, PROMPTS).map(({ group, prompt, answer }) => ({ id: group, prompt, answer }));
  await writeFile(join(cwd, 'prompts.jsonl'), prompts.map((row) => `${JSON.stringify(row)}\n`).join(''));
  await run('sample', 'prompts.jsonl', '-n', String(N), '--seed', '3', '-o', 'traces.jsonl');
  sampled = await readJsonl<Sampled>(join(cwd, 'traces.jsonl'));
});

describe('what sample writes', () => {
  test('is N traces a prompt, in order, with the columns of its row', () => {
    expect(sampled.map(({ id }) => id)).toEqual(
      prompts.flatMap(({ id }) => Array.from({ length: N }, (_, m) => `${id}/${m}`)),
    );
    for (const [i, row] of sampled.entries()) {
      const { id, prompt, answer } = prompts[Math.floor(i / N)] as (typeof prompts)[number];
      expect([row.input_id, row.group, row.prompt, row.answer]).toEqual([id, id, prompt, answer]);
    }
    expect(new Set(sampled.map(({ completion }) => completion)).size).toBeGreaterThan(PROMPTS);
  });

  test('ends with the stop token, and says so; the reward is that of the comparison', () => {
    const rewards = new Set<number | null>();
    for (const row of sampled) {
      expect(row.finish_reason).toBe('stop');
      expect(row.completion_ids.at(-1)).toBe(258);
      const own = row.completion.split('answer: ').at(-1)?.trimEnd();
      expect([row.reward, row.status]).toEqual([own === row.answer ? 1 : 0, 'reward:compared']);
      rewards.add(row.reward);
    }
    expect(rewards).toEqual(new Set([0, 1]));
  });

  test('is read by score as it is, with the same log-probabilities', async () => {
    await run('score', 'traces.jsonl', '-o', 'scored.jsonl');
    const scored = await readJsonl<Sampled>(join(cwd, 'scored.jsonl'));
    expect(scored.map(({ id }) => id)).toEqual(sampled.map(({ id }) => id));
    for (const [i, row] of scored.entries()) {
      const own = sampled[i] as Sampled;
      expect(row.completion_ids).toEqual(own.completion_ids);
      for (const [t, logprob] of row.logprobs.entries())
        expect(Math.abs(logprob - (own.logprobs[t] as number))).toBeLessThan(1e-4);
    }
  });

  test('is the same bytes for another batch, in shards and with a limit on rows', async () => {
    const args = ['sample', 'prompts.jsonl', '-n', String(N), '--seed', '3'];
    await run(...args, '--batch', '3', '-o', 'other.jsonl');
    const bytes = await readFile(join(cwd, 'traces.jsonl'));
    expect(await readFile(join(cwd, 'other.jsonl'))).toEqual(bytes);
    const sharded = ['--rows-per-chunk', '2', '--format', 'jsonl', '-o', 'out/'];
    for (const shard of ['1/2', '0/2']) await run(...args, ...sharded, '--shard', shard);
    await run('verify', 'out/');
    await run('merge', 'out/', '-o', 'merged.jsonl');
    expect(await readFile(join(cwd, 'merged.jsonl'))).toEqual(bytes);
    await run('sample', 'prompts.jsonl', '-n', String(N), '--seed', '4', '--limit', '2', '-o', 'seed.jsonl');
    const seed = await readJsonl<Sampled>(join(cwd, 'seed.jsonl'));
    expect(seed.length).toBe(2 * N);
    expect(seed.map(({ completion }) => completion)).not.toEqual(
      sampled.slice(0, 2 * N).map(({ completion }) => completion),
    );
  });

  test('is cut at the limit of tokens; exact judges letter by letter', async () => {
    const short = ['--max-tokens', '5', '--judge', 'exact', '--temperature', '0'];
    await run('sample', 'prompts.jsonl', '-n', '2', ...short, '-o', 'short.jsonl');
    const rows = await readJsonl<Sampled>(join(cwd, 'short.jsonl'));
    for (const { completion_ids: ids, finish_reason: finish, reward } of rows)
      expect([ids.length, finish, reward]).toEqual([5, 'length', 0]);
    expect(rows[0]?.completion).toBe(rows[1]?.completion);
  });
});

test('a prompt that leaves no room is rejected, and costs no other', async () => {
  const config = JSON.parse(await readFile(join(EMBEDDED, 'policy.json'), 'utf8'));
  const policy = await temporaryFolder();
  for (const name of [...Object.keys(config.files), 'canary.json'])
    await copyFile(join(EMBEDDED, name), join(policy, name));
  const small = { ...config, architecture: { ...config.architecture, maxTokens: 60 } };
  await writeFile(join(policy, 'policy.json'), JSON.stringify(small));
  const rows = [{ prompt: 'x'.repeat(60) }, { prompt: 'y'.repeat(50) }, { question: 'z' }];
  await writeFile(join(cwd, 'odd.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  await run('sample', 'odd.jsonl', '-n', '2', '--policy', policy, '-o', 'odd.out.jsonl');
  const written = await readJsonl<Sampled>(join(cwd, 'odd.out.jsonl'));
  expect(written.map(({ id }) => id)).toEqual(['odd:1/0', 'odd:1/1']);
  for (const { completion_ids: ids, finish_reason: finish, reward, status } of written) {
    expect(finish === 'stop' || ids.length === 10).toBe(true);
    expect([reward, status]).toEqual([null, 'ok']);
  }
  const rejects = await readJsonl<{ code: string }>(join(cwd, 'odd.out.jsonl.rejects.jsonl'));
  expect(rejects.map(({ code }) => code)).toEqual(['too_long', 'map']);

  const { decoding: _, ...older } = config;
  await writeFile(join(policy, 'policy.json'), JSON.stringify(older));
  const refused = await rredcotHere(['sample', 'odd.jsonl', '--policy', policy, '-o', 'none.jsonl'], { cwd });
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('rredcot policy build <checkpoint> -o');
});

test('a row with four solutions is one prompt', async () => {
  const dump = await readFile(join(ROOT, 'test/io/map/dumps/gsm8k-solutions.jsonl'), 'utf8');
  await writeFile(join(cwd, 'gsm.jsonl'), dump.repeat(3));
  const sampling = ['-n', '2', '--max-tokens', '3', '--limit', '3', '--rows-per-chunk', '1'];
  await run('sample', 'gsm.jsonl', ...sampling, '--format', 'jsonl', '-o', 'gsm/');
  await run('verify', 'gsm/');
  await run('merge', 'gsm/', '-o', 'gsm.out.jsonl');
  const written = await readJsonl<Sampled>(join(cwd, 'gsm.out.jsonl'));
  expect(written.map(({ id, group }) => [id, group])).toEqual(
    [0, 1, 2].flatMap((row) => [0, 1].map((m) => [`gsm:${row}/${m}`, `gsm:${row}`])),
  );
});

test.each([
  ['--temperature', '-1'],
  ['--top-p', '0'],
  ['--top-p', '1.1'],
  ['--seed', '-1'],
  ['--max-tokens', '0'],
  ['--judge', 'maybe'],
])('%s %s is refused', async (flag, value) => {
  const { code, stderr } = await rredcotHere(['sample', 'prompts.jsonl', `${flag}=${value}`], { cwd });
  expect([code, stderr.includes(flag)]).toEqual([2, true]);
});
