// What does not fit into memory, in a file that has no name: rows of numbers in their order, and texts by number.
import { type FileHandle, open, rm } from 'node:fs/promises';
import { fileError } from '../files/file-error.js';

/** Bytes that are written, or read, at a time. */
const BLOCK_BYTES = 2 ** 20;

/** Numbers in the order in which they were written. */
export interface Scratch {
  /** Adds a row of any length. */
  add(row: Float64Array): Promise<void>;
  /** All rows from the first one on; a row is overwritten by the next. */
  rows(): AsyncGenerator<Float64Array>;
  close(): Promise<void>;
}

/**
 * Opens it. The file loses its name at once, so that nothing is left behind however the process ends.
 * @param path a name that nothing else has, on the disk that is to hold it
 * @throws RredcotError where it cannot be written
 */
export async function openScratch(path: string): Promise<Scratch> {
  const file = await nameless(path);
  let block = Buffer.alloc(BLOCK_BYTES);
  let used = 0;
  let size = 0;

  async function flush(): Promise<void> {
    for (let at = 0; at < used; )
      at += (await file.write(block, at, used - at, size + at).catch(failed(path))).bytesWritten;
    size += used;
    used = 0;
  }
  /** Fills as much of a block as there is. */
  async function read(into: Buffer, position: number): Promise<number> {
    let filled = 0;
    while (filled < into.length) {
      const { bytesRead } = await file.read(into, filled, into.length - filled, position + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return filled;
  }
  return {
    async add(row) {
      const bytes = 8 * (row.length + 1);
      if (used + bytes > block.length) await flush();
      if (bytes > block.length) block = Buffer.alloc(bytes);
      block.writeDoubleLE(row.length, used);
      Buffer.from(row.buffer, row.byteOffset, row.byteLength).copy(block, used + 8);
      used += bytes;
    },
    async *rows() {
      await flush();
      // a row lies in one block; what of the next one is in it is read again
      const held = new Float64Array(block.length / 8);
      const bytes = Buffer.from(held.buffer);
      for (let position = 0; position < size; ) {
        const filled = (await read(bytes, position)) / 8;
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
  const file = await open(path, 'wx+').catch(failed(path));
  await rm(path, { force: true });
  return file;
}

function failed(path: string) {
  return (error: unknown): never => {
    throw fileError(error, path, 'written');
  };
}

/** Texts by number. */
export interface Spill {
  /** @returns the number by which it is read again */
  add(text: string): Promise<number>;
  get(number: number): Promise<string>;
  close(): Promise<void>;
}

/** Opens it. @param path, @throws as {@link openScratch} */
export async function openSpill(path: string): Promise<Spill> {
  const told = failed(path);
  const file = await nameless(path);
  /** where each text ends */
  const ends: number[] = [];
  return {
    async add(text) {
      const bytes = Buffer.from(text);
      const from = ends.at(-1) ?? 0;
      for (let at = 0; at < bytes.length; )
        at += (await file.write(bytes, at, bytes.length - at, from + at).catch(told)).bytesWritten;
      return ends.push(from + bytes.length) - 1;
    },
    async get(number) {
      const from = ends[number - 1] ?? 0;
      const bytes = Buffer.alloc((ends[number] as number) - from);
      for (let at = 0; at < bytes.length; ) {
        const { bytesRead } = await file.read(bytes, at, bytes.length - at, from + at).catch(told);
        if (bytesRead === 0) throw new Error(`${path}: ends before text ${number} does`);
        at += bytesRead;
      }
      return bytes.toString();
    },
    close: () => file.close(),
  };
}
