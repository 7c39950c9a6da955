// Marks of an axis are round numbers between its ends, and told apart.
import { describe, expect, it } from 'vitest';
import { chart, roundTicks } from '../../../dist/report/page/svg.js';

describe('the marks of an axis', () => {
  it('are multiples of 1, 2 or 5 times a power of ten, eight at most', () => {
    const rounded = (list: readonly number[]) => list.map((v) => Number(v.toPrecision(6)));
    expect(rounded(roundTicks(0, 1))).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(rounded(roundTicks(-0.37, 0.91))).toEqual([-0.2, 0, 0.2, 0.4, 0.6, 0.8]);
    expect(rounded(roundTicks(3, 1234))).toEqual([200, 400, 600, 800, 1000, 1200]);
    expect(roundTicks(0, 2, true)).toEqual([0, 1, 2]);
    expect(roundTicks(7, 7)).toEqual([7]);
    for (const [low, high] of [
      [0, 1e-5],
      [-12, 55],
      [0.013, 0.0131],
    ] as const) {
      const ticks = roundTicks(low, high);
      expect(ticks.length).toBeGreaterThan(1);
      expect(ticks.length).toBeLessThan(9);
      for (const tick of ticks) expect(tick >= low - 1e-12 && tick <= high + 1e-12).toBe(true);
    }
  });

  it('have the digits that they need', () => {
    const { text } = chart({
      title: 't',
      x: { label: 'x', low: 0, high: 0.05 },
      y: { label: 'y', low: 0, high: 4000, whole: true },
      marks: [],
    });
    for (const mark of ['>0.01<', '>0.05<', '>1,000<', '>4,000<']) expect(text).toContain(mark);
    expect(text).not.toContain('>1,000.0');
  });
});
