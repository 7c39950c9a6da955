// The numbers of a file in lines: what rows of σ leave out is said.
import { expect, it } from 'vitest';
import { drawNumbers } from '../../dist/report/numbers-view.js';
import { RunCounts } from '../../dist/report/run-counts.js';

it('rows of σ say of which traces they are', () => {
  const { numbers } = new RunCounts(true);
  const opts = { valueName: 'v̂', warnings: [], throughput: undefined };
  const lines = (fallbacks: number) =>
    drawNumbers('x', {
      ...opts,
      numbers: { ...numbers, credited: 1234, uniform_by_fallback: fallbacks },
    }).join('\n');
  expect(lines(34)).toContain(
    'σ in the rows and by place below: of 1,200 traces, without 34 whose σ is uniform by fallback',
  );
  expect(lines(0)).not.toContain('below');
});
