// Tells an error of a module that the user wrote from a bug of the program: by where it was thrown.
import { fileURLToPath, pathToFileURL } from 'node:url';
import { usageError } from '../errors.js';
import { packageFile } from '../package-files.js';

const OURS = pathToFileURL(packageFile('dist/')).href;
/** A line of a stack, or the first one of what cannot be parsed; a module's address ends with its hash. */
const FRAME = /^(?: +at .*?)?(file:\/\/[^\s?)]+?)(?:\?\w+)?:(\d+)(?::\d+\)?)?$/gm;

/** File and line of the user's own in which an error was thrown; undefined where the program threw it. */
export function placeInModule(error: unknown): string | undefined {
  for (const [, url = '', line] of String((error as Error | undefined)?.stack).matchAll(FRAME)) {
    if (url.startsWith(OURS)) return undefined;
    if (!url.includes('/node_modules/')) return `${fileURLToPath(url)}:${line}`;
  }
  return undefined;
}

/** What a function of such a module gives, of which nobody waits for a promise. @throws RredcotError (exit 2); what becomes of the promise is its cause */
export function atOnce<T>(what: string, found: T): T {
  if (!(found instanceof Promise)) return found;
  found.catch(() => {});
  throw usageError(`${what} gives a promise, expected numbers`, 'docs/your-own-credit.md has one', found);
}
