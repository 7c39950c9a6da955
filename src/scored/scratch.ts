// What does not fit into memory, in a file that has no name: rows of numbers in their order, and values by number.
import { type FileHandle, open, rm } from 'node:fs/promises';
import { deserialize, serialize } from 'node:v8';
import { failed, readWhole, writeWhole } from '../io/files/files.js';

/** Bytes that are written, or read, at a time. */
const BLOCK_BYTES = 2 ** 20;

/** Numbers in the order in which they were written. */
export type Scratch = Awaited<ReturnType<typeof openScratch>>;

/**
 * Opens it. The file loses its name at once, so that nothing is left behind however the process ends.
 * @param path a name that nothing else has, on the disk that is to hold it
 * @throws RredcotError where it cannot be written
 */
export async function openScratch(path: string) {
  const file = await nameless(path);
  let block = Buffer.alloc(BLOCK_BYTES);
  let used = 0;
  let size = 0;

  async function flush(): Promise<void> {
    await writeWhole(file, block.subarray(0, used), size).catch(failed(path, 'written'));
    size += used;
    used = 0;
  }
  return {
    /** Adds a row of any length. */
    async add(row: Float64Array): Promise<void> {
      const bytes = 8 * (row.length + 1);
      if (used + bytes > block.length) await flush();
      if (bytes > block.length) block = Buffer.alloc(bytes);
      block.writeDoubleLE(row.length, used);
      Buffer.from(row.buffer, row.byteOffset, row.byteLength).copy(block, used + 8);
      used += bytes;
    },
    /** All rows from the first one on; a row is overwritten by the next. */
    async *rows(): AsyncGenerator<Float64Array> {
      await flush();
      // a row lies in one block; what of the next one is in it is read again
      const held = new Float64Array(block.length / 8);
      const bytes = Buffer.from(held.buffer);
      for (let position = 0; position < size; ) {
        const part = bytes.subarray(0, Math.min(bytes.length, size - position));
        const filled = (await readWhole(file, part, position)).length / 8;
        let at = 0;
        while (at < filled && at + 1 + (held[at] as number) <= filled) {
          const length = held[at] as number;
          yield held.subarray(at + 1, at + 1 + length);
          at += 1 + length;
        }
        position += 8 * at;
      }
    },
    close: () => file.close(),
  };
}

async function nameless(path: string): Promise<FileHandle> {
  const file = await open(path, 'wx+').catch(failed(path, 'written'));
  await rm(path, { force: true });
  return file;
}

/** Values by number. */
export type Spill = Awaited<ReturnType<typeof openSpill>>;

/** Opens it, as {@link openScratch}. */
export async function openSpill(path: string) {
  const told = failed(path, 'written');
  const file = await nameless(path);
  /** where each value ends */
  const ends: number[] = [];
  return {
    /** @returns the number by which it is read again */
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
