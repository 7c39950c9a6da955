// What is under a name, told apart from a failure to look.
import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { fileError } from './file-error.js';

/** null only where nothing is there. @throws RredcotError where nobody can tell */
export async function statIfThere(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (error) {
    if (isAbsent(error)) return null;
    throw fileError(error, path, 'read');
  }
}

/** Whether an error says that there is nothing under a name, rather than that one could not look. */
export function isAbsent(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
