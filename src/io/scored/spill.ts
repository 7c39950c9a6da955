// Texts that do not fit into memory, written once and read in any order: a file that has no name.
import { open, rm } from 'node:fs/promises';
import { fileError } from '../files/file-error.js';

/** Texts by number. */
export interface Spill {
  /** @returns the number by which it is read again */
  add(text: string): Promise<number>;
  get(number: number): Promise<string>;
  close(): Promise<void>;
}

/**
 * Opens it. The file loses its name at once, so that nothing is left behind however the process ends.
 * @param path a name that nothing else has, on the disk that is to hold it
 * @throws RredcotError where it cannot be written
 */
export async function openSpill(path: string): Promise<Spill> {
  const told = (error: unknown): never => {
    throw fileError(error, path, 'written');
  };
  const file = await open(path, 'wx+').catch(told);
  await rm(path, { force: true });
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
