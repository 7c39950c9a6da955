/** Correlations inside traces: published values, naive oracles, what permuting does to them, and what leaves them alone. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { correlate, pairTraces } from '../../dist/compare/correlations.js';
import type { CreditTable, Outcome } from '../../dist/compare/credit-table.js';
import {
  kendallSums,
  midranks,
  pearsonSums,
  type Sums,
  spearmanSums,
  twoSided,
} from '../../dist/compare/within.js';
import {
  centredPearson,
  centredSpearman,
  type Pair,
  pairedKendall,
  permutations,
  rankAmong,
} from '../oracle/compare.js';
import { seeded } from '../oracle/toy.js';
import { tableOf as tableOfLists, told } from '../support/credit-tables.js';

const floats = (list: readonly number[]) => Float64Array.from(list);
const coefficient = ({ cross, ownX, ownY }: Sums) => cross / Math.sqrt(ownX * ownY);

/** A table of two credits. */
const tableOf = (traces: readonly Pair[], rewards: readonly number[] = traces.map(() => 1)) =>
  tableOfLists(
    { a: traces.map((trace) => trace.map(([x]) => x)), b: traces.map((trace) => trace.map(([, y]) => y)) },
    rewards,
  );

const WHOLE = { outcome: 'all', last: 1 } as const;

function correlated(table: CreditTable, { outcome, last }: { outcome: Outcome; last: number } = WHOLE) {
  const [a, b] = table.credits as [CreditTable['credits'][0], CreditTable['credits'][0]];
  const found = correlate(table, pairTraces(table, a, b, last), outcome);
  return Object.fromEntries(
    Object.entries(found).map(([name, { figure, ...rest }]) => {
      return [name, { value: told(figure, table.groups), ...rest }];
    }),
  );
}

// examples of scipy's documentation of pearsonr, spearmanr and kendalltau (scipy 1.17 gives these digits)
describe('one trace', () => {
  it('has the coefficients that scipy documents', () => {
    const days = floats([1, 2, 3, 4, 5, 6, 7]);
    expect(coefficient(pearsonSums(days, floats([10, 9, 2.5, 6, 4, 3, 2])))).toBeCloseTo(
      -0.8285038835884277,
      14,
    );
    const five = [floats([1, 2, 3, 4, 5]), floats([5, 6, 7, 8, 7])] as const;
    expect(coefficient(spearmanSums(...five))).toBeCloseTo(0.8207826816681233, 14);
    const tied = [floats([12, 2, 1, 12, 2]), floats([1, 4, 7, 1, 0])] as const;
    const kendall = kendallSums(...tied);
    expect(coefficient(kendall)).toBeCloseTo(-0.4714045207910316, 14);
    expect(twoSided(kendall.cross / Math.sqrt(kendall.variance))).toBeCloseTo(0.28274545993277467, 14);
  });

  it('with many ties has those of scipy too', () => {
    const x = floats([12, 2, 1, 12, 2, 7, 7, 3, 9, 4]);
    const y = floats([1, 4, 7, 1, 0, 5, 5, 8, 2, 2]);
    expect([...midranks(x)]).toEqual([9.5, 2.5, 1, 9.5, 2.5, 6.5, 6.5, 4, 8, 5]);
    expect(coefficient(pearsonSums(x, y))).toBeCloseTo(-0.47106305496877676, 14);
    expect(coefficient(spearmanSums(x, y))).toBeCloseTo(-0.4012345679012345, 14);
    const kendall = kendallSums(x, y);
    expect(coefficient(kendall)).toBeCloseTo(-0.35714285714285715, 14);
    expect(twoSided(kendall.cross / Math.sqrt(kendall.variance))).toBeCloseTo(0.16947468647765251, 14);
  });

  it.each([
    [0, 1],
    [1e-8, 0.9999999920211544],
    [0.5, 0.6170750774519739],
    [1, 0.31731050786291415],
    [-1.959963984540054, 0.050000000000000024],
    [2.5, 0.012419330651552277],
    [2.83, 0.0046548004134631124],
    [3, 0.0026997960632601918],
    [5, 5.73303143758389e-7],
    [10, 1.5239706048321166e-23],
    [30, 9.81342785429749e-198],
  ])('P(|Z| ≥ |%d|) is %d', (z, p) => {
    expect(Math.abs(twoSided(z) / p - 1)).toBeLessThan(1e-12);
  });
});

const numbersWithTies = fc.array(fc.tuple(fc.integer({ min: -3, max: 3 }), fc.integer({ min: -3, max: 3 })), {
  maxLength: 7,
});
const anyTraces = fc.array(numbersWithTies, { minLength: 1, maxLength: 8 });

describe('several traces', () => {
  it('have the coefficients of the oracle, ties and constants included', () => {
    fc.assert(
      fc.property(anyTraces, (traces) => {
        const found = correlated(tableOf(traces));
        const expected = traces.filter((trace) => trace.length > 1);
        for (const [name, oracle] of [
          ['pearson', centredPearson],
          ['spearman', centredSpearman],
          ['kendall', pairedKendall],
        ] as const) {
          const value = found[name]?.value as number;
          const wanted = oracle(expected);
          if (Number.isNaN(wanted)) expect(value).toBeNaN();
          else expect(value).toBeCloseTo(wanted, 12);
        }
        const all = traces.filter((trace) => trace.length > 0).flat();
        const one = centredPearson([all]);
        const xs = all.map(([x]) => x);
        const ys = all.map(([, y]) => y);
        const ranked = centredPearson([all.map(([x, y]) => [rankAmong(xs, x), rankAmong(ys, y)] as const)]);
        for (const [name, wanted] of [
          ['pooled_pearson', one],
          ['pooled_spearman', ranked],
        ] as const)
          if (Number.isNaN(wanted)) expect(found[name]?.value).toBeNaN();
          else expect(found[name]?.value).toBeCloseTo(wanted, 9);
      }),
      { numRuns: 300 },
    );
  });

  it('have the variance that all permutations of a trace give', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 3 })), {
          minLength: 2,
          maxLength: 6,
        }),
        (trace) => {
          const x = floats(trace.map(([value]) => value));
          const orders = permutations(trace.map(([, value]) => value)).map(floats);
          for (const sumsOf of [pearsonSums, spearmanSums, kendallSums]) {
            const { variance } = sumsOf(x, orders[0] as Float64Array);
            const crosses = orders.map((y) => sumsOf(x, y).cross);
            const square = crosses.reduce((sum, cross) => sum + cross * cross, 0) / crosses.length;
            expect(crosses.reduce((sum, cross) => sum + cross, 0) / crosses.length).toBeCloseTo(0, 9);
            expect(variance).toBeCloseTo(square, 9);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it('have uniform p-values where nothing goes together, however the credit of a trace is distributed', () => {
    const random = seeded(9);
    const ps: Record<string, number[]> = { pearson: [], spearman: [], kendall: [] };
    for (let n = 0; n < 400; n++) {
      const traces = Array.from(
        { length: 12 },
        (_, i): Pair =>
          Array.from(
            { length: 3 + (i % 9) },
            () => [i + random() ** 3, Math.floor(random() * 4) - i] as const,
          ),
      );
      const found = correlated(tableOf(traces));
      for (const [name, list] of Object.entries(ps)) list.push(found[name]?.p as number);
    }
    // four standard errors of a share of 400
    for (const list of Object.values(ps))
      for (const level of [0.05, 0.25, 0.5, 0.75])
        expect(Math.abs(list.filter((p) => p <= level).length / 400 - level)).toBeLessThan(
          4 * Math.sqrt((level * (1 - level)) / 400),
        );
  });
});

describe('slices', () => {
  const traces: Pair[] = [
    [
      [1, 1],
      [2, 2],
      [3, 3],
      [9, 1],
      [1, 9],
    ],
    [
      [1, 2],
      [2, 1],
      [3, 0],
      [1, 1],
      [2, 2],
    ],
  ];

  it('are the last share of a trace, rounded up, and the traces of one outcome', () => {
    const table = tableOf(traces, [1, 0]);
    const last = correlated(table, { outcome: 'all', last: 0.25 });
    expect(last.pearson?.segments).toBe(4);
    expect(last.pearson?.value).toBeCloseTo(centredPearson(traces.map((trace) => trace.slice(3))), 12);
    expect(correlated(table, { outcome: 'right', last: 0.6 }).pearson?.value).toBeCloseTo(
      centredPearson([(traces[0] as Pair).slice(2)]),
      12,
    );
    expect(correlated(table, { outcome: 'wrong', last: 1 }).pearson).toMatchObject({
      traces: 1,
      segments: 5,
    });
    expect(
      correlated(tableOf(traces, [Number.NaN, 0.5]), { outcome: 'right', last: 1 }).pearson?.traces,
    ).toBe(0);
  });

  it('leave out a segment where one credit is not known', () => {
    const table = tableOf([
      [
        [1, 3],
        [Number.NaN, 5],
        [2, 2],
        [3, Number.NaN],
        [4, 1],
      ],
    ]);
    const found = correlated(table).pearson;
    expect(found).toMatchObject({ traces: 1, segments: 3 });
    expect(found?.value).toBeCloseTo(
      centredPearson([
        [
          [1, 3],
          [2, 2],
          [4, 1],
        ],
      ]),
      12,
    );
  });
});

describe('notes', () => {
  const notesOf = (traces: readonly Pair[]) => correlated(tableOf(traces)).pearson?.notes;
  const random = seeded(1);
  const varied = (): Pair => Array.from({ length: 5 }, () => [random(), random()] as const);
  const many = Array.from({ length: 10 }, varied);

  it('tell of few traces, few segments, credits that do not move, and ties', () => {
    expect(notesOf(many)).toEqual([]);
    expect(notesOf(many.slice(1))).toEqual(['few-groups']);
    expect(notesOf(many.slice(5))).toEqual(['few-groups', 'few-segments']);
    // many traces of few groups are few for an interval, which draws groups
    const grouped = {
      ...tableOf([...many, ...many]),
      groups: Int32Array.from({ length: 20 }, (_, i) => i >> 2),
    };
    expect(correlated(grouped).pearson?.notes).toEqual(['few-groups']);
    const flat = many.map((trace, i) => (i % 2 === 0 ? trace.map(([x]) => [x, 7] as const) : trace));
    expect(notesOf(flat)).toEqual(['flat', 'ties']);
    expect(notesOf(many.map((trace, i) => (i < 4 ? trace.map(([x]) => [x, 7] as const) : trace)))).toEqual(
      [],
    );
    const tied = many.map((trace) => trace.map(([x], k) => [x, k === 0 ? 1 : 0] as const));
    expect(notesOf(tied)).toEqual(['ties']);
    const constant = correlated(tableOf(many.map((trace) => trace.map(([x]) => [x, 0.1] as const)))).pearson;
    expect(constant?.value).toBeNaN();
    expect(constant?.p).toBeNaN();
  });
});
