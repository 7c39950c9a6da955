// Flags of the method in, options out, and a configuration as flags again: what shapes credit arrives, and what changes nothing leaves no mark.
import { describe, expect, it } from 'vitest';
import { creditConfig } from '../../dist/credit/credit.js';
import { resolveCreditOptions, STORED } from '../../dist/estimate/credit-flags.js';
import { named } from '../support/estimators.js';

const FLAGS = {
  ...{ estimator: 'pr', sigma: 'softmax', baseline: 'auto', residual: 'uniform' },
  ...{ within: 'uniform', steps: 'free', rewardRange: '0,1' },
};
const CREDIT = {
  estimator: named('given'),
  ...({ rule: 'rudder', others: ['share', 'softmax'], baseline: 0.5 } as const),
  ...({ residual: 'answer', within: 'entropy', rewardRange: [-1, 1], method: 'segment' } as const),
  ...({ tau: 0.5, mix: 0.8, cap: 4, steps: 'scaled' } as const),
};

describe('flags that shape credit', () => {
  it('are what they say; a run goes on where its configuration is the same, so what changes nothing is left out', () => {
    expect(resolveCreditOptions({ ...FLAGS, tau: '.5', steps: 'scaled' })).toMatchObject({
      ...{ tau: 0.5, steps: 'scaled' },
    });
    const share = { ...FLAGS, sigma: 'share' };
    expect(resolveCreditOptions({ ...share, mix: '.8', cap: '4' })).toMatchObject({ mix: 0.8, cap: 4 });
    expect(resolveCreditOptions({ ...share, mix: '.1' })).toEqual(resolveCreditOptions(share));
    expect(resolveCreditOptions({ ...FLAGS, tau: '1' })).toEqual(resolveCreditOptions(FLAGS));
  });

  it.each([
    [{ mix: '.5' }, '--mix has no meaning with --sigma softmax'],
    [{ sigma: 'share', mix: '1.5' }, '--mix 1.5: expected a number from 0 to 1'],
    [{ cap: '4' }, '--cap has no meaning with --sigma softmax'],
    [{ sigma: 'share', cap: '.9' }, '--cap .9: expected a number from 1 on'],
    [{ residual: 'answer' }, '--residual answer has no meaning with --sigma softmax'],
    [{ alpha: '1' }, '--alpha has no meaning with --method sigma'],
    [{ steps: 'bold' }, '--steps bold'],
    [{ steps: 'scaled', sigma: 'entropy' }, '--steps scaled has no meaning with --sigma entropy'],
    [{ steps: 'scaled', estimator: 'surprise' }, 'sums of attributions'],
    [{ steps: 'smoothed', estimator: 'joint-log' }, 'logarithms'],
    [{ steps: 'smoothed', estimator: 'progress' }, "a prover's"],
  ])('%j is refused', (flags, message) => {
    expect(() => resolveCreditOptions({ ...FLAGS, ...flags })).toThrow(message);
  });
});

describe('a stored configuration', () => {
  it('gives the options again of which it was made', () => {
    expect(STORED.creditOf('it', creditConfig(CREDIT))).toEqual(CREDIT);
  });

  it.each(['estimator', 'rule', 'residual', 'within', 'baseline', 'method', 'steps'])(
    'is refused by name where %s is unknown',
    (key) => {
      for (const unheard of ['unheard-of', ['share', 'unheard-of']])
        expect(() => STORED.creditOf('old.parquet', { ...creditConfig(CREDIT), [key]: unheard })).toThrow(
          /^old\.parquet: was scored in a way that this version does not know: .*unheard-of/,
        );
    },
  );

  it('needs the weights of an estimator that is calibrated', () => {
    for (const estimator of ['calibrated', 'siblings'])
      expect(() => STORED.creditOf('it', { ...creditConfig(CREDIT), estimator })).toThrow(estimator);
  });
});
