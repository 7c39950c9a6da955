// The estimators: what the program knows of values begins here. To add one is to write its file and to name it in this list.

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import type { Nature } from '../credit/nature.js';
import { RULES, type SigmaRule } from '../credit/rules.js';
import { usageError } from '../errors.js';
import { attributeOf, type Flag } from '../flag-values.js';
import type { OutputColumn } from '../io/arrow/output-columns.js';
import { failed } from '../io/files/files.js';
import type { Config } from '../io/write/output.js';
import { ask } from './ask.js';
import { calibrated } from './calibrated.js';
import { distill } from './distill.js';
import { allFlagsOf, type Estimator, type EstimatorCall, type FlagValues } from './estimator.js';
import { loo } from './loo.js';
import { mc } from './mc.js';
import { placeInModule } from './module-place.js';
import { given, OF_REFERENCES, ofReferences, ofSeen, surprise } from './one-pass.js';
import { posterior } from './posterior.js';
import { auto, probe, STATES_COLUMN } from './probe.js';
import { progress } from './progress.js';
import { siblings } from './siblings.js';
import { TEACHER_COLUMNS, taught } from './teacher.js';

/** In the order in which help and errors name them; the first is the default. */
const known: Estimator[] = [
  ...[auto, ...OF_REFERENCES, calibrated, probe, siblings, mc],
  ...[progress, given, loo, surprise, distill, ask, posterior],
];

const BUILT_IN = known.length;

/** Those, and the user's own where a command line names one. */
export const ESTIMATORS: readonly Estimator[] = known;

/** Puts one of the user's own behind them, in the place of that of the command line before; undefined: none. */
export function setOwn(estimator: Estimator | undefined): void {
  known.splice(BUILT_IN, 1, ...(estimator === undefined ? [] : [estimator]));
}

/** The one with a name; undefined for a name that none has, and for what is no name. */
export function estimatorNamed(name: unknown): Estimator | undefined {
  return ESTIMATORS.find((each) => each.name === name);
}

/** The facts of the values in a file, by its configuration. */
export function storedNature(config: Config): Nature | undefined {
  const { estimator: name, estimatorModule, estimatorFacts } = config;
  // of a module of the user's own the file keeps the facts
  if (typeof estimatorFacts === 'object' && typeof name === 'string')
    return { ...(estimatorFacts as Omit<Nature, 'name'>), name, config: { estimatorModule, estimatorFacts } };
  const estimator = estimatorNamed(name);
  return estimator?.stored === undefined ? estimator : estimator.stored(config);
}

/** An estimator as flags ask for it. @param nature its facts, as its flags make them @throws RredcotError (exit 2) */
export async function setUpEstimator(nature: Nature, values: FlagValues, call: EstimatorCall) {
  const own = await setUpAlone(nature, values, call);
  if (typeof values.teacher !== 'string') return own;
  return taught(own, values.teacher, nature.isOfRow === true, values);
}

async function setUpAlone(nature: Nature, values: FlagValues, call: EstimatorCall) {
  const { setUp, of, flags = [] } = estimatorNamed(nature.name) ?? {};
  if (setUp !== undefined) {
    const own = await setUp(values, call, nature);
    if (typeof own?.open === 'function') return own;
    throw usageError(`--estimator ${nature.name}: its setUp gives no object with a function open`, HINT);
  }
  if (of === undefined) return ofReferences(nature);
  const config = Object.fromEntries(flags.map(attributeOf).map((name) => [name, values[name]]));
  return { config, ...ofSeen(nature.name, of, values) };
}

/** The columns that come with the values of a file. @param config its configuration */
export function valueColumns(config: Config): readonly OutputColumn[] {
  const own = estimatorNamed(config.estimator)?.columns?.(config) ?? [];
  const ofTeacher = config.teacher === undefined ? [] : TEACHER_COLUMNS;
  return [...own, ...ofTeacher, ...(config.keepStates === true ? [STATES_COLUMN] : [])];
}

/** What the estimator and the σ rule of a configuration do, in the words of a dataset card. */
export function wordsOf({ estimator, rule }: Config) {
  const [first] = [rule].flat() as (SigmaRule | undefined)[];
  return { estimator: estimatorNamed(estimator)?.card, rule: first && RULES[first]?.words };
}

/** Keys of a configuration that go with their values. */
export function configKeysOfAll(): readonly string[] {
  return ESTIMATORS.flatMap((each) => [...allFlagsOf(each).map(attributeOf), ...(each.configKeys ?? [])]);
}

/** Flags of all of them, each once. */
export function flagsOfAll(kind: 'flags' | 'creditFlags'): readonly Flag[] {
  const all = ESTIMATORS.flatMap((each) => each[kind] ?? []);
  return all.filter(([flag], n) => all.findIndex(([other]) => other === flag) === n);
}

const FUNCTION = z.custom((value) => typeof value === 'function', 'expected a function');
const FlagShape = z.tuple([z.string().regex(/^--[a-z][a-z-]*( <[^>]+>)?$/), z.string()]);

const optional = (names: readonly string[], of: z.ZodType) =>
  Object.fromEntries(names.map((name) => [name, of.exactOptional()]));

/** The facts that a file keeps of it, so that it can be read without the module. */
const Facts = z.object({
  scores: z.enum(['answers', 'continuations', 'nothing']),
  ...optional(['valueName', 'noLevel', 'priorColumn'], z.string()),
  ...optional(['isLog', 'hasOwnScale', 'onRewardScale', 'isContrast'], z.literal(true)),
  ...optional(['isAttribution', 'isMagnitude', 'isOfProver'], z.literal(true)),
});

const Module = Facts.extend({
  name: z.string().regex(/^[a-z][a-z0-9-]*$/),
  card: z.string('expected what a value of it is, in words').min(1),
  flags: z.array(FlagShape).exactOptional(),
  ...optional(['of', 'setUp', 'fromStored', 'fromTokens', 'fromLogprobs', 'columns'], FUNCTION),
})
  .strict()
  .refine(
    (own) => ['of', 'setUp', 'fromStored', 'fromTokens'].some((name) => name in own),
    'expected a function of, or setUp, fromStored or fromTokens',
  );

const HINT = 'docs/your-own-credit.md has one of 30 lines';

/** Loads it, once. @returns the name that it gives itself @throws RredcotError (exit 2) where it is none */
export async function loadEstimator(path: string): Promise<string> {
  const bytes = await readFile(path).catch(failed(path, 'read'));
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  // Node keeps what it has loaded by its URL: an edited file is another one
  const url = `${pathToFileURL(resolve(path)).href}?${sha256}`;
  const module = (await import(url).catch((error: unknown) => {
    const [place, why] = [placeInModule(error) ?? path, error instanceof Error ? error.message : error];
    throw usageError(`--estimator ${place}: cannot be loaded: ${why}`, HINT);
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
