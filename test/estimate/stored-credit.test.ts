// What a stored configuration says of credit: what it was made with again, or nothing where it says what nobody knows.
import { describe, expect, it } from 'vitest';
import { creditConfig } from '../../dist/estimate/credit.js';
import { knownCredit, storedCredit } from '../../dist/estimate/stored-credit.js';
import { named } from '../support/estimators.js';

const CREDIT = {
  estimator: named('pr'),
  ...({ rule: 'rudder', others: ['share', 'entropy'], baseline: 0.5 } as const),
  ...({ residual: 'answer', within: 'entropy', rewardRange: [-1, 1], method: 'segment' } as const),
  ...({
    normalisers: ['dapo', 'batch_tokens'],
    tau: 0.5,
    smooth: 2,
    even: 0.8,
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
    expect(storedCredit({ ...config, [key]: 'unheard-of' })).toBe(undefined);
    expect(storedCredit({ ...config, [key]: ['share', 'unheard-of'] })).toBe(undefined);
  });

  it.each(['estimator', 'rule', 'residual', 'within', 'baseline'])('gives nothing without %s', (key) => {
    const { [key as 'rule']: _, ...less } = creditConfig(CREDIT);
    expect(storedCredit(less)).toBe(undefined);
  });

  it.each([
    [{ penalty: 2 }, '--penalty 2'],
    [{ lambda: 0.25 }, '--lambda 0.25'],
    [{ rule: ['share', 'abs'] }, '--sigma abs'],
    [{ within: 'nowhere' }, 'in a way that'],
  ])('refuses by name what an earlier version had: %j', (gone, name) => {
    const config = { ...creditConfig(CREDIT), ...gone };
    expect(storedCredit(config)).toBe(undefined);
    expect(() => knownCredit('old.parquet', config)).toThrow(
      `old.parquet: was scored ${name.startsWith('-') ? `with ${name}, which` : name}`,
    );
  });

  it('needs the weights of an estimator that is calibrated', () => {
    for (const estimator of ['calibrated', 'siblings'])
      expect(storedCredit({ ...creditConfig(CREDIT), estimator })).toBe(undefined);
  });
});
