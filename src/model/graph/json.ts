// JSON that somebody else wrote: parsed, held against a schema, taken of the file that a flag names or of a folder, and looked through for keys that it gives twice.
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { failed } from '../../io/files/files.js';
import { untrustedText } from '../text/untrusted-files.js';

/** @throws RredcotError (exit 2) naming the file */
export function parseJson(text: string, path: string, hint?: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RredcotError(`${path}: not JSON (${(cause as Error).message})`, {
      ...{ exitCode: EXIT.usage, cause },
      ...(hint !== undefined && { hint }),
    });
  }
}

/** The same, of the schema. @throws RredcotError as {@link parseJson} and {@link ofSchema} */
export function fromJson<T>(schema: z.ZodType<T>, text: string, path: string, hint: string): T {
  return ofSchema(schema, parseJson(text, path, hint), path, hint);
}

/** A value of a file, of the schema. @throws RredcotError (exit 2) naming the file, and every field that is not */
export function ofSchema<T>(schema: z.ZodType<T>, value: unknown, path: string, hint: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw usageError(`${path}: ${inOneLine(z.prettifyError(parsed.error))}`, hint);
}

export function inOneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ');
}

/**
 * JSON.parse keeps the last of two values under one key, and says nothing.
 * @param json a text that it takes
 * @returns the first key that an object of the text repeats, after escapes; undefined: none does
 */
export function repeatedKey(json: string): string | undefined {
  const open: (Set<string> | null)[] = []; // keys so far of every object we are in, null for a list
  let name: string | undefined; // the string read last: a key if a colon follows
  for (let i = 0; i < json.length; i++) {
    const character = json[i];
    if (character === '"') {
      const from = i++;
      while (json[i] !== '"') i += json[i] === '\\' ? 2 : 1;
      name = JSON.parse(json.slice(from, i + 1)) as string;
    } else if (character === '{') open.push(new Set());
    else if (character === '[') open.push(null);
    else if (character === '}' || character === ']') open.pop();
    else if (character === ':' && name !== undefined) {
      const keys = open.at(-1);
      if (keys?.has(name)) return name;
      keys?.add(name);
    }
  }
  return undefined;
}

/**
 * A template that a flag names, or else the one of a model's folder.
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
      ? await untrustedText(folder, own)
      : await readFile(path, 'utf8').catch(failed(path, 'read'));
  return text === undefined ? undefined : fromJson(schema, text, path ?? `${folder}/${own}`, expected);
}
