// What a stored configuration says of credit: what it was made with again, or nothing where it says what nobody knows.
import { describe, expect, it } from 'vitest';
import { creditConfig } from '../../dist/credit/credit.js';
import { RredcotError } from '../../dist/errors.js';
import { knownCredit, storedCredit } from '../../dist/estimate/stored-credit.js';
import { named } from '../support/estimators.js';

const CREDIT = {
  estimator: named('mc'),
  ...({ rule: 'rudder', others: ['share', 'softmax'], baseline: 0.5 } as const),
  ...({ residual: 'answer', within: 'entropy', rewardRange: [-1, 1], method: 'segment' } as const),
  ...({
    normalisers: ['dapo', 'batch_tokens', 'dr_grpo'],
    tau: 0.5,
    smooth: 2,
    mix: 0.8,
    cap: 4,
    steps: 'scaled',
  } as const),
  ...({ batchSize: 8, maxCompletionLength: 100 } as const),
};

describe('storedCredit', () => {
  it('gives the options again of which a configuration was made', () => {
    expect(storedCredit(creditConfig(CREDIT))).toEqual(CREDIT);
  });

  it.each([
    ...(['estimator', 'rule', 'residual', 'within', 'baseline', 'normalisers', 'method', 'steps'] as const),
  ])('gives nothing where %s is unknown', (key) => {
    const config = creditConfig(CREDIT);
    expect(storedCredit({ ...config, [key]: 'unheard-of' })).toBeInstanceOf(RredcotError);
    expect(storedCredit({ ...config, [key]: ['share', 'unheard-of'] })).toBeInstanceOf(RredcotError);
  });

  it.each([
    [{ penalty: 2 }, '--penalty 2'],
    [{ lambda: 0.25 }, '--lambda 0.25'],
    [{ rule: ['share', 'abs'] }, '--sigma'],
    [{ within: 'nowhere' }, '--within nowhere'],
  ])('refuses by name what an earlier version had: %j', (gone, name) => {
    const config = { ...creditConfig(CREDIT), ...gone };
    expect(() => knownCredit('old.parquet', config)).toThrow(
      `old.parquet: was scored in a way that this version does not know: ${name}`,
    );
  });

  it('needs the weights of an estimator that is calibrated', () => {
    for (const estimator of ['calibrated', 'siblings'])
      expect(storedCredit({ ...creditConfig(CREDIT), estimator })).toBeInstanceOf(RredcotError);
  });
});
