/** Intervals, agreement with truth and labels, and the list of figures, each by hand or by simulation. */
import { describe, expect, it } from 'vitest';
import { type Figure, quantile, randomStream, withIntervals } from '../../dist/compare/bootstrap.js';
import {
  type CompareOptions,
  compareCredits,
  firstWrongAuc,
  firstWrongHit,
  signAgreement,
  worstAgreement,
} from '../../dist/compare/compare.js';
import type { CreditTable, NamedCredit } from '../../dist/compare/credit-table.js';
import { seeded } from '../oracle/toy.js';
import { apart, tableOf, told } from '../support/credit-tables.js';

const both = ({ credits }: CreditTable) => credits as readonly [NamedCredit, NamedCredit];

describe('intervals', () => {
  /** the mean of what each trace adds */
  const meanOf = (values: readonly number[]): Figure => ({
    terms: Float64Array.from(values.flatMap((value) => [value, 1])),
    m: 2,
    value: ([sum, n]) => (sum as number) / (n as number),
  });

  it('are the same for a seed, and others for another', () => {
    const figure = meanOf([1, 2, 3, 4, 5, 6]);
    const at = (seed: number) => withIntervals([figure], apart(6), { resamples: 200, seed });
    expect(at(1)).toEqual(at(1));
    expect(at(1)).not.toEqual(at(2));
    expect(at(1)[0]?.value).toBe(3.5);
  });

  it('of groups of several traces are those of traces that are drawn with their group, one by one', () => {
    const [units, resamples, random, draw] = [13, 203, seeded(6), randomStream(5)];
    // groups of one to four traces, none of which lie together; some traces do not count
    const groups = Int32Array.from({ length: 32 }, (_, i) => (i * 7) % (i < 26 ? units : 3));
    const values = Array.from(groups, () => random());
    const counts = values.map((_, i) => i % 5 !== 2);
    const mean = (times: readonly number[]) => {
      let [sum, n] = [0, 0];
      for (const [i, group] of groups.entries())
        for (let again = 0; counts[i] && again < (times[group] as number); again++) {
          sum += values[i] as number;
          n++;
        }
      return sum / n;
    };
    const means = Float64Array.from({ length: resamples }, () => {
      const times = new Array<number>(units).fill(0);
      for (let i = 0; i < units; i++) {
        const drawn = Math.floor((draw() / 2 ** 32) * units);
        times[drawn] = (times[drawn] as number) + 1;
      }
      return mean(times);
    }).sort();
    const terms = Float64Array.from(values.flatMap((value, i) => (counts[i] ? [value, 1] : [0, 0])));
    const [found] = withIntervals([{ ...meanOf([]), terms }], groups, { resamples, seed: 5 });
    expect(found?.value).toBeCloseTo(mean(new Array<number>(units).fill(1)), 14);
    expect(found?.low).toBeCloseTo(quantile(means, 0.025), 13);
    expect(found?.high).toBeCloseTo(quantile(means, 0.975), 13);
  });

  it('of a mean are as wide as its standard error says, and hold it as often as they should', () => {
    const random = seeded(2);
    let held = 0;
    const widths: number[] = [];
    for (let n = 0; n < 300; n++) {
      const [found] = withIntervals([meanOf(Array.from({ length: 50 }, random))], apart(50), {
        resamples: 200,
        seed: n,
      });
      held += (found?.low as number) <= 0.5 && 0.5 <= (found?.high as number) ? 1 : 0;
      widths.push((found?.high as number) - (found?.low as number));
    }
    // 1.96 · 2 · √(1/12/50)
    expect(widths.reduce((a, b) => a + b) / 300).toBeCloseTo(0.16, 2);
    expect(held / 300).toBeGreaterThan(0.88);
    expect(held / 300).toBeLessThan(0.98);
  });

  it('are none of one trace', () => {
    const alone = { ...meanOf([3]), terms: Float64Array.of(0, 0, 3, 1) };
    expect(withIntervals([alone], apart(2), { resamples: 100, seed: 0 })[0]).toEqual({
      value: 3,
      low: Number.NaN,
      high: Number.NaN,
    });
  });

  /** Of three groups with one trace each: their mean, where every one of the first `needed` was drawn. */
  const meanWith = (needed: number): Figure => ({
    terms: Float64Array.from(
      [1, 2, 3].flatMap((number, i) => [number, 1, i === 0, i === 1, i === 2].map(Number)),
    ),
    m: 5,
    value: ([sum = 0, n = 0, ...drawn]) =>
      drawn.slice(0, needed).every((times) => times > 0) ? sum / n : Number.NaN,
  });
  it.each([
    // of three drawn with replacement one is among them in 19 of 27, two are in 12, all three in 6
    [0, true],
    [1, true],
    [2, false],
    [3, false],
  ])('of a figure that %i of 3 groups make: %s', (needed, isKnown) => {
    const [found] = withIntervals([meanWith(needed)], apart(3), { resamples: 1000, seed: 1 });
    expect(found?.value).toBe(2);
    expect([found?.low, found?.high].map(Number.isNaN)).toEqual([!isKnown, !isKnown]);
    if (isKnown) expect((found?.low as number) < 2 && (found?.high as number) > 2).toBe(true);
  });

  it('draw evenly, and take quantiles as NumPy does', () => {
    const random = randomStream(5);
    const counts = new Array<number>(10).fill(0);
    for (let n = 0; n < 10_000; n++) {
      const digit = Math.floor((random() / 2 ** 32) * 10);
      counts[digit] = (counts[digit] as number) + 1;
    }
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150);
    const sorted = Float64Array.of(1, 2, 4, 8, 16);
    expect([0.025, 0.5, 0.9].map((q) => quantile(sorted, q))).toEqual([1.1, 4, 12.8]);
  });
});

describe('agreement with the truth', () => {
  const table = tableOf(
    {
      truth: [
        [0.3, -0.5, 0.1],
        [-0.4, 0.2, -0.1],
        [0.2, 0.2],
      ],
      credit: [
        [0.1, 0.2, -0.9],
        [-0.1, 0, -0.3],
        [1, -1],
      ],
    },
    [1, 0, 0],
  );

  it('sign: of the changes of at least .2, those that have the same; no change has none', () => {
    const [truth, credit] = both(table);
    const found = signAgreement(table, truth, credit, 0.2);
    // + ✓, − ✗ | − ✓, + against 0 ✗ | + ✓, + ✗
    expect(told(found.figure, apart(3))).toBe(3 / 6);
    expect(found).toMatchObject({ segments: 6, traces: 3, chance: 0.5, notes: ['few-groups'] });
    expect(signAgreement(table, truth, credit, 0.45).segments).toBe(1);
  });

  it('worst segment: of wrong traces, equal ones in part, a constant truth left out', () => {
    const [truth, credit] = both(table);
    const found = worstAgreement(table, truth, credit);
    expect(found).toMatchObject({ traces: 1, chance: 1 / 3 });
    expect(told(found.figure, apart(3))).toBe(0);
    expect(told(worstAgreement(table, truth, truth).figure, apart(3))).toBe(1);
    const tied = tableOf({ truth: [[-1, 0, 1]], credit: [[-1, -1, 3]] }, [0]);
    expect(told(worstAgreement(tied, ...both(tied)).figure, apart(1))).toBe(0.5);
  });
});

describe('the first wrong segment', () => {
  const table = tableOf(
    {
      credit: [
        [1, -1, 0, 0],
        [0, 0, 5],
        [3, 1, 2],
        [1, 2],
      ],
    },
    [0, 0, 0, 1],
    [1, 0, 2, -1],
  );
  const [credit] = both(table);

  it('AUC: how often it has less credit than another of its trace, the mean of traces', () => {
    const found = firstWrongAuc(table, credit);
    // 3/3, (½ + 1)/2, 1/2
    expect(told(found.figure, apart(4))).toBeCloseTo((1 + 0.75 + 0.5) / 3, 12);
    expect(found).toMatchObject({ traces: 3, chance: 0.5 });
  });

  it('hit@1: whether it has the lowest, of several one is drawn', () => {
    const found = firstWrongHit(table, credit);
    expect(told(found.figure, apart(4))).toBeCloseTo((1 + 0.5 + 0) / 3, 12);
    expect(found.chance).toBeCloseTo((1 / 4 + 1 / 3 + 1 / 3) / 3, 12);
  });
});

const OPTIONS: CompareOptions = { truth: undefined, seed: 0 };

describe('the list of figures', () => {
  const random = seeded(3);
  const traces = Array.from({ length: 20 }, () => Array.from({ length: 6 }, random));
  const lists = {
    a: traces,
    b: traces.map((trace) => trace.map((value) => value + random() / 4)),
    c: traces.map((trace) => trace.map(random)),
  };
  const table = tableOf(
    lists,
    traces.map((_, i) => i % 2),
  );

  it('has each pair once without a truth, else each with the truth', () => {
    const pairs = (opts: Partial<CompareOptions>) =>
      compareCredits(table, { ...OPTIONS, ...opts })
        .filter(({ measure, traces, last }) => measure === 'kendall' && traces === 'all' && last === 1)
        .map(({ of, credit }) => `${of} ${credit}`);
    expect(pairs({})).toEqual(['a b', 'a c', 'b c']);
    expect(pairs({ truth: 'b' })).toEqual(['b a', 'b c']);
  });

  it.each([0.25, 0.5, 0.75, 1])('has a correlation over the last %f of each trace', (last) => {
    const figures = compareCredits(table, { ...OPTIONS, truth: 'a' });
    const found = figures.filter(
      (figure) => figure.measure === 'pearson' && figure.traces === 'all' && figure.last === last,
    );
    expect(found.map(({ credit }) => credit)).toEqual(['b', 'c']);
    const kept = Math.ceil(last * 6);
    expect(found[0]?.n_segments).toBe(20 * kept);
    const tail = Object.fromEntries(
      Object.entries(lists).map(([name, all]) => [name, all.map((trace) => trace.slice(6 - kept))]),
    );
    const rewards = traces.map((_, i) => i % 2);
    const alone = compareCredits(tableOf(tail, rewards), { ...OPTIONS, truth: 'a' });
    expect(found.map(({ value }) => value)).toEqual(
      alone
        .filter((figure) => figure.measure === 'pearson' && figure.traces === 'all' && figure.last === 1)
        .map(({ value }) => value),
    );
  });

  it('is the same twice, to the last digit, and its values lie in their intervals', () => {
    const first = compareCredits(table, { ...OPTIONS, truth: 'a' });
    expect(compareCredits(table, { ...OPTIONS, truth: 'a' })).toEqual(first);
    for (const { value, low, high } of first)
      if (low !== null)
        expect((low as number) <= (value as number) && (value as number) <= (high as number)).toBe(true);
    const at = (measure: string, credit: string) =>
      first.find((figure) => figure.measure === measure && figure.credit === credit && figure.last === 1);
    expect(at('pearson', 'b')?.value).toBeGreaterThan(0.9);
    expect(at('pearson', 'b')?.p).toBeLessThan(1e-6);
    expect(Math.abs(at('pearson', 'c')?.value as number)).toBeLessThan(0.3);
    expect(at('sign_of_large', 'b')?.value).toBe(1);
    expect(at('worst_segment', 'b')?.n_traces).toBe(10);
  });

  it('says that a figure is none, where a credit never moves', () => {
    const flat = tableOf(
      { ...lists, d: traces.map((trace) => trace.map(() => 0.1)) },
      traces.map(() => 1),
    );
    const found = compareCredits(flat, { ...OPTIONS, truth: 'd' }).find(
      ({ measure }) => measure === 'pearson',
    );
    expect(found).toMatchObject({
      value: null,
      low: null,
      high: null,
      p: null,
      notes: ['flat', 'ties', 'none'],
    });
  });
});
