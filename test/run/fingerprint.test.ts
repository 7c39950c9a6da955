// What is noted of an input: a change of its first or last byte shows, whatever lies between.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { resolveInputs } from '../../dist/io/read/inputs.js';
import type { InputPrint } from '../../dist/io/read/unchanged.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const MIB = 2 ** 20;

const folder = await temporaryFolder();

it.each([1, 2, 1000, MIB, MIB + 1, 3 * MIB])(
  'of %i bytes: size, and the edges to the last byte',
  async (size) => {
    const path = join(folder, `${size}`);
    const bytes = Buffer.alloc(size, 'ab');
    const printOf = async (changed: number | undefined) => {
      const copy = Buffer.from(bytes);
      if (changed !== undefined) copy[changed] = 0;
      await writeFile(path, copy);
      return (await resolveInputs([path]))[0]?.print as InputPrint;
    };
    const plain = await printOf(undefined);
    expect(plain).toMatchObject({ path, bytes: size });
    expect(await printOf(undefined)).toMatchObject({ head: plain.head, tail: plain.tail });
    const isWhole = size <= MIB;
    const first = await printOf(0);
    expect(first.head).not.toBe(plain.head);
    if (!isWhole) expect(first.tail).toBe(plain.tail);
    const last = await printOf(size - 1);
    expect(last.tail).not.toBe(plain.tail);
    if (!isWhole) expect(last.head).toBe(plain.head);
  },
);

it('what can be read only once has none', async () => {
  const print = { path: '-', bytes: null, mtime_ms: null, head: null, tail: null };
  expect(await resolveInputs(['-'])).toMatchObject([{ print }]);
});
