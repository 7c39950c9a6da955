// `--estimator ./mine.mjs`: an estimator of the user's own, a module of the form that ours have. It is code, and it runs.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { usageError } from '../errors.js';
import { fileError } from '../io/files/file-error.js';
import type { Estimator } from './estimator.js';
import { ESTIMATORS, setOwn } from './registry.js';

const FUNCTION = z.custom<(...args: never[]) => unknown>(
  (value) => typeof value === 'function',
  'expected a function',
);
const Flag = z.tuple([z.string().regex(/^--[a-z][a-z-]*( <[^>]+>)?$/), z.string()]);

/** The facts that a file keeps of it, so that it can be read without the module. */
const Facts = z.object({
  scores: z.enum(['answers', 'continuations', 'nothing']),
  valueName: z.string().exactOptional(),
  noLevel: z.string().exactOptional(),
  ...Object.fromEntries(
    [
      ...['isLog', 'hasOwnScale', 'onRewardScale', 'hasOutcome', 'isContrast'],
      ...['isAttribution', 'isMagnitude', 'isUnitless', 'isOfProver'],
    ].map((fact) => [fact, z.literal(true).exactOptional()]),
  ),
});

const Module = Facts.extend({
  name: z.string().regex(/^[a-z][a-z0-9-]*$/),
  card: z.string().min(1),
  flags: z.array(Flag).exactOptional(),
  ...Object.fromEntries(
    ['of', 'ask', 'fromStored', 'fromTokens', 'fromLogprobs', 'columns'].map((name) => [
      name,
      FUNCTION.exactOptional(),
    ]),
  ),
}).strict();

const HINT = 'docs/your-own-credit.md has one of 30 lines';

/** Whether a value of `--estimator` names a file. */
export function isModule(estimator: string): boolean {
  return /[\\/]|\.[cm]?js$/.test(estimator);
}

/**
 * Loads it, once. @returns the name that it gives itself
 * @throws RredcotError (exit 2) where it is none
 */
export async function loadEstimator(path: string): Promise<string> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw fileError(error, path, 'read');
  });
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  // Node keeps what it has loaded by its URL: an edited file is another one
  const url = `${pathToFileURL(resolve(path)).href}?${sha256}`;
  const module = (await import(url).catch((error: Error) => {
    throw usageError(`--estimator ${path}: cannot be loaded: ${error.message}`, HINT);
  })) as { readonly default?: unknown };
  const parsed = Module.safeParse(module.default);
  if (!parsed.success)
    throw usageError(
      `--estimator ${path}: its default export: ${z.prettifyError(parsed.error).replaceAll(/\s*\n\s*/g, ' ')}`,
      HINT,
    );
  const own = module.default as Estimator;
  const known = ESTIMATORS.find(({ name }) => name === own.name);
  if (known !== undefined && known.config?.estimatorModule !== sha256)
    throw usageError(`--estimator ${path}: calls itself ${own.name}, as another one does`, 'another name');
  const estimatorFacts = Facts.parse(own);
  if (known === undefined) setOwn({ ...own, config: { estimatorModule: sha256, estimatorFacts } });
  return own.name;
}
