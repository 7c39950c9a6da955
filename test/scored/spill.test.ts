// The scratch file: numbers come back as they were written, as often as they are asked for, and no file is left.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openScratch } from '../../dist/scored/scratch.js';
import { temporaryFolder } from '../support/temporary-folder.js';

describe('scratch', () => {
  it('gives its rows again and again, of any length, and has no name', async () => {
    const folder = await temporaryFolder();
    const scratch = await openScratch(join(folder, 'x'));
    expect(await readdir(folder)).toEqual([]);
    // several blocks of 1 MiB, one row larger than a block, an empty one
    const lengths = [3, 0, 70_000, 60_000, 1, 200_000, 5, 131_071, 131_072, 2];
    const row = (n: number) =>
      Float64Array.from({ length: lengths[n] as number }, (_, i) => n + i / 7 - (i % 5 === 0 ? 1e300 : 0));
    const bytes = (of: Float64Array) => Buffer.from(of.buffer, of.byteOffset, of.byteLength);
    for (let n = 0; n < lengths.length; n++) await scratch.add(row(n));
    for (let times = 0; times < 2; times++) {
      let n = 0;
      for await (const found of scratch.rows()) {
        expect(found.length).toBe(lengths[n]);
        expect(Buffer.compare(bytes(found), bytes(row(n)))).toBe(0);
        n++;
      }
      expect(n).toBe(lengths.length);
    }
    await scratch.add(Float64Array.of(1, 2));
    let last: number[] = [];
    for await (const found of scratch.rows()) last = [...found.subarray(0, 3)];
    expect(last).toEqual([1, 2]);
    await scratch.close();
  });

  it('names the place that it cannot be written to', async () => {
    const path = join(await temporaryFolder(), 'none', 'x');
    await expect(openScratch(path)).rejects.toThrow(path);
  });
});
