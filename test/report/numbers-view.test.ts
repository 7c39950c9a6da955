// The numbers of a file in lines: what rows of σ leave out is said.
import { expect, it } from 'vitest';
import { RunCounts } from '../../dist/report/counted/run-counts.js';
import { drawNumbers } from '../../dist/report/numbers-view.js';

it('rows of σ say of which traces they are', () => {
  const { numbers } = new RunCounts(true);
  const opts = { path: 'x', valueName: 'v̂', warnings: [], throughput: undefined };
  const lines = (fallbacks: number) =>
    drawNumbers({ ...numbers, credited: 1234, uniform_by_fallback: fallbacks }, opts).join('\n');
  expect(lines(34)).toContain(
    'σ in the rows and by place below: of 1,200 traces, without 34 whose σ is uniform by fallback',
  );
  expect(lines(0)).not.toContain('below');
});
