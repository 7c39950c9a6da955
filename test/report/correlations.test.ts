/** Correlations inside traces: against their definitions, and what their intervals promise. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { correlate } from '../../dist/report/correlations.js';
import { centeredPearson, centeredSpearman, type Pair } from '../oracle/compare.js';
import { seeded } from '../oracle/toy.js';

const told = (traces: readonly Pair[], groupOf = (n: number) => `${n}`) =>
  correlate(
    traces.map((trace, n) => ({
      group: groupOf(n),
      x: Float64Array.from(trace, ([x]) => x),
      y: Float64Array.from(trace, ([, y]) => y),
    })),
  );

it('are those of the definition, ties included', () => {
  const value = fc.integer({ min: -3, max: 3 });
  const trace = fc.array(fc.tuple(value, value), { minLength: 2, maxLength: 6 });
  fc.assert(
    fc.property(fc.array(trace, { minLength: 1, maxLength: 5 }), (traces) => {
      const { pearson, spearman, segments } = told(traces);
      expect(segments).toBe(traces.flat().length);
      for (const [found, expected] of [
        [pearson.value, centeredPearson(traces)],
        [spearman.value, centeredSpearman(traces)],
      ] as const)
        if (Number.isNaN(expected)) expect(found).toBeNull();
        else expect(found).toBeCloseTo(expected, 9);
    }),
    { numRuns: 200 },
  );
});

it('the outcome is no agreement: credits that differ between traces alone do not correlate', () => {
  const shifted: Pair[] = [0, 10, 20].map((level) => [
    [level + 1, level + 1],
    [level - 1, level + 1],
    [level + 1, level - 1],
    [level - 1, level - 1],
  ]);
  expect(told(shifted).pearson.value).toBeCloseTo(0, 12);
});

it('a trace of one segment does not count, and constant credits have no coefficient', () => {
  const found = told([[[1, 2]], [2, 3].map((y) => [1, y] as const)]);
  expect(found).toMatchObject({ traces: 1, groups: 1, segments: 2 });
  expect(found.pearson).toEqual({ value: null, low: null, high: null });
  // the mean of three times .1 is not .1: what rounding leaves of a constant credit is no credit
  const rounded = [0.7, 0.2, 0.4].map((x) => [x, 0.1] as const);
  for (const trace of [rounded, rounded.map(([x, y]) => [y, x] as const)])
    expect(told([trace, trace]).pearson.value).toBeNull();
});

it('intervals hold the truth in about 95 of 100 samples, and are resamples of groups', () => {
  const random = seeded(5);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  // x and y share half of their variance, so that r = .5
  const drawn = (): Pair =>
    Array.from({ length: 8 }, () => {
      const shared = normal();
      return [shared + normal(), shared + normal()] as const;
    });
  const holds = Array.from({ length: 100 }, () => {
    const { low, high } = told(Array.from({ length: 40 }, drawn)).pearson;
    return (low as number) <= 0.5 && 0.5 <= (high as number);
  });
  expect(holds.filter(Boolean).length).toBeGreaterThanOrEqual(86);
  // the same traces as copies of a few groups say no more than these groups do
  const own = Array.from({ length: 10 }, drawn);
  const copies = Array.from({ length: 4 }, () => own).flat();
  const width = ({ pearson: { low, high } }: ReturnType<typeof told>) => (high as number) - (low as number);
  expect(width(told(copies, (n) => `${n % 10}`))).toBeCloseTo(width(told(own)), 9);
  expect(told(own, () => 'one').pearson.low).toBeNull();
});
