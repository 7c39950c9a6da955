// What verify and calibrate are given of a stored row: plain values, and long lists of numbers without a copy one by one.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openChunkReader } from '../../../dist/io/parquet/chunk-reader.js';
import { openRows } from '../../../dist/io/verify/stored-rows.js';
import { openOutput } from '../../../dist/io/write/output.js';
import { bareRow, collect } from '../../support/io-helpers.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

it.each(['parquet', 'arrow'] as const)(
  '%s: lists of numbers are typed arrays, at any depth',
  async (format) => {
    const path = join(await temporaryFolder(), `x.${format}`);
    const output = await openOutput({
      ...{ path, format, passThrough: [], metadata: {} },
      ourColumns: ['completion_ids', 'sigma', 'entropies', 'reference_logprobs'],
    });
    await output.write([
      {
        ...bareRow({}),
        completionIds: Int32Array.of(7, 8),
        sigma: Float32Array.of(0.5, -0.25),
        referenceLogprobs: [Float32Array.of(-1, -2), Float32Array.of(-3)],
      },
    ]);
    await output.close();
    const parquet = openChunkReader();
    try {
      const [row] = await collect((await openRows(path, format, parquet)).rows);
      const cells = ['completion_ids', 'sigma', 'entropies', 'reference_logprobs'].map((name) =>
        row?.cell(name),
      );
      expect(cells).toEqual([
        Int32Array.of(7, 8),
        Float32Array.of(0.5, -0.25),
        null,
        [Float32Array.of(-1, -2), Float32Array.of(-3)],
      ]);
    } finally {
      await parquet.close();
    }
  },
);
