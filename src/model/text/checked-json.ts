// JSON of files that somebody else made, by its schema. What encodes texts does without: a schema's library takes a tenth of a second to start.
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { failed } from '../../io/files/files.js';
import { parseJson, untrustedText } from './untrusted-files.js';

/** A value of the schema. @throws RredcotError (exit 2) naming the file, and every field that is not */
export function fromJson<T>(schema: z.ZodType<T>, text: string, path: string, hint: string): T {
  const parsed = schema.safeParse(parseJson(text, path, hint));
  if (parsed.success) return parsed.data;
  throw usageError(`${path}: ${inOneLine(z.prettifyError(parsed.error))}`, hint);
}

export function inOneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ');
}

/** A template that a flag names, or else a folder's own; undefined where it has none. @throws RredcotError (exit 2) naming the file that is none */
export async function givenOrOwn<T>(
  schema: z.ZodType<T>,
  path: string | undefined,
  folder: string,
  own: string,
  expected: string,
): Promise<T | undefined> {
  const text =
    path === undefined
      ? await untrustedText(folder, own)
      : await readFile(path, 'utf8').catch(failed(path, 'read'));
  return text === undefined ? undefined : fromJson(schema, text, path ?? `${folder}/${own}`, expected);
}
