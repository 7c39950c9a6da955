// Rewards as dumps have them: ±1, other scales, verdicts. What is not 0 to 1 is mapped and said, or the run ends at once.
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { describe, expect, it, test } from 'vitest';
import type { ScoredRow } from '../support/program.js';
import { fixtureRows, GIVEN, openScene, valued } from '../support/scene.js';

const { at, config, done, fails, rows, text, write } = await openScene();
const fixtures = (await fixtureRows(0, 24)).map(valued);
type Valued = (typeof fixtures)[0];
const right = fixtures.filter(({ reward }) => reward === 1);

/** The fixtures with other rewards, or whatever else is changed of a row. */
async function dump(name: string, change: (row: Valued, n: number) => object): Promise<void> {
  const changed = fixtures.map((row, n) => ({ ...row, ...change(row, n) }));
  await write(name, changed);
}
const cutAt = (places: readonly number[]) => (_: Valued, n: number) =>
  places.includes(n) ? { completion: '' } : {};
await dump('signed.jsonl', ({ reward }) => ({ reward: 2 * reward - 1 }));
await dump('plain.jsonl', () => ({}));
await dump('ten.jsonl', ({ reward }) => ({ reward: 10 * reward }));
await dump('graded.jsonl', ({ reward }, n) => ({ reward: n === 9 ? 0.25 : 2 * reward - 1 }));
await dump('wrong.jsonl', () => ({ reward: -1 }));
await dump('verdicts.jsonl', ({ reward }) => ({ reward: reward === 1 }));
await dump('acc.jsonl', ({ reward }) => ({ reward: undefined, acc: reward }));
await dump('flipped.jsonl', ({ reward }) => ({ reward: 1 - reward }));
await dump('judged.jsonl', ({ reward }, n) => ({ reward: n === 5 ? 1 - reward : reward }));
await dump('cut.jsonl', cutAt([3, 11, 19]));
await dump('one.jsonl', cutAt([3]));

async function score(line: string) {
  await rm(at('out.jsonl'), { force: true });
  return done(`score ${line} ${GIVEN} -o out.jsonl`);
}
/** What credit rests on. */
const credits = (all: readonly ScoredRow[]) =>
  all.map(({ id, reward, baseline, sigma, status }) => ({ id, reward, baseline, sigma, status }));

it('rewards that most answers deny are said to be those of something else; of a few the rows say so', async () => {
  const disputed = async () =>
    (await rows('out.jsonl')).map(({ status }) => status.includes('reward:disputed'));
  expect((await score('flipped.jsonl')).stderr).toContain(
    '24 of 24 traces have a reward of 0 and answer as their reference, or of 1 and answer otherwise: --map reward=',
  );
  expect(await disputed()).toEqual(Array(24).fill(true));
  await done('verify out.jsonl');
  expect((await score('judged.jsonl')).stderr).not.toContain('answer as their reference');
  expect((await disputed()).flatMap((own, n) => (own ? n : []))).toEqual([5]);
  await score('plain.jsonl');
  expect(await disputed()).not.toContain(true);
});

describe('rewards of -1 and 1', () => {
  it('are mapped and said: the same credit as with 0 and 1, and the range is in the configuration', async () => {
    await score('plain.jsonl');
    const expected = credits(await rows('out.jsonl'));
    const { stderr } = await score('signed.jsonl');
    expect(stderr).toContain('rewards of -1 count as 0, and of 1 as 1 (--reward-range -1,1)');
    expect(stderr).not.toContain('rejected');
    expect(credits(await rows('out.jsonl'))).toEqual(expected);
    expect((await config('out.jsonl')).rewardRange).toEqual([-1, 1]);
    await done('verify out.jsonl');
    // as with the flag, byte for byte
    const bytes = await readFile(at('out.jsonl'));
    await score('signed.jsonl --reward-range -1,1');
    expect((await readFile(at('out.jsonl'))).equals(bytes)).toBe(true);
  });

  it('end a stream at the first one', async () => {
    const first = fixtures.findIndex(({ reward }) => reward === 0);
    const said = `-:${first}: the reward is -1, expected 0 to 1`;
    const { stderr } = await fails(`score - ${GIVEN} -o stream.jsonl`, 65, said, await text('signed.jsonl'));
    expect(stderr).toContain('--reward-range -1,1');
  });
});

test.each([
  ['ten', /ten\.jsonl:0: the reward is 10, expected 0 to 1; .*from 0 to 10.*\n.*--reward-range 0,10/],
  [
    'graded',
    /graded\.jsonl:9: the reward is 0\.25, expected -1 or 1; .*from -1 to 1.*\n.*--reward-range -1,1/,
  ],
  ['wrong', /no reward is above -1; .*from -1 to -1.*\n.*--reward-range -1,1/],
])('rewards of %s.jsonl end the run before anything is scored', async (name, why) => {
  const others = name === 'ten' ? ['-o no.parquet', '--estimator surprise -o no.jsonl'] : [];
  for (const flags of [`-o no.parquet ${GIVEN}`, ...others]) {
    await fails(`score ${name}.jsonl ${flags}`, 65, why);
    for (const file of ['no.parquet', 'no.jsonl']) expect(existsSync(at(file))).toBe(false);
  }
});

describe('a named range', () => {
  it('maps no verdict: true, false, and a column acc', async () => {
    for (const input of ['verdicts.jsonl', 'acc.jsonl --map reward=acc']) {
      await score(`${input} --reward-range -1,1`);
      const rewards = (await rows('out.jsonl')).map(({ reward }) => reward);
      expect(rewards).toEqual(fixtures.map(({ reward }) => reward));
      await done('verify out.jsonl');
    }
  });

  it('that makes a half of 0, where the rewards are 0 and 1, is an error, at the end of a stream too', async () => {
    const stdin = await text('plain.jsonl');
    for (const [input, given] of [['plain.jsonl'], ['-', stdin]] as const) {
      const line = `score ${input} ${GIVEN} -o half.jsonl --reward-range -1,1`;
      await fails(line, 65, '0 would count as 0.5', given);
      expect(existsSync(at('half.jsonl'))).toBe(false);
    }
    const signed = stdin.replaceAll('"reward":0', '"reward":-1');
    await done(`score - ${GIVEN} -o half.jsonl --reward-range -1,1`, signed);
  });

  it('rejects what lies outside, and warns where that is more than one in twenty', async () => {
    const { stderr } = await score('ten.jsonl --reward-range -1,1');
    const said = `WARN: ${right.length} of ${fixtures.length} traces were rejected, most of them \\(${right.length}\\) with reward`;
    expect(stderr).toMatch(
      new RegExp(`${said}, first .*: the reward is 10, expected -1 to 1: --reward-range`),
    );
  });
});

describe('many rejects', () => {
  it('of lines that are not JSON are mended in the lines: --map would not help', async () => {
    await writeFile(at('cut-off.jsonl'), '{"prompt": "a');
    const { stderr } = await fails(`score cut-off.jsonl ${GIVEN} -o none.jsonl`, 65, 'line is not JSON');
    expect(stderr).toMatch(/try: correct the rows\n/);
  });

  it.each(['many.jsonl', 'shard/ --shard 0/1'])('are warned of: -o %s', async (out) => {
    expect((await done(`score cut.jsonl ${GIVEN} -o ${out}`)).stderr).toMatch(
      /WARN: 3 of 24 traces were rejected, most of them \(3\) with empty_completion, first .*:3:/,
    );
  });

  it('segment and streams warn, too; a few are no matter', async () => {
    const said = /WARN: 3 of 24 traces were rejected/;
    expect((await done('segment cut.jsonl --no-policy -o cut.segments.jsonl')).stderr).toMatch(said);
    expect((await done(`score - ${GIVEN} -o cut.out.jsonl`, await text('cut.jsonl'))).stderr).toMatch(said);
    expect((await score('one.jsonl')).stderr).not.toContain('traces were rejected');
  });
});
