/** Where σ is none of an attribution's. */
import { describe, expect, it } from 'vitest';
import { redistribute, type SigmaInput, type SigmaOptions } from '../../dist/credit/sigma.js';
import { ESTIMATORS } from '../../dist/estimate/registry.js';
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
