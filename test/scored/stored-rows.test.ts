// A stored row is read as it was scored, from any format.
import { readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openOutput } from '../../dist/io/write/output.js';
import { isBad } from '../../dist/rows.js';
import { openStored, storedRow } from '../../dist/scored/stored-rows.js';
import { bareRow, collect } from '../support/io-helpers.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const FORMATS = ['parquet', 'arrow', 'jsonl'] as const;

it.each(FORMATS)('%s: lists of numbers are typed arrays, at any depth', async (format) => {
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
  const [row] = await collect((await openStored(path, format)).rows);
  if (row === undefined || isBad(row)) throw new Error('no row');
  expect(storedRow(row.columns, row)).toMatchObject({
    completionIds: Int32Array.of(7, 8),
    sigma: Float32Array.of(0.5, -0.25),
    entropies: null,
    referenceLogprobs: [Float32Array.of(-1, -2), Float32Array.of(-3)],
  });
});

it.skipIf(process.platform !== 'linux').each(FORMATS)(
  '%s: a file whose rows nobody asks for, or not all of them, is not left open',
  async (format) => {
    const path = join(await temporaryFolder(), `x.${format}`);
    const columns = { passThrough: [], ourColumns: ['id' as const, 'sigma' as const] };
    const output = await openOutput({ path, format, ...columns, metadata: {} });
    // more than is read at once
    const row = { ...bareRow({}), sigma: new Float32Array(50_000).fill(1 / 3) };
    for (let n = 0; n < 9; n++) await output.write([row]);
    await output.close();
    const isOpen = async () => {
      const open = (await readdir('/proc/self/fd')).map((fd) =>
        readlink(`/proc/self/fd/${fd}`).catch(() => ''),
      );
      return (await Promise.all(open)).includes(path);
    };
    const unread = await openStored(path, format);
    // what Parquet's thread has open it closes with the next file
    if (format !== 'parquet') expect(await isOpen()).toBe(false);
    await unread.rows.return(undefined);
    const { rows } = await openStored(path, format);
    await rows.next();
    if (format !== 'parquet') expect(await isOpen()).toBe(true);
    await rows.return(undefined);
    if (format !== 'parquet') expect(await isOpen()).toBe(false);
  },
);
