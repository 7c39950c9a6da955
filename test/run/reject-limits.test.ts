// `--max-rejects` as it is written: a number, or a share of 0 % to 100 %.
import { expect, it } from 'vitest';
import { resolveMaxRejects } from '../../dist/report/reject-limits.js';

it.each([
  [undefined, undefined],
  ['0', { count: 0 }],
  ['100', { count: 100 }],
  ['0%', { share: 0 }],
  ['1.5%', { share: 0.015 }],
  ['100%', { share: 1 }],
])('--max-rejects %s', (text, expected) => {
  expect(resolveMaxRejects(text)).toEqual(expected);
});

it.each(['-1', '-1%', '100.5%', '1.5', 'x', '%'])('--max-rejects %s is refused', (text) => {
  expect(() => resolveMaxRejects(text)).toThrow(/--max-rejects/);
});
