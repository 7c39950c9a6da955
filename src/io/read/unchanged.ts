// Inputs that have to stay as they are while they are read: looked at when a run begins, and again when it ends.
import { stat } from 'node:fs/promises';
import { dataError } from '../../errors.js';
import { fileError } from '../files/file-error.js';
import type { Input } from './inputs.js';

/**
 * Notes size and time of the inputs that are files.
 * @returns what throws (exit 65) where one of them is no longer what it was, and rows may come from two versions of it
 */
export async function watchInputs(inputs: readonly Input[]): Promise<() => Promise<void>> {
  const files = inputs.filter(({ size }) => size !== null).map(({ path }) => path);
  const look = async (path: string) => {
    const { size, mtimeMs } = await stat(path).catch((error: unknown) => {
      throw fileError(error, path, 'read');
    });
    return { path, size, time: new Date(mtimeMs).toISOString() };
  };
  const before = await Promise.all(files.map(look));
  return async () => {
    for (const { path, size, time } of before) {
      const now = await look(path);
      if (now.size === size && now.time === time) continue;
      throw dataError(
        `${path}: changed while it was read: ${size} bytes of ${time}, now ${now.size} bytes of ${now.time}; nothing is published`,
        'when it is whole, the same command with --overwrite',
      );
    }
  };
}
