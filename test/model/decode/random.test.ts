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
