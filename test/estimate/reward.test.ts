// ζ of a trace: the row's reward on the scale of --reward-range, and what is not on it.
import { describe, expect, it } from 'vitest';
import { resolveReward } from '../../dist/estimate/reward.js';
import { traceOf } from '../support/io-helpers.js';

const template = { close: '\n</think>\n', open: 'Answer: ', closer: '\n' };
const rewardOf = (reward: number, low: number, high: number) =>
  resolveReward({ ...traceOf({}), reward }, [low, high], () => expect.unreachable(), template);

describe("a row's reward", () => {
  it.each([
    [-1, -1, 1, 0],
    [0, -1, 1, 0.5],
    [1, -1, 1, 1],
    [5, 0, 10, 0.5],
    [2.5, 2, 4, 0.25],
    [0.25, 0, 1, 0.25],
  ])('%f between %f and %f is ζ = %f', (reward, low, high, zeta) => {
    expect(rewardOf(reward, low, high)).toEqual({ reward: zeta, status: [] });
  });

  it.each([
    [-0.001, 0, 1],
    [1.001, 0, 1],
    [-1.5, -1, 1],
    [11, 0, 10],
  ])('%f is none of %f to %f: the row is rejected, naming the flag', (reward, low, high) => {
    expect(() => rewardOf(reward, low, high)).toThrow(
      expect.objectContaining({
        code: 'reward',
        message: `the reward is ${reward}, expected ${low} to ${high}: --reward-range low,high maps other scales`,
      }),
    );
  });
});
