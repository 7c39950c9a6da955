/** What attributions are stored as, and where σ is none of them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { redistribute, type SigmaInput, type SigmaOptions } from '../../dist/credit/sigma.js';
import { ESTIMATORS } from '../../dist/estimate/registry.js';
import { summedAttributions } from '../../dist/estimate/value.js';
import { named } from '../support/estimators.js';

const SHARE: SigmaOptions = { rule: 'share', residual: 'uniform', within: 'uniform' };
const ATTRIBUTIONS = ESTIMATORS.filter(({ isAttribution }) => isAttribution).map(({ name }) => name);

/** Three thought segments of 2, 3 and 5 tokens that count for 1, 3 and 0, and an answer. */
const TRACE: SigmaInput = {
  ends: Int32Array.of(2, 5, 10, 12),
  answered: true,
  values: Float32Array.of(0, 1, 4, 4),
  estimator: named('surprise'),
  entropies: new Float32Array(12),
  logprobs: new Float32Array(12),
  reward: 0,
  baseline: 0.25,
};

describe('sums of attributions', () => {
  it('have the attributions as their differences, to float32', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: -50, max: 50, noNaN: true }), { maxLength: 40 }), (list) => {
        const values = summedAttributions(Float64Array.from(list));
        expect(values).toHaveLength(list.length + 1);
        expect(values[0]).toBe(0);
        for (const [k, a] of list.entries())
          expect(Math.abs((values[k + 1] as number) - (values[k] as number) - a)).toBeLessThan(3e-4);
      }),
    );
  });
});

describe('σ of attributions', () => {
  it('is uniform where nothing counts: below .001 nats', () => {
    for (const estimator of ATTRIBUTIONS) {
      // the trace is wrong: what has a sign of its own helps towards that where it is negative
      const of = (a: number) =>
        redistribute({ ...TRACE, estimator: named(estimator), values: Float32Array.of(0, -a, -a, -a) }, SHARE)
          .fallback;
      expect(of(9e-4), estimator).toBe('uniform:flat-values');
      expect(of(2e-3), estimator).toBeUndefined();
    }
  });
});
