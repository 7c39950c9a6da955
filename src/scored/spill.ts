// What does not fit into memory, in a spill file: values by number.
import { randomBytes } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { failed, readWhole, writeWhole } from '../io/files/files.js';

/**
 * Opens it. The file loses its name at once, so that nothing is left behind however the process ends.
 * @param folder on the disk that is to hold it
 * @throws RredcotError where it cannot be written
 */
export async function openSpill(folder: string) {
  const path = join(folder, `.rredcot.${randomBytes(4).toString('hex')}.spill`);
  const told = failed(path, 'written');
  const file = await open(path, 'wx+').catch(told);
  await rm(path, { force: true });
  /** where each value ends */
  const ends: number[] = [];
  return {
    /** @returns the number by which it is read again: 0, 1, … */
    async add(value: unknown): Promise<number> {
      const bytes = serialize(value);
      const from = ends.at(-1) ?? 0;
      await writeWhole(file, bytes, from).catch(told);
      return ends.push(from + bytes.length) - 1;
    },
    async get(number: number): Promise<unknown> {
      const from = ends[number - 1] ?? 0;
      const bytes = Buffer.alloc((ends[number] as number) - from);
      return deserialize(await readWhole(file, bytes, from, path).catch(told));
    },
    close: () => file.close(),
  };
}
