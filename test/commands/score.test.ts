// The whole program on some of the fixtures: every number against the float64 oracle, every invariant of the file.
import { beforeAll, describe, expect, it } from 'vitest';
import { readWithHyparquet } from '../support/io-helpers.js';
import { describeAgainstOracle, type Fixtures, openFixtures } from '../support/oracle-comparison.js';
import type { ScoredRow } from '../support/program.js';

let fixtures: Fixtures;
beforeAll(async () => {
  fixtures = await openFixtures(4);
});

describeAgainstOracle(32, 2, 1);

describe('the scored file', () => {
  let rows: ScoredRow[];
  beforeAll(async () => {
    rows = await fixtures.scored('whole', ['--estimator', 'pr']);
  });

  it('holds every trace once, in input order, with its ids untouched', () => {
    expect(rows.map((row) => row.id)).toEqual(fixtures.rows.map((row) => row.id));
    for (const [i, row] of rows.entries()) {
      expect(row.completion_ids).toEqual(fixtures.rows[i]?.completion_ids);
      expect(row.prompt_ids).toEqual(fixtures.rows[i]?.prompt_ids);
      expect(row.source_row).toBe(BigInt(i));
      expect(row.reward).toBe(fixtures.rows[i]?.reward);
      expect(row.baseline).toBe(Math.fround(fixtures.groupMean(row.group as string)));
    }
  });

  it('is the same for two independent readers', async () => {
    const other = await readWithHyparquet(fixtures.pathOf('whole'));
    expect(other.map((row) => plainRow(row))).toEqual(rows.map((row) => plainRow({ ...row })));
  });

  it('says where σ is uniform, and only there it is', () => {
    for (const row of rows) {
      const T = row.completion_ids.length;
      const uniform = row.sigma.every((sigma) => sigma === Math.fround(1 / T));
      expect(uniform, row.id).toBe(row.status !== 'ok');
      expect(row.sigma_max_weight).toBeCloseTo(Math.max(...row.sigma.map((s) => Math.abs(s))) * T, 4);
      expect(row.sigma_ess).toBeCloseTo(1 / row.sigma.reduce((a, s) => a + s * s, 0), 3);
    }
    expect(rows.some((row) => row.status === 'ok')).toBe(true);
    expect(rows.some((row) => row.status === 'uniform:small-return')).toBe(true);
  });
});

/** Lists as plain arrays, int64 as numbers: what the two readers have in common. */
function plainRow(row: Record<string, unknown>): unknown {
  return JSON.parse(
    JSON.stringify(row, (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value)),
  );
}
