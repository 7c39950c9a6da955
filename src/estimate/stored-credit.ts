// A scored file's configuration: the options that its credit was made with, those of another credit of it, and what the new file says.

import { type CreditOptions, creditConfig } from '../credit/credit.js';
import { isMartingale, type Nature } from '../credit/nature.js';
import { ruleOf, SIGMA_RULES } from '../credit/rules.js';
import { RredcotError, usageError } from '../errors.js';
import type { Config } from '../io/write/output.js';
import type { ConfigReader } from '../scored/open-scored.js';
import { calibrated } from './calibrated.js';
import type { Calibration } from './calibration.js';
import {
  ANY_RANGE,
  type CreditFlags,
  flagsOf,
  OF_RULES,
  resolveCreditOptions,
  resolveEstimator,
} from './credit-flags.js';
import { pr } from './one-pass.js';
import { ESTIMATORS, estimatorNamed, storedNature, valueColumns } from './registry.js';

/** Flags of earlier versions, without which what they made cannot be made again. */
const GONE = ['penalty', 'lambda'] as const;
const HINT = 'score the traces again, or take the version that has scored them';

/**
 * The part of a scored file's configuration that credit follows from.
 * @throws RredcotError (exit 2) naming what of it this version does not know
 */
function knownCredit(path: string, config: Config): CreditOptions {
  const found = storedCredit(config);
  if (!(found instanceof RredcotError)) return found;
  throw usageError(`${path}: was scored in a way that this version does not know: ${found.message}`, HINT);
}

/** What a scored file's configuration says. */
export const STORED: ConfigReader = { creditOf: knownCredit, valueColumns };

/** The same, or why there is none. */
export function storedCredit(config: Config): CreditOptions | RredcotError {
  const nature = storedNature(config);
  const gone = GONE.find((key) => config[key] !== undefined);
  if (nature === undefined || config.rule === undefined)
    return usageError(`--estimator ${config.estimator} --sigma ${config.rule}`, HINT);
  if (gone !== undefined) return usageError(`--${gone} ${config[gone]}`, HINT);
  try {
    return resolveCreditOptions(flagsOf(config), nature);
  } catch (error) {
    if (error instanceof RredcotError) return error;
    throw error;
  }
}

/**
 * The flags that the file was made with, those that are given in their place. A rule that is given begins anew: what shaped the
 * credit of another one is given beside it, or is not.
 */
export function mergedFlags(stored: CreditOptions, given: CreditFlags): CreditFlags {
  const { rule, others = [], rewardRange, normalisers = [], estimator } = stored;
  const method = given.method ?? stored.method;
  const rules = given.sigma?.split(',').map((name) => name.trim()) ?? [rule, ...others];
  const readsValues = SIGMA_RULES.some((name) => rules.includes(name) && ruleOf(name).ofSegments);
  const named: readonly string[] = given.normalisers?.split(',') ?? normalisers;
  const other = given.estimator === undefined ? estimator : estimatorNamed(given.estimator);
  const readsSteps = other !== undefined && isMartingale(other) && (readsValues || method === 'segment');
  const idle = [
    ...(given.sigma === undefined ? [] : OF_RULES),
    ...(readsSteps ? [] : ['steps']),
    ...(method === 'hierarchical' ? [] : ['alpha', 'beta']),
    ...(named.includes('batch_tokens') ? [] : ['batchSize']),
    ...(named.includes('dr_grpo') ? [] : ['maxCompletionLength']),
  ];
  // how values were made; another reading of the prover's begins anew: the best of K has no meaning for all
  const ofValues = Object.entries(estimator.config ?? {});
  const isNew = ofValues.some(([key]) => given[key] !== undefined && key !== 'bestOf');
  const keepsValues = (given.estimator ?? estimator.name) === estimator.name && !isNew;
  return {
    estimator: estimator.name,
    ...Object.fromEntries(
      Object.entries(flagsOf(creditConfig(stored))).filter(([key]) => !idle.includes(key)),
    ),
    ...(keepsValues && Object.fromEntries(ofValues.map(([key, value]) => [key, String(value)]))),
    ...given,
    ...(given.rewardRange === ANY_RANGE && { rewardRange: rewardRange.join(',') }),
  };
}

/** What values are: those of a calibration, of the flags, or, where none of these is given, as the file has them. */
export function natureOf(
  { estimator }: CreditOptions,
  given: CreditFlags,
  merged: CreditFlags,
  calibration: Calibration | undefined,
): Nature {
  if (calibration !== undefined) return calibration.standsBack ? pr : calibrated;
  const others = ['estimator', ...Object.keys(estimator.config ?? {})];
  return others.some((flag) => given[flag] !== undefined) ? resolveEstimator(merged) : estimator;
}

/** The configuration with which `score` would have made the same file. */
export function mergedConfig(
  stored: Config,
  credit: CreditOptions,
  made: {
    readonly columns: readonly string[] | undefined;
    readonly drop: readonly string[] | undefined;
    /** another estimator than the file's was asked for */
    readonly isOther: boolean;
    readonly calibration: Calibration | undefined;
  },
): Config {
  const { columns, drop, isOther, calibration } = made;
  const { estimator } = credit;
  const isNew = isOther || calibration !== undefined;
  const gone = [
    // how values are read, and what is said of peers and the like, goes with what had them
    ...['proverEstimator', 'bestOf', 'returnEquivalent', ...(estimator.isOfProver ? [] : ['prover'])],
    ...(isNew ? ESTIMATORS.flatMap((each) => each.configKeys ?? []) : []),
  ];
  const all = {
    ...Object.fromEntries(Object.entries(stored).filter(([key]) => !gone.includes(key))),
    ...creditConfig(credit),
    // the weights of `calibrated` go with it; where they stand back it is still its name
    estimator: calibration ? calibrated.name : isOther ? estimator.name : stored.estimator,
    ...(isNew && { calibration: calibration?.model }),
    // no reference set is read where nothing is scored
    ...(isOther && estimator.scores === 'nothing' && { references: 'row' }),
    ...(drop && { drop: [...((stored.drop as string[] | undefined) ?? []), ...drop] }),
    ...(columns && { columns }),
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}
