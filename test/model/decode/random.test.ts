// Random numbers by name and position: always the same ones, spread evenly, and nothing alike between names.
import { expect, test } from 'vitest';
import { rowKey, uniformAt } from '../../../dist/model/decode/sampling.js';

test('a number depends on its names and its position alone', () => {
  const key = rowKey(7, 'trace', 3, 1);
  const numbers = Array.from({ length: 5 }, (_, t) => uniformAt(key, t));
  expect(Array.from({ length: 5 }, (_, t) => uniformAt(rowKey(7, 'trace', 3, 1), t))).toEqual(numbers);
  expect(new Set(numbers).size).toBe(5);
  for (const other of [rowKey(8, 'trace', 3, 1), rowKey(7, 'trace', 31), rowKey(7, 'trace', 1, 3)])
    expect(uniformAt(other, 0)).not.toBe(numbers[0]);
});

test('float32 holds every number, and all are below 1', () => {
  const key = rowKey('range');
  const wrong = Array.from({ length: 100_000 }, (_, t) => uniformAt(key, t)).filter(
    (u) => Math.fround(u) !== u || u < 0 || u >= 1,
  );
  expect(wrong).toEqual([]);
});

/** χ² of counts that should be alike, in standard deviations from its mean. */
function excess(counts: readonly number[]): number {
  const expected = counts.reduce((a, b) => a + b, 0) / counts.length;
  const chi2 = counts.reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
  const df = counts.length - 1;
  return (chi2 - df) / Math.sqrt(2 * df);
}

test('numbers are spread evenly: along a row, over rows, and in pairs', () => {
  const bins = () => new Array<number>(256).fill(0);
  const [along, over, pairs] = [bins(), bins(), bins()];
  const add = (counts: number[], bin: number): void => {
    counts[bin] = (counts[bin] as number) + 1;
  };
  for (let n = 0; n < 65_536; n++) {
    add(along, Math.floor(256 * uniformAt([1, 2], n)));
    const key = rowKey('seed', n >> 4, n % 16);
    add(over, Math.floor(256 * uniformAt(key, 0)));
    const [a, b] = [uniformAt(key, n % 100), uniformAt(key, (n % 100) + 1)];
    add(pairs, 16 * Math.floor(16 * a) + Math.floor(16 * b));
  }
  for (const counts of [along, over, pairs]) expect(Math.abs(excess(counts))).toBeLessThan(4.5);
});
