// Reads a template that a flag names, or else the one of a model's folder.
import { readFile } from 'node:fs/promises';
import type { z } from 'zod';
import { failed } from '../../io/files/file-error.js';
import { foreignText } from '../../io/files/foreign-files.js';
import { fromJson } from '../build/json.js';

/**
 * @param path that was given
 * @param own its name in the folder
 * @param expected for the error's hint
 * @returns undefined where the folder has none
 * @throws RredcotError (exit 2) naming the file that is none
 */
export async function givenOrOwn<T>(
  schema: z.ZodType<T>,
  path: string | undefined,
  folder: string,
  own: string,
  expected: string,
): Promise<T | undefined> {
  const text =
    path === undefined
      ? await foreignText(folder, own)
      : await readFile(path, 'utf8').catch(failed(path, 'read'));
  return text === undefined ? undefined : fromJson(schema, text, path ?? `${folder}/${own}`, expected);
}
