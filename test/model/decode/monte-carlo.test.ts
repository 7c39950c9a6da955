// Random numbers by name and position. Means of samples: what is lost, what it counts, and the deviation of a mean as the bootstrap has it; samples judged letter by letter.
import { expect, test } from 'vitest';
import { monteCarloValues } from '../../../dist/model/decode/sampled.js';
import { judged, rowKey, uniformAt } from '../../../dist/model/decode/sampling.js';
import { seeded } from '../../oracle/toy.js';

const columnsOf = (utilities: (number | null)[][], unfinished: 'zero' | 'drop') => {
  const { values, columns, status } = monteCarloValues(utilities, unfinished);
  return { values: [...values], lost: columns.lost_fraction, sd: columns.value_sd as Float32Array, status };
};

test('a sample without a verdict counts 0, or nothing', () => {
  const utilities = [
    [1, 0, 1, null],
    [1, 1, 1, 1],
  ];
  expect(columnsOf(utilities, 'zero').values).toEqual([0.5, 1]);
  expect(columnsOf(utilities, 'drop').values).toEqual([Math.fround(2 / 3), 1]);
  expect(columnsOf(utilities, 'drop').lost).toEqual(Float32Array.of(0.25, 0));
  expect(columnsOf(utilities, 'zero').status).toEqual([]);
});

test('a state of which half is lost is not to be trusted, and one of which all is lost is worth 0', () => {
  const half = [
    [1, 1],
    [null, 1],
  ];
  expect(columnsOf(half, 'zero').status).toEqual(['mc:lost']);
  const all = columnsOf([[null, null]], 'drop');
  expect([all.values, all.status, all.lost]).toEqual([[0], ['mc:lost'], Float32Array.of(1)]);
});

test('the deviation is that of means of samples drawn again', () => {
  const random = seeded(4);
  const utilities = Array.from({ length: 20 }, () => (random() < 0.3 ? 1 : random() < 0.5 ? 0.25 : 0));
  const drawn = () => utilities[Math.floor(20 * random())] as number;
  const means = Array.from(
    { length: 40_000 },
    () => Array.from({ length: 20 }, drawn).reduce((a, b) => a + b) / 20,
  );
  const middle = means.reduce((a, b) => a + b) / means.length;
  const sd = Math.sqrt(means.reduce((sum, x) => sum + (x - middle) ** 2, 0) / means.length);
  expect(Math.abs((columnsOf([utilities], 'zero').sd[0] as number) - sd) / sd).toBeLessThan(0.02);
});

const MARKS = { close: '', open: '', closer: '' };
const exact = (text: string, ...answers: [answer: string, utility: number][]) =>
  judged(
    text,
    answers.map(([answer, utility]) => ({ answer, utility })),
    MARKS,
    'exact',
  ).reward;

test('exact takes what equals a reference but for spaces around it, for the most that this earns; all else is wrong', () => {
  expect(exact('so \\boxed{ 1/2 }.', ['1/2', 1])).toBe(1);
  expect(exact('Answer: 1/2 ', [' 1/2\n', 0.5], ['1/2', 0.25], ['.5', 1])).toBe(0.5);
  expect(exact('Answer: 0.5', ['1/2', 1])).toBe(0);
  expect(exact('nothing at all', ['1/2', 1])).toBe(0);
});

test('a number depends on its names and its position alone', () => {
  const key = rowKey(7, 'trace', 3, 1);
  const numbers = Array.from({ length: 5 }, (_, t) => uniformAt(key, t));
  expect(Array.from({ length: 5 }, (_, t) => uniformAt(rowKey(7, 'trace', 3, 1), t))).toEqual(numbers);
  expect(new Set(numbers).size).toBe(5);
  for (const other of [rowKey(8, 'trace', 3, 1), rowKey(7, 'trace', 31), rowKey(7, 'trace', 1, 3)])
    expect(uniformAt(other, 0)).not.toBe(numbers[0]);
});
