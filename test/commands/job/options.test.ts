// Flags of the method in, options out: what shapes credit arrives, and what changes nothing leaves no mark.
import { describe, expect, it } from 'vitest';
import { resolveCreditOptions } from '../../../dist/commands/job/options.js';

const FLAGS = {
  ...{ estimator: 'pr', sigma: 'softmax', baseline: 'auto', residual: 'uniform' },
  ...{ within: 'uniform', rewardRange: '0,1' },
};

describe('--tau, --smooth, --penalty and --lambda', () => {
  it('are what they say', () => {
    const shaping = { tau: '.5', smooth: '2', penalty: '3', lambda: '.25' };
    const found = resolveCreditOptions({ ...FLAGS, ...shaping });
    expect(found).toMatchObject({ tau: 0.5, smooth: 2, penalty: 3, lambda: 0.25 });
  });

  // a run goes on where its configuration is the same: flags that say what holds without them are no other run
  it('that change nothing are as if they had not been given', () => {
    const neutral = { tau: '1', smooth: '0', penalty: '1', lambda: '0' };
    expect(resolveCreditOptions({ ...FLAGS, ...neutral })).toEqual(resolveCreditOptions(FLAGS));
  });
});
