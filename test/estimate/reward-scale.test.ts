// The scale of rewards: which range the inputs have, what of it is told, and what a check of all of them says.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { RredcotError } from '../../dist/errors.js';
import { findRewardRange, RewardCheck, resolveReward } from '../../dist/estimate/reward.js';
import { parseFieldMap } from '../../dist/io/map/fields.js';
import { resolveInputs } from '../../dist/io/read/inputs.js';
import type { JobInputs } from '../../dist/run/source.js';
import { temporaryFolder, traceOf } from '../support/io-helpers.js';

const NEEDS = { prompt: false, references: false };
const { signal } = new AbortController();
const folder = await temporaryFolder();

/** Rows of such rewards, as a file. */
async function inputsOf(...rewards: readonly unknown[]): Promise<JobInputs> {
  const path = join(folder, `${rewards.length}-${rewards.join('_')}.jsonl`.slice(0, 60));
  await writeFile(path, rewards.map((reward) => `${JSON.stringify({ completion: 'x', reward })}\n`).join(''));
  const mapping = { map: parseFieldMap(undefined) } as JobInputs['mapping'];
  return { inputs: await resolveInputs([path]), mapping };
}

/** What a check says of rewards; null is none. A boolean is a verdict. */
function told(
  range: readonly [number, number] | undefined,
  ...rewards: readonly (number | boolean | null)[]
) {
  const check = new RewardCheck(range ?? [0, 1], range !== undefined);
  for (const [n, reward] of rewards.entries())
    check.add({
      ...traceOf({}, n),
      reward: reward === null ? null : Number(reward),
      ...(typeof reward === 'boolean' && { isVerdict: true as const }),
    });
  try {
    check.assert();
    return '';
  } catch (error) {
    const { message, hint } = error as RredcotError;
    return `${message}; ${hint}`;
  }
}

describe('the range that nobody has named', () => {
  it.each([
    [[1, 1, -1], -1],
    [[null, -1], -1],
    [[1, 0, -1], 0],
    [[0.5, -1], 0],
    [[true, false, -1], 0],
    [[1, 1], 0],
    [[], 0],
  ])('of %j is from %d to 1', async (rewards, low) => {
    expect(await findRewardRange(await inputsOf(...rewards), NEEDS, signal)).toEqual([low, 1]);
  });

  it('of a stream, which can be read only once, is 0 to 1, and nothing is read of it', async () => {
    const { inputs, mapping } = await inputsOf(-1, 1);
    const stream = inputs.map((input) => ({ ...input, size: null }));
    expect(await findRewardRange({ inputs: stream, mapping }, NEEDS, signal)).toEqual([0, 1]);
  });
});

describe('a check of all rewards', () => {
  it('takes what lies in the range, and verdicts whatever it is; of none it says nothing', async () => {
    expect(told(undefined, 0, 0.5, 1, null)).toBe('');
    expect(told(undefined)).toBe('');
    const range = await findRewardRange(await inputsOf(-1), NEEDS, signal);
    expect(() => new RewardCheck(range, false).assert()).not.toThrow();
    expect(told([-1, 1], true, false, -1)).toBe('');
    // what is outside of a range that the user has named is a reject of its own
    expect(told([0, 1], 10, 0)).toBe('');
  });

  it('names the first that lies outside, what there is, and a range that holds all', () => {
    expect(told(undefined, 0.5, 3, -2, 1)).toBe(
      'traces.jsonl:1: the reward is 3, expected 0 to 1; the inputs have 4 known rewards from -2 to 3, 2 of them off that; --reward-range -2,3, or the scale on which they were given',
    );
    expect(told(undefined, 5)).toContain('--reward-range 0,5,');
    expect(told(undefined, -0.5)).toContain('--reward-range -0.5,1,');
  });

  it('refuses a range that makes a half of 0 where the rewards are 0 and 1, and those alone', () => {
    expect(told([-1, 1], 0, 1, 1)).toMatch(/^--reward-range -1,1: .* 0 would count as 0\.5; leave it out/);
    for (const rewards of [[0, 1, 0.5], [0, 0.5, 1], [0, 1, -1], [0], [1, -1]])
      expect(told([-1, 1], ...rewards), `${rewards}`).toBe('');
    expect(told([0, 10], 0, 1)).toBe('');
  });
});

describe("a row's reward", () => {
  const template = { close: '\n</think>\n', open: 'Answer: ', closer: '\n' };
  const rewardOf = (reward: number, low: number, high: number) =>
    resolveReward({ ...traceOf({}), reward }, [low, high], () => expect.unreachable(), template).reward;

  it('is mapped onto 0 to 1, or rejected where it is outside', () => {
    expect([rewardOf(-1, -1, 1), rewardOf(0, -1, 1), rewardOf(1, -1, 1)]).toEqual([0, 0.5, 1]);
    expect([rewardOf(5, 0, 10), rewardOf(2.5, 2, 4), rewardOf(0.25, 0, 1)]).toEqual([0.5, 0.25, 0.25]);
    const why = (reward: number, range: string) =>
      `the reward is ${reward}, expected ${range}: --reward-range low,high maps other scales`;
    expect(() => rewardOf(-0.001, 0, 1)).toThrow(why(-0.001, '0 to 1'));
    expect(() => rewardOf(11, 0, 10)).toThrow(why(11, '0 to 10'));
  });
});
