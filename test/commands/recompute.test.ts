// What verify computes again of a row: the codes of further credits beside those of the first.
import { describe, expect, it } from 'vitest';
import { recomputedFaults } from '../../dist/commands/scored/recompute.js';
import { type CreditOptions, creditOf } from '../../dist/estimate/credit.js';
import { named } from '../support/estimators.js';

const CREDIT: CreditOptions = {
  estimator: named('pr'),
  ...({ rule: 'share', residual: 'uniform', within: 'uniform', baseline: 'auto' } as const),
  ...({ rewardRange: [0, 1], others: ['signed', 'rudder', 'uniform'] } as const),
};
const VALUES = Float32Array.of(0.97, 0.99);
const ENDS = Int32Array.of(3, 4);

/** A row as score writes it, with other cells. @param groupMean b; undefined without a group */
function faults(
  reward: number,
  groupMean: number | undefined,
  change: (status: string) => string = (status) => status,
  [from, to]: readonly [CreditOptions, CreditOptions] = [CREDIT, CREDIT],
): string {
  const made = creditOf(
    {
      ...{ ends: ENDS, answered: true, values: VALUES, reward, groupMean },
      ...{ utilities: Float32Array.of(1), entropies: new Float32Array(4), logprobs: new Float32Array(4) },
    },
    from,
  );
  const { sigma, deltas, baseline, requested } = made;
  const sums = [0, 3].map((from, k) => sigma.subarray(from, ENDS[k]).reduce((sum, s) => sum + s, 0));
  const cells: Record<string, unknown> = {
    ...{ id: 'a', reward, baseline, sigma, value_start: VALUES[0], reference_utilities: [1] },
    ...(groupMean === undefined ? { group: null } : { group: 'g' }),
    segments: [...ENDS].map((end, k) => ({
      ...{ start: k === 0 ? 0 : ENDS[0], end, kind: k === 0 ? 'thought' : 'answer', entropy: 0 },
      ...{ value: k === 0 ? VALUES[1] : null, delta: deltas[k], sigma: sums[k] },
    })),
    ...requested,
    status: change([...made.status].sort().join(';') || 'ok'),
  };
  const row = {
    number: 0,
    has: (name: string) => name in cells,
    cell: (name: string) => cells[name] ?? null,
  };
  return recomputedFaults(row, to).join('\n');
}

describe('the status of further credits', () => {
  it('passes as it was written, whatever the row does not tell of a missing baseline', () => {
    for (const [reward, mean] of [
      [1, 0.5],
      [0, 0.5],
      [1, 1],
      [0.5, undefined],
      [1, undefined],
    ] as const)
      expect(faults(reward, mean)).toBe('');
  });

  it('is told where a code is gone, and where one is there without a reason', () => {
    expect(faults(1, 0.5, (status) => status.replace('signed:small-return', 'ok'))).toMatch(
      /status is ok, the further credits have signed:small-return/,
    );
    expect(faults(1, 0.5, (status) => `rudder:small-return;${status}`)).toMatch(/the further credits have/);
  });
});

describe('a baseline', () => {
  /** A row whose numbers all follow from one baseline, by a configuration that says another. */
  const told = (
    made: CreditOptions['baseline'],
    said: CreditOptions['baseline'],
    mean?: number,
    estimator: CreditOptions['estimator'] = named('pr'),
  ) =>
    faults(1, mean, undefined, [
      { ...CREDIT, estimator, baseline: made },
      { ...CREDIT, estimator, baseline: said },
    ]);
  const start = VALUES[0];

  it('is V(s_0) or the number that the configuration says, whatever else the row has been made by', () => {
    for (const each of ['value', 'auto', 0.25] as const) expect(told(each, each)).toBe('');
    expect(told('group', 'group', 0.25)).toBe('');
    expect(told(0.25, 'value')).toBe(`baseline is 0.25, expected V(s_0), ${start}`);
    expect(told('value', 0.25)).toBe(`baseline is ${start}, expected the 0.25 of the configuration`);
    expect(told(0.25, 'auto')).toBe(`baseline is 0.25 without a group, expected V(s_0), ${start}`);
    // with one it is the group's mean, which the row does not tell, but for values that are expected rewards
    expect(told(0.25, 'auto', 0.5)).toBe('');
    expect(told(0.25, 'auto', 0.5, named('given'))).toBe(`baseline is 0.25, expected V(s_0), ${start}`);
  });
});
