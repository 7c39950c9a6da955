// Rows that say how likely their tokens were when they were sampled: whether the policy agrees.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ROOT } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

const { done, fails, json, rows, write } = await openScene();
const traces = await fixtureRows(0, 24);
await write('in.jsonl', traces);
await done('score in.jsonl -o base.jsonl');
const known = new Map((await rows('base.jsonl')).map(({ id, logprobs }) => [id, logprobs]));
type Trace = (typeof traces)[number];
const withOwn = (name: string, make: (own: number[], trace: Trace) => object) =>
  write(
    name,
    traces.map((trace) => ({ ...trace, ...make([...(known.get(trace.id) as number[])], trace) })),
  );
const figures = async (name: string) => {
  const { said } = await done(`score ${name} -o made.jsonl --overwrite`);
  const { sampled_above: above, sampled_apart: apart } = await json('made.jsonl.summary.json');
  return { above, apart, isWarned: said.includes('another checkpoint wrote these traces'), said };
};

it('are said to agree where they do, rounded as an engine rounds', async () => {
  await withOwn('own.jsonl', (own) => ({ logprobs: own.map((lp, t) => lp * (t % 2 ? 1.04 : 0.96)) }));
  const { above, apart, isWarned, said } = await figures('own.jsonl');
  expect(said).toMatch(/rows' own log p lie [+−]?0\.00\d a token above these, 0\.00\d from them/);
  expect([Math.abs(above) < 0.002, apart > 0.0005 && apart < 0.005, isWarned]).toEqual([true, true, false]);
});

it('are a warning where another policy is asked, in the mean of all tokens', async () => {
  await withOwn('own.jsonl', (own) => ({ rollout_log_probs: own }));
  await done(`policy build ${join(ROOT, 'models/hint')} -o hint`);
  const { said } = await done('score own.jsonl --policy hint -o other.jsonl');
  const all = (await rows('other.jsonl')).flatMap(({ id, logprobs }) =>
    logprobs.map((lp, t) => (known.get(id)?.[t] as number) - lp),
  );
  const { sampled_above: above, sampled_apart: apart } = await json('other.jsonl.summary.json');
  expect(above).toBeCloseTo(all.reduce((sum, off) => sum + off) / all.length, 6);
  expect(apart).toBeCloseTo(all.reduce((sum, off) => sum + Math.abs(off), 0) / all.length, 6);
  expect(above).toBeGreaterThan(0.1);
  expect(said).toContain('another checkpoint wrote these traces');
});

it('are of the tokens that the policy wrote, and of none of the padding', async () => {
  const PAD = 258;
  await withOwn('shown.jsonl', (own, { completion_ids: ids }) => ({
    completion_ids: [...ids, ...Array(6).fill(PAD)],
    completion_mask: [...ids.map((_, t) => (t === 9 || t === 10 ? 0 : 1)), ...Array(6).fill(0)],
    rollout_logprobs: [...own.map((lp, t) => (t === 9 || t === 10 ? -40 : lp)), ...Array(6).fill(-40)],
  }));
  const { above, apart } = await figures('shown.jsonl');
  expect(above).not.toBeNull();
  expect(apart).toBeLessThan(0.001);
});

it('are not what a policy said of a row that was scored before', async () => {
  await done('score base.jsonl --policy hint -o again.jsonl');
  expect((await json('again.jsonl.summary.json')).sampled_above).toBeUndefined();
});

it('are no promise under such a name, but where they are named', async () => {
  await withOwn('short.jsonl', (own) => ({ logprobs: own.slice(1) }));
  expect((await figures('short.jsonl')).above).toBeUndefined();
  await withOwn('words.jsonl', () => ({ logprobs: 'none' }));
  expect((await figures('words.jsonl')).above).toBeUndefined();
  const named = 'score short.jsonl --map sampled_logprobs=logprobs -o no.jsonl';
  await fails(named, 65, /sampled_logprobs: logprobs has \d+ for \d+ ids, expected a list of finite numbers/);
});
