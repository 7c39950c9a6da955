// A stored row is read as it was scored, from any format.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readRows, resolveInputs } from '../../dist/io/read/inputs.js';
import { openOutput } from '../../dist/io/write/output.js';
import { isBad } from '../../dist/rows.js';
import { declared, storedRow } from '../../dist/scored/columns.js';
import { bareRow, collect } from '../support/io-helpers.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const FORMATS = ['parquet', 'arrow', 'jsonl'] as const;

it.each(FORMATS)('%s: lists of numbers are typed arrays, at any depth', async (format) => {
  const path = join(await temporaryFolder(), `x.${format}`);
  const output = await openOutput({
    ...{ path, format, passThrough: [], metadata: {} },
    ourColumns: declared(['completion_ids', 'sigma', 'entropies', 'reference_logprobs']),
  });
  await output.write({
    ...bareRow({}),
    completionIds: Int32Array.of(7, 8),
    sigma: Float32Array.of(0.5, -0.25),
    referenceLogprobs: [Float32Array.of(-1, -2), Float32Array.of(-3)],
  });
  await output.finish();
  await output.publish();
  const [row] = await collect(readRows(await resolveInputs([path])));
  if (row === undefined || isBad(row)) throw new Error('no row');
  expect(storedRow(row.columns, row)).toMatchObject({
    completionIds: Int32Array.of(7, 8),
    sigma: Float32Array.of(0.5, -0.25),
    entropies: null,
    referenceLogprobs: [Float32Array.of(-1, -2), Float32Array.of(-3)],
  });
});
