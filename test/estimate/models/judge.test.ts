// Judging what was sampled letter by letter, where docs/answers.md would see through how it is written.
import { expect, it } from 'vitest';
import { judged } from '../../../dist/estimate/reward.js';

const MARKS = { close: '', open: '', closer: '' };
const exact = (text: string, ...answers: [answer: string, utility: number][]) =>
  judged(
    text,
    answers.map(([answer, utility]) => ({ answer, utility })),
    MARKS,
    'exact',
  ).reward;

it('exact takes what equals a reference but for spaces around it, for the most that this earns; all else is wrong', () => {
  expect(exact('so \\boxed{ 1/2 }.', ['1/2', 1])).toBe(1);
  expect(exact('Answer: 1/2 ', [' 1/2\n', 0.5], ['1/2', 0.25], ['.5', 1])).toBe(0.5);
  expect(exact('Answer: 0.5', ['1/2', 1])).toBe(0);
  expect(exact('nothing at all', ['1/2', 1])).toBe(0);
});
