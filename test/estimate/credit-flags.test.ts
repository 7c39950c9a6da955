// Flags of the method in, options out: what shapes credit arrives, and what changes nothing leaves no mark.
import { describe, expect, it } from 'vitest';
import { resolveCreditOptions } from '../../dist/estimate/credit-flags.js';

const FLAGS = {
  ...{ estimator: 'pr', sigma: 'softmax', baseline: 'auto', residual: 'uniform' },
  ...{ within: 'uniform', steps: 'free', rewardRange: '0,1' },
};

describe('--mix, --cap, --steps, --tau and --smooth', () => {
  it('are what they say', () => {
    const shaping = { tau: '.5', smooth: '2', steps: 'scaled' };
    const found = resolveCreditOptions({ ...FLAGS, ...shaping });
    expect(found).toMatchObject({ tau: 0.5, smooth: 2, steps: 'scaled' });
    expect(resolveCreditOptions({ ...FLAGS, sigma: 'share', mix: '.8' })).toMatchObject({ mix: 0.8 });
    expect(resolveCreditOptions({ ...FLAGS, sigma: 'share', cap: '4' })).toMatchObject({ cap: 4 });
  });

  // a run goes on where its configuration is the same: flags that say what holds without them are no other run
  it('that change nothing are as if they had not been given', () => {
    const neutral = { tau: '1', smooth: '0', steps: 'free' };
    expect(resolveCreditOptions({ ...FLAGS, ...neutral })).toEqual(resolveCreditOptions(FLAGS));
    const share = { ...FLAGS, sigma: 'share' };
    expect(resolveCreditOptions({ ...share, mix: '.1' })).toEqual(resolveCreditOptions(share));
  });

  it.each([
    [{ mix: '.5' }, '--mix has no meaning with --sigma softmax'],
    [{ sigma: 'share', mix: '1.5' }, '--mix 1.5: expected a number from 0 to 1'],
    [{ cap: '4' }, '--cap has no meaning with --sigma softmax'],
    [{ sigma: 'share', cap: '.9' }, '--cap .9: expected a number from 1 on'],
    [{ steps: 'bold' }, '--steps bold'],
    [{ steps: 'scaled', sigma: 'entropy' }, '--steps scaled has no meaning with --sigma entropy'],
    [{ steps: 'scaled', estimator: 'surprise' }, 'sums of attributions'],
    [{ steps: 'smoothed', estimator: 'joint-log' }, 'logarithms'],
    [{ steps: 'smoothed', estimator: 'progress' }, "a prover's"],
  ])('%j is refused', (flags, message) => {
    expect(() => resolveCreditOptions({ ...FLAGS, ...flags })).toThrow(message);
  });
});
