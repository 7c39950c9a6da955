// Where verify draws the line: METHOD §4 allows Σσ, and a segment's share of it, 1e-6 for rounding, and no more.
import { describe, expect, it } from 'vitest';
import { checkRow } from '../../../dist/io/scored/check-row.js';

function faultsOf(cells: Readonly<Record<string, unknown>>): readonly string[] {
  return checkRow(
    { number: 0, has: (column) => column in cells, cell: (column) => cells[column] ?? null },
    { isScored: false },
  ).faults;
}

const sums = (sigma: readonly number[]) => faultsOf({ sigma }).filter((fault) => fault.startsWith('Σσ is '));

describe('Σσ', () => {
  it.each([
    ['a little more than 1', 0.9e-6, 0],
    ['a little less than 1', -0.9e-6, 0],
    ['more than rounding makes', 1.2e-6, 1],
    ['less than rounding makes', -1.2e-6, 1],
  ])('%s (%f)', (_, off, faults) => {
    expect(sums([0.25, 0.5, 0.25 + off])).toHaveLength(faults);
  });

  it.each([
    ['within 1e-6 of Σ|σ|', 4.5e-6, 0],
    ['beyond it', 5.5e-6, 1],
  ])('of large weights, %s', (_, off, faults) => {
    expect(sums([3, -2 + off])).toHaveLength(faults);
  });
});

describe("a segment's σ", () => {
  const segment = (start: number, end: number, sigma: number) => ({
    ...{ start, end, char_start: start, char_end: end, kind: 'thought' },
    ...{ entropy: null, value: null, delta: null, sigma },
  });
  const shares = (sigma: readonly number[], off: number) =>
    faultsOf({
      sigma,
      segments: [
        segment(0, 1, sigma[0] as number),
        segment(1, 3, (sigma[1] as number) + (sigma[2] as number) + off),
      ],
    }).filter((fault) => fault.includes('is not the sum of σ over its tokens'));

  it.each([
    [0.9e-6, 0],
    [-0.9e-6, 0],
    [1.2e-6, 1],
    [-1.2e-6, 1],
  ])('that is %f off', (off, faults) => {
    expect(shares([0.25, 0.5, 0.25], off)).toHaveLength(faults);
  });

  it.each([
    [4.5e-6, 0],
    [5.5e-6, 1],
  ])('of large weights that is %f off', (off, faults) => {
    expect(shares([0, 3, -2], off)).toHaveLength(faults);
  });
});
