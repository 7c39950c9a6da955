// A spill file: values come back as they were written, and no file is left.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openSpill } from '../../dist/scored/spill.js';
import { temporaryFolder } from '../support/temporary-folder.js';

it('gives its values in any order, and has no name', async () => {
  const folder = await temporaryFolder();
  const spill = await openSpill(folder);
  const values = [{ a: Float64Array.of(1 / 7, 1e300) }, 'text', new Int32Array(1000).fill(9), []];
  for (const [n, value] of values.entries()) expect(await spill.add(value)).toBe(n);
  expect(await readdir(folder)).toEqual([]);
  for (const n of [2, 0, 3, 1, 2]) expect(await spill.get(n)).toEqual(values[n]);
  await spill.close();
  const nowhere = join(folder, 'none');
  await expect(openSpill(nowhere)).rejects.toThrow(nowhere);
});
