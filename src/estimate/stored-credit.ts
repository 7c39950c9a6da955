// Reads from a stored configuration the options that its credit was made with.

import { SIGMA_RULES } from '../credit/rules.js';
import { usageError } from '../errors.js';
import type { Config } from '../io/write/output.js';
import { BASELINES, type CreditOptions } from './credit.js';
import { storedNature } from './registry.js';
import { METHODS, NORMALISERS } from './requested.js';
import { RESIDUALS, STEPS, WITHINS } from './sigma.js';

/** Flags of earlier versions, without which what they made cannot be made again. */
const GONE = ['penalty', 'lambda'] as const;

/**
 * The part of a scored file's configuration that credit follows from.
 * @throws RredcotError (exit 2) naming what of it this version does not know
 */
export function knownCredit(path: string, config: Config): CreditOptions {
  const credit = storedCredit(config);
  if (credit !== undefined) return credit;
  const flag = GONE.find((key) => config[key] !== undefined);
  const rule = [config.rule].flat().find((each) => oneOf(SIGMA_RULES, each) === undefined);
  const how = flag !== undefined ? `--${flag} ${config[flag]}` : rule !== undefined && `--sigma ${rule}`;
  throw usageError(
    `${path}: was scored ${how ? `with ${how}, which` : 'in a way that'} this version does not know`,
    'score the traces again, or take the version that has scored them',
  );
}

/** The part of a configuration that credit follows from; undefined where it says nothing of that, or what nobody knows. */
export function storedCredit(config: Config): CreditOptions | undefined {
  const estimator = storedNature(config);
  const [rule, ...others] = listOf(SIGMA_RULES, config.rule) ?? [];
  const residual = oneOf(RESIDUALS, config.residual);
  const within = oneOf(WITHINS, config.within);
  const baseline = typeof config.baseline === 'number' ? config.baseline : oneOf(BASELINES, config.baseline);
  const normalisers = listOf(NORMALISERS, config.normalisers ?? []);
  const method = oneOf(METHODS, config.method ?? 'sigma');
  const steps = oneOf(STEPS, config.steps ?? 'free');
  if (estimator === undefined || rule === undefined || residual === undefined || within === undefined)
    return undefined;
  if (baseline === undefined || normalisers === undefined) return undefined;
  if (method === undefined || steps === undefined) return undefined;
  if (GONE.some((key) => config[key] !== undefined)) return undefined;
  return {
    ...{ rule, residual, within, baseline },
    rewardRange: Array.isArray(config.rewardRange) ? (config.rewardRange as [number, number]) : [0, 1],
    estimator,
    ...(others.length === 0 ? {} : { others }),
    ...(method === 'sigma' ? {} : { method }),
    ...(steps === 'free' ? {} : { steps }),
    ...(normalisers.length === 0 ? {} : { normalisers }),
    ...numbersOf(config, [
      ...['even', 'cap', 'tau', 'gamma', 'smooth', 'alpha', 'beta', 'batchSize', 'maxCompletionLength'],
    ]),
  };
}

function oneOf<T extends string>(names: readonly T[], value: unknown): T | undefined {
  return names.find((name) => name === value);
}

/** One name or several; undefined where one of them is unknown. */
function listOf<T extends string>(names: readonly T[], value: unknown): readonly T[] | undefined {
  const given: readonly unknown[] = Array.isArray(value) ? value : [value];
  const found = given.flatMap((each) => oneOf(names, each) ?? []);
  return found.length === given.length ? found : undefined;
}

function numbersOf(config: Config, names: readonly string[]): Readonly<Record<string, number>> {
  const found = names.map((name) => [name, config[name]] as const);
  return Object.fromEntries(found.filter(([, value]) => typeof value === 'number')) as Record<string, number>;
}
