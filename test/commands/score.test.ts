// The whole program on some of the fixtures: every number against the float64 oracle, every invariant of the file.
import { beforeAll, describe, expect, it } from 'vitest';
import { redistribute } from '../../dist/estimate/sigma.js';
import { openPolicyFolder } from '../../dist/policy/folder.js';
import { PolicySession } from '../../dist/policy/run/session.js';
import { readWithHyparquet } from '../support/io-helpers.js';
import {
  describeAgainstOracle,
  exitTemplate,
  type Fixtures,
  openFixtures,
  spread,
  TOLERANCE,
  tokenIds,
} from '../support/oracle-comparison.js';
import { EMBEDDED, type ScoredRow, storedSigmaInput, storedValues } from '../support/program.js';

let fixtures: Fixtures;
beforeAll(async () => {
  fixtures = await openFixtures(4);
});

describeAgainstOracle({ everyGroup: 32, traces: 4, others: 1 });

describe('the scored file', () => {
  let rows: ScoredRow[];
  beforeAll(async () => {
    rows = await fixtures.scored('whole');
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

  it('has Σσ = 1 in every row, as stored', () => {
    for (const { sigma } of rows) {
      const sum = sigma.reduce((a, b) => a + b, 0);
      const mass = sigma.reduce((a, b) => a + Math.abs(b), 0);
      expect(Math.abs(sum - 1)).toBeLessThanOrEqual(1e-6 * Math.max(1, mass));
    }
  });

  it('has segments that tile the completion in tokens and in characters', () => {
    for (const row of rows) {
      expect(row.segments[0]?.start).toBe(0);
      expect(row.segments[0]?.char_start).toBe(0);
      expect(row.segments.at(-1)?.end).toBe(row.completion_ids.length);
      expect(row.segments.at(-1)?.char_end).toBe([...row.completion].length);
      for (const [k, segment] of row.segments.slice(1).entries()) {
        expect(segment.start).toBe(row.segments[k]?.end);
        expect(segment.char_start).toBe(row.segments[k]?.char_end);
      }
    }
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

  it('sums each reference at every exit, and the values follow from the sums', () => {
    for (const row of rows) {
      const values = storedValues(row);
      expect(row.reference_logprobs.length).toBe(values.length);
      for (const [k, sums] of row.reference_logprobs.entries())
        expect(
          sums.reduce((a, lp, n) => a + (row.reference_utilities[n] as number) * Math.exp(lp), 0),
        ).toBeCloseTo(values[k] as number, 5);
    }
  });

  it('has the σ of the default rule', () => {
    for (const row of rows) {
      const { sigma } = redistribute(storedSigmaInput(row), {
        rule: 'share',
        residual: 'uniform',
        within: 'uniform',
      });
      expect(row.sigma).toEqual([...sigma]);
    }
  });
});

describe('branch scores', () => {
  it('equal naive re-encoding of every prefix', async () => {
    const rows = await fixtures.scored('whole');
    const template = await exitTemplate();
    const session = await PolicySession.open(await openPolicyFolder(EMBEDDED));
    try {
      for (const [i, fixture] of spread(fixtures.rows, 12).entries()) {
        const row = spread(rows, 12)[i] as ScoredRow;
        const scoredIds = [...tokenIds(fixture.answer), ...template.closer];
        const exits = [2, ...row.segments.filter((s) => s.kind === 'thought').map((s) => s.end as number)];
        for (const [k, exit] of exits.entries()) {
          const prefix = [
            ...fixture.prompt_ids,
            ...fixture.completion_ids.slice(0, exit),
            ...template.close,
            ...template.open,
          ];
          const ids = Int32Array.from([...prefix, ...scoredIds]);
          const [reread] = await session.run([{ ids, promptLength: prefix.length, branches: [] }]);
          expect(reread?.logprobs).toHaveLength(scoredIds.length);
          const naive = reread?.logprobs.reduce((a, lp) => a + lp, 0) as number;
          expect(Math.abs((row.reference_logprobs[k]?.[0] as number) - naive)).toBeLessThan(TOLERANCE);
        }
      }
    } finally {
      await session.close();
    }
  });
});

/** Lists as plain arrays, int64 as numbers: what the two readers have in common. */
function plainRow(row: Record<string, unknown>): unknown {
  return JSON.parse(
    JSON.stringify(row, (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value)),
  );
}
