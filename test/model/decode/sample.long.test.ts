// `rredcot sample` and its output: traces that score reads, the same whatever the batch or shard, judged as documented.
import { cp } from 'node:fs/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { EMBEDDED } from '../../support/program.js';
import { editJson, fixtureRows, openScene } from '../../support/scene.js';

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

const { at, done, expectSame, fails, joinParts, rows, write } = await openScene();
const N = 3;
const SAMPLE = `sample prompts.jsonl -n ${N}`;
let prompts: { id: string; prompt: string; answer: string }[];
let sampled: Sampled[];

beforeAll(async () => {
  // a trace of each of four groups
  const first = (await fixtureRows(0, 32)).filter((_, n) => n % 8 === 0);
  prompts = first.map(({ group, prompt, answer }) => ({ id: group, prompt, answer }));
  await write('prompts.jsonl', prompts);
  await done(`${SAMPLE} --seed 3 -o traces.jsonl`);
  sampled = await rows<Sampled>('traces.jsonl');
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
    expect(new Set(sampled.map(({ completion }) => completion)).size).toBeGreaterThan(prompts.length);
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
    await done('score traces.jsonl -o scored.jsonl');
    const scored = await rows<Sampled>('scored.jsonl');
    expect(scored.map(({ id }) => id)).toEqual(sampled.map(({ id }) => id));
    for (const [i, row] of scored.entries()) {
      const own = sampled[i] as Sampled;
      expect(row.completion_ids).toEqual(own.completion_ids);
      for (const [t, logprob] of row.logprobs.entries())
        expect(Math.abs(logprob - (own.logprobs[t] as number))).toBeLessThan(1e-4);
    }
  });

  test('is the same bytes for another batch, in shards and with a limit on rows', async () => {
    await done(`${SAMPLE} --seed 3 --batch 3 -o other.jsonl`);
    await expectSame('other.jsonl', 'traces.jsonl');
    for (const shard of ['1/2', '0/2'])
      await done(`${SAMPLE} --seed 3 --rows-per-part 2 --format jsonl -o out/ --shard ${shard}`);
    await done('verify out/');
    await joinParts('out', 'merged.jsonl');
    await expectSame('merged.jsonl', 'traces.jsonl');
    await done(`${SAMPLE} --seed 4 --limit 2 -o seed.jsonl`);
    const seed = (await rows<Sampled>('seed.jsonl')).map(({ completion }) => completion);
    expect(seed.length).toBe(2 * N);
    expect(seed).not.toEqual(sampled.slice(0, 2 * N).map(({ completion }) => completion));
  });

  test('is cut at the limit of tokens; exact judges letter by letter', async () => {
    await done('sample prompts.jsonl -n 2 --max-tokens 5 --judge exact --temperature 0 -o short.jsonl');
    const short = await rows<Sampled>('short.jsonl');
    for (const { completion_ids: ids, finish_reason: finish, reward } of short)
      expect([ids.length, finish, reward]).toEqual([5, 'length', 0]);
    expect(short[0]?.completion).toBe(short[1]?.completion);
  });
});

test('a prompt that leaves no room is rejected, and costs no other', async () => {
  const policy = at('policy');
  await cp(EMBEDDED, policy, { recursive: true });
  await editJson(`${policy}/policy.json`, ({ architecture }) =>
    Object.assign(architecture as object, { maxTokens: 60 }),
  );
  await write('odd.jsonl', [{ prompt: 'x'.repeat(60) }, { prompt: 'y'.repeat(50) }, { question: 'z' }]);
  await done(`sample odd.jsonl -n 2 --policy ${policy} -o odd.out.jsonl`);
  const written = await rows<Sampled>('odd.out.jsonl');
  expect(written.map(({ id }) => id)).toEqual(['odd:1/0', 'odd:1/1']);
  for (const { completion_ids: ids, finish_reason: finish, reward, status } of written) {
    expect(finish === 'stop' || ids.length === 10).toBe(true);
    expect([reward, status]).toEqual([null, 'ok']);
  }
  const rejects = await rows<{ code: string }>('odd.out.jsonl.rejects.jsonl');
  expect(rejects.map(({ code }) => code)).toEqual(['too_long', 'map']);

  // as it was built before policies could write
  await editJson(`${policy}/policy.json`, (manifest) => delete manifest.decoding);
  await fails(`sample odd.jsonl --policy ${policy} -o none.jsonl`, 2, 'rredcot policy build <checkpoint> -o');
});

test.each([
  ...['--temperature=-1', '--top-p=0', '--top-p=1.1', '--seed=-1', '--max-tokens=0', '--judge=maybe'],
])('%s is refused', async (flag) => {
  await fails(`sample prompts.jsonl ${flag}`, 2, flag.split('=')[0] as string);
});
