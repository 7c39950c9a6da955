// What verify computes again of a row: the codes of further credits beside those of the first.
import { describe, expect, it } from 'vitest';
import { recomputedFaults } from '../../dist/commands/scored/recompute.js';
import { type CreditOptions, creditOf } from '../../dist/estimate/credit.js';

const CREDIT: CreditOptions = {
  ...({ estimator: 'pr', rule: 'share', residual: 'uniform', within: 'uniform', baseline: 'auto' } as const),
  ...({ rewardRange: [0, 1], others: ['signed', 'rudder', 'uniform'] } as const),
};
const VALUES = Float32Array.of(0.97, 0.99);
const ENDS = Int32Array.of(3, 4);

/** A row as score writes it, with other cells. @param groupMean b; undefined without a group */
function faults(reward: number, groupMean: number | undefined, change: (status: string) => string): string {
  const made = creditOf(
    {
      ...{ ends: ENDS, answered: true, values: VALUES, reward, groupMean },
      ...{ utilities: Float32Array.of(1), entropies: new Float32Array(4), logprobs: new Float32Array(4) },
    },
    CREDIT,
  );
  const { sigma, deltas, baseline, requested } = made;
  const sums = [0, 3].map((from, k) => sigma.subarray(from, ENDS[k]).reduce((sum, s) => sum + s, 0));
  const cells: Record<string, unknown> = {
    ...{ id: 'a', reward, baseline, sigma, value_start: VALUES[0], reference_utilities: [1] },
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
  return recomputedFaults(row, CREDIT).join('\n');
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
      expect(faults(reward, mean, (status) => status)).toBe('');
  });

  it('is told where a code is gone, and where one is there without a reason', () => {
    expect(faults(1, 0.5, (status) => status.replace('signed:small-return', 'ok'))).toMatch(
      /status is ok, the further credits have signed:small-return/,
    );
    expect(faults(1, 0.5, (status) => `rudder:small-return;${status}`)).toMatch(/the further credits have/);
  });
});
