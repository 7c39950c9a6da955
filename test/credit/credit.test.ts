// Which baseline a trace gets, and the status of a trace that gets none.
import { describe, expect, it } from 'vitest';
import { type CreditOptions, credited } from '../../dist/credit/credit.js';
import type { ValueJob } from '../../dist/estimate/estimator.js';
import { valuedRow } from '../../dist/estimate/stages.js';
import { named } from '../support/estimators.js';
import { traceOf } from '../support/io-helpers.js';

const VALUES = Float32Array.of(0.25, 0.5, 0.75);

/** A trace of two segments of two tokens whose value rises twice by .25. */
function credit(
  reward: number | null,
  groupMean: number | undefined,
  opts: Partial<CreditOptions> = {},
  peersMean?: number,
) {
  const segmentation = {
    exits: Int32Array.of(0, 2, 4),
    thoughtEnds: Int32Array.of(2, 4),
    tokens: 4,
    answered: false,
  };
  const item = {
    ...{ trace: traceOf({}), promptIds: Int32Array.of(1), completionIds: Int32Array.of(1, 2, 3, 4) },
    tokens: { text: 'abcd', units: Int32Array.of(0, 1, 2, 3, 4), textEnd: 4 },
    ...{ chars: null, status: [], reward: { reward, status: [] }, groupMean, peersMean, groupStd: 0.25 },
    ...{ referenceSet: [{ answer: '7', utility: 1 }], continuations: [] },
  } as unknown as ValueJob;
  const ones = Float32Array.of(1, 1, 1, 1);
  const result = { entropies: ones, logprobs: ones.map((h) => -h), segmentation, branches: [] };
  const row = credited(valuedRow(item, result, { values: VALUES }), item, {
    ...({ rule: 'rudder', residual: 'uniform', within: 'uniform' } as const),
    ...({ estimator: named('pr'), baseline: 'auto' } as const),
    rewardRange: [0, 1],
    ...opts,
  });
  const { group_std: std, token_advantage: outcome } = row.requested ?? {};
  const { status, baseline } = row;
  const beside = std === undefined ? {} : { std, outcome: (outcome as Float32Array | null)?.[0] };
  return { status, baseline, sigma: [...(row.sigma ?? [])], ...beside };
}

describe('the baseline', () => {
  it.each([
    ['the mean of a group', 1, 0.625, 'auto', 0.625],
    ['v̂(s_0) without a group', 1, undefined, 'auto', 0.25],
    ['v̂(s_0) where it is asked for', 1, 0.625, 'value', 0.25],
    ['a number', 1, 0.625, 0.125, 0.125],
  ] as const)('is %s', (_, reward, groupMean, baseline, expected) => {
    expect(credit(reward, groupMean, { baseline })).toMatchObject({ baseline: expected, status: [] });
  });

  it('is the mean of the peers where they are asked for, and then has no deviation of a group', () => {
    const opts = { baseline: 'rloo', method: 'hierarchical', alpha: 0, beta: 0 } as const;
    const found = credit(1, 0.625, opts, 0.5);
    expect(found).toMatchObject({ baseline: 0.5, status: [], std: null, outcome: 0.5 });
    // and without peers there is none, whatever v̂(s_0) is
    expect(credit(1, 1, { baseline: 'rloo' })).toMatchObject({
      baseline: null,
      status: ['uniform:no-baseline'],
    });
  });

  it('of hierarchical credit gives the outcome over the deviation of the group, and ζ − b without one', () => {
    const opts = { method: 'hierarchical', alpha: 0, beta: 0 } as const;
    const outcome = credit(1, 0.5, opts) as { outcome?: number };
    expect(outcome.outcome).toBeCloseTo(0.5 / 0.2501, 5);
    expect(credit(1, undefined, opts)).toMatchObject({ std: null, outcome: 0.75 });
    expect(credit(1, 0.5, { ...opts, baseline: 0.125 })).toMatchObject({ std: null, outcome: 0.875 });
  });

  it.each([0.5, 0.999, 0.001])('v̂(s_0) is none for a reward of %f between right and wrong', (reward) => {
    const uniform = { status: ['uniform:graded-reward'], baseline: null, sigma: [0.25, 0.25, 0.25, 0.25] };
    expect(credit(reward, undefined)).toEqual(uniform);
    expect(credit(reward, 0.625, { baseline: 'value' })).toEqual(uniform);
    // a mean of rewards and a number are on the reward's scale
    expect(credit(reward, 0.875).status).toEqual([]);
    expect(credit(reward, undefined, { baseline: 0.875 }).status).toEqual([]);
  });

  it('is missing for a group of one where the group is asked for', () => {
    expect(credit(1, undefined, { baseline: 'group' })).toMatchObject({
      status: ['uniform:no-baseline'],
      baseline: null,
    });
  });
});
