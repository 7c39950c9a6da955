// Hierarchical credit: the oracle's numbers, what α = 0 and β = 0 leave, and the deviation of a group however it is read.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CreditOptions,
  creditConfig,
  groupMeanOf,
  type Rewarded,
  withContiguousMeans,
} from '../../dist/credit/credit.js';
import { HIERARCHICAL, requestedOf } from '../../dist/credit/requested.js';
import { STORED } from '../../dist/estimate/credit-flags.js';
import { isBad } from '../../dist/rows.js';
import { oracleHierarchical, oracleStd } from '../oracle/hierarchical.js';
import { named } from '../support/estimators.js';
import { traceAt } from '../support/streams.js';

// fc.float alone draws mostly tiny numbers
const float = (min: number, max: number) =>
  fc.oneof(
    fc.integer({ min: 0, max: 1000 }).map((n) => Math.fround(min + ((max - min) * n) / 1000)),
    fc.float({ min: Math.fround(min), max: Math.fround(max), noNaN: true }),
  );

/** Segments of one to six tokens, an answer behind them or not. */
const traces = fc
  .record({
    lengths: fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 6 }),
    answered: fc.boolean(),
    reward: fc.constantFrom(0, 0.5, 1),
    baseline: float(0, 1),
    std: fc.option(float(0, 0.6), { nil: undefined }),
    seed: fc.array(float(0, 4), { minLength: 40, maxLength: 40 }),
  })
  .map(({ lengths, answered, reward, baseline, std, seed }) => {
    const ends = Int32Array.from(lengths, (_, k) => lengths.slice(0, k + 1).reduce((a, b) => a + b, 0));
    const T = ends[ends.length - 1] as number;
    const states = ends.length + (answered && ends.length > 1 ? 0 : 1);
    const values = Float32Array.from({ length: states }, (_, k) => (seed[k] as number) / 4);
    const entropies = Float32Array.from({ length: T }, (_, t) =>
      Math.max(0, (seed[39 - (t % 40)] as number) - 1),
    );
    return { ends, values, entropies, reward, baseline, groupStd: std };
  });

type Drawn = typeof traces extends fc.Arbitrary<infer T> ? T : never;

const OPTIONS: CreditOptions = {
  estimator: named('progress'),
  ...({ rule: 'share', baseline: 'auto', residual: 'uniform', within: 'uniform' } as const),
  ...({ rewardRange: [0, 1], method: 'hierarchical' } as const),
};

describe('hierarchical', () => {
  const advantagesOf = (trace: object, opts: Partial<CreditOptions> = {}) => {
    const { entropies: logprobs } = trace as Drawn;
    const input = { ...(trace as Drawn), answered: false, estimator: named('progress'), logprobs };
    return requestedOf(input, { ...OPTIONS, ...opts }).columns.token_advantage as Float32Array | null;
  };

  it('is the outcome and α times the progress, by the token, as the oracle has it', () => {
    fc.assert(
      fc.property(traces, float(0, 3), float(0, 3), (trace, alpha, beta) => {
        const found = advantagesOf(trace, { alpha, beta });
        const expected = oracleHierarchical(trace, alpha, beta);
        expect(found).toHaveLength(expected.length);
        for (const [t, advantage] of expected.entries())
          expect(Math.abs((found?.[t] as number) - advantage)).toBeLessThan(
            1e-6 * Math.max(1, Math.abs(advantage)),
          );
      }),
    );
  });

  it('says nothing where the reward or the baseline is unknown', () => {
    for (const unknown of [{ reward: null }, { baseline: undefined }])
      expect(advantagesOf({ ...fc.sample(traces, 1)[0], ...unknown })).toBeNull();
  });

  it('the configuration says that it is not return-equivalent', () => {
    const config = creditConfig({ ...OPTIONS, alpha: 2 });
    expect(config).toMatchObject({ method: 'hierarchical', alpha: 2, returnEquivalent: false });
    expect(STORED.creditOf('it', config)).toEqual({ ...OPTIONS, alpha: 2 });
    expect(HIERARCHICAL).toEqual({ alpha: 1, beta: 0.5 });
  });
});

describe("a group's mean and deviation", () => {
  const rewards = fc.array(fc.option(float(0, 1)), { minLength: 1, maxLength: 12 });

  it('are those of a sample, as trainers take them, and the same from a stream', () =>
    fc.assert(
      fc.asyncProperty(rewards, async (all) => {
        const known = all.filter((reward) => reward !== null);
        async function* stream(): AsyncGenerator<Rewarded> {
          for (const [n, reward] of all.entries())
            yield { trace: traceAt(n, { group: 'g', reward }), reward: { reward } };
        }
        const sum = known.reduce((a, b) => a + b, 0);
        const squares = known.reduce((a, b) => a + b * b, 0);
        const {
          peersMean: _,
          peersCount: __,
          ...found
        } = groupMeanOf({ sum, squares, count: known.length }, null);
        if (known.length === 0) expect(found).toEqual({ groupMean: undefined });
        else {
          expect(found.groupMean).toBe(sum / known.length);
          // a root takes rounding of 1e-16 for 1e-8
          expect(Math.abs((found.groupStd as number) - oracleStd(known))).toBeLessThan(1e-7);
        }
        let n = 0;
        for await (const item of withContiguousMeans(stream())) {
          if (isBad(item)) throw new Error('no trace is bad');
          expect(item).toMatchObject(found);
          // of the others alone
          const peers = all.filter((reward, i) => i !== n && reward !== null) as number[];
          n++;
          expect(item.peersCount ?? 0).toBe(peers.length);
          if (peers.length === 0) expect(item.peersMean).toBeUndefined();
          else expect(item.peersMean).toBeCloseTo(peers.reduce((a, b) => a + b, 0) / peers.length, 12);
        }
        expect(n).toBe(all.length);
      }),
    ));

  it('a single reward has no deviation, and nobody a group that is none', () => {
    expect(groupMeanOf({ sum: 1, squares: 1, count: 1 }, 1)).toEqual({
      ...{ groupMean: 1, groupStd: 0, peersCount: 0 },
    });
    expect(groupMeanOf(undefined, 1)).toEqual({ groupMean: undefined });
  });
});
