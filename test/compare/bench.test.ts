/** The ceiling, a credit's share of it, and the figures of a row, against simulation and by hand. */
import { describe, expect, it } from 'vitest';
import { benchFigures, ceilingOf, shareOfCeiling } from '../../dist/compare/bench.js';
import type { Figure } from '../../dist/compare/bootstrap.js';
import { correlate, pairTraces } from '../../dist/compare/correlations.js';
import { centredPearson } from '../oracle/compare.js';
import { seeded } from '../oracle/toy.js';
import { tableOf, told as valueAlone } from '../support/credit-tables.js';

const random = seeded(31);
const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
const [n, K] = [400, 6];
const list = (make: () => number) => Array.from({ length: n }, () => Array.from({ length: K }, make));
const real = list(normal);
const noisy = (size: number) => real.map((own) => own.map((x) => x + size * normal()));
const credit = (name: string, lists: readonly (readonly number[])[]) => ({
  name,
  values: Float64Array.from(lists.flat()),
});
const [a, b] = [noisy(0.8), noisy(0.8)];
const mean = a.map((own, i) => own.map((x, k) => (x + (b[i]?.[k] as number)) / 2));
const table = {
  ...tableOf(
    { row: real, other: noisy(1) },
    real.map((_, i) => i % 2),
    real.map((_, i) => (i % 2 === 0 ? i % K : -1)),
  ),
  groups: Int32Array.from({ length: n }, (_, i) => Math.floor(i / 4)),
};
const truth = {
  changes: credit('truth', mean),
  halves: [credit('half', a), credit('half', b)] as const,
  isExact: false,
  off: Float64Array.from({ length: n }, (_, i) => (i < 3 ? i : Number.NaN)),
};
const pairs = (x: readonly (readonly number[])[], y: readonly (readonly number[])[]) =>
  x.map((own, i) => own.map((value, k) => [value, y[i]?.[k] as number] as const));
const pearson = (x: typeof truth.changes, y: typeof truth.changes) =>
  correlate(table, pairTraces(table, x, y, 1), 'all').pearson.figure;
const told = (figure: Figure) => valueAlone(figure, table.groups);

describe('the ceiling', () => {
  it('is what a credit without error has, and such a credit has all of it', () => {
    const halves = pearson(...truth.halves);
    const r = centredPearson(pairs(a, b));
    expect(told(ceilingOf(halves))).toBeCloseTo(Math.sqrt((2 * r) / (1 + r)), 12);
    expect(told(ceilingOf(halves))).toBeCloseTo(centredPearson(pairs(real, mean)), 1);
    const share = shareOfCeiling(pearson(credit('', real), truth.changes), halves);
    expect(told(share)).toBeCloseTo(centredPearson(pairs(real, mean)) / Math.sqrt((2 * r) / (1 + r)), 12);
  });

  it('is none where the halves do not go together, and 1 where values are exact', () => {
    const against = pearson(
      truth.halves[0],
      credit(
        '',
        a.map((own) => own.map((x) => -x)),
      ),
    );
    const own = pearson(truth.halves[0], truth.halves[1]);
    expect(told(ceilingOf(against))).toBe(0);
    expect(told(shareOfCeiling(own, against))).toBeNaN();
    expect(shareOfCeiling(own, undefined)).toBe(own);
  });
});

describe('the figures of a row', () => {
  const figures = benchFigures(table, truth, 0);
  const find = (measure: string, name: string, traces = 'all') =>
    figures.find((f) => f.measure === measure && f.credit === name && f.traces === traces);

  it('are those of every credit, and of the truth where it is judged itself', () => {
    expect(find('pearson', 'row')?.value).toBeCloseTo(centredPearson(pairs(real, mean)), 12);
    const wrong = (lists: number[][]) => lists.filter((_, i) => i % 2 === 0);
    expect(find('pearson', 'row', 'wrong')?.value).toBeCloseTo(
      centredPearson(pairs(wrong(real), wrong(mean))),
      12,
    );
    for (const measure of ['share', 'pearson', 'sign_of_large', 'auc', 'hit_at_1'])
      for (const name of ['row', 'other'])
        expect(find(measure, name)?.low, `${measure} ${name}`).not.toBeNull();
    expect(find('auc', 'truth')).toMatchObject({ chance: 0.5 });
    expect(find('worst_segment', 'other', 'wrong')?.chance).toBeCloseTo(1 / K, 12);
    expect(find('level_error', 'row')).toMatchObject({ value: 1, n_traces: 3, notes: ['few-groups'] });
  });

  it('of a set of labels are those of labels', () => {
    const off = new Float64Array(n).fill(Number.NaN);
    const labels = benchFigures(table, { changes: undefined, halves: undefined, isExact: false, off }, 0);
    expect([...new Set(labels.map(({ measure }) => measure))]).toEqual(['auc', 'hit_at_1']);
  });
});
