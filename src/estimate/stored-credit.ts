// A stored configuration in, the options out that its credit was made with.
import { storedModel } from './calibrate/calibration.js';
import type { Baseline, CreditOptions } from './credit.js';
import { ESTIMATORS, natureOf, PROVER_ESTIMATORS, type ProverChoice } from './estimators.js';
import { METHODS } from './requested.js';
import { NORMALISERS } from './rules/normalisers.js';
import { RESIDUALS, SIGMA_RULES, WITHINS } from './sigma.js';

type Config = Readonly<Record<string, unknown>>;

/** The part of a configuration that credit follows from; undefined where it says nothing of that, or what nobody knows. */
export function storedCredit(config: Config): CreditOptions | undefined {
  const estimator = oneOf(ESTIMATORS, config.estimator);
  const [rule, ...others] = listOf(SIGMA_RULES, config.rule) ?? [];
  const residual = oneOf(RESIDUALS, config.residual);
  const within = oneOf(WITHINS, config.within);
  const baseline = baselineOf(config.baseline);
  const normalisers = listOf(NORMALISERS, config.normalisers ?? []);
  const method = oneOf(METHODS, config.method ?? 'sigma');
  if (estimator === undefined || rule === undefined || residual === undefined || within === undefined)
    return undefined;
  if (baseline === undefined || normalisers === undefined || method === undefined) return undefined;
  const { isCalibrated, readsMates, isOfProver } = natureOf(estimator);
  const calibration = isCalibrated ? storedModel(config.calibration) : undefined;
  if (isCalibrated && calibration === undefined) return undefined;
  const prover = proverOf(config);
  if ((isOfProver === true) !== (prover !== undefined)) return undefined;
  const isUncalibrated = (calibration?.stands_back ?? null) !== null;
  return {
    ...{ rule, residual, within, baseline, rewardRange: rangeOf(config.rewardRange) },
    estimator: isUncalibrated && !readsMates ? ('pr' as const) : estimator,
    ...(calibration === undefined ? {} : { calibration }),
    ...(prover === undefined ? {} : { prover }),
    ...(others.length === 0 ? {} : { others }),
    ...(method === 'sigma' ? {} : { method }),
    ...(normalisers.length === 0 ? {} : { normalisers }),
    ...numbersOf(config, [
      ...['tau', 'smooth', 'penalty', 'lambda', 'alpha', 'beta', 'batchSize', 'maxCompletionLength'],
    ]),
  };
}

function proverOf({ proverEstimator, bestOf = 1 }: Config): ProverChoice | undefined {
  const estimator = oneOf(PROVER_ESTIMATORS, proverEstimator);
  return estimator === undefined || typeof bestOf !== 'number' ? undefined : { estimator, bestOf };
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

function baselineOf(value: unknown): Baseline | undefined {
  return typeof value === 'number' ? value : oneOf(['auto', 'group', 'value'] as const, value);
}

function rangeOf(value: unknown): readonly [number, number] {
  return Array.isArray(value) ? (value as unknown as readonly [number, number]) : [0, 1];
}

function numbersOf(config: Config, names: readonly string[]): Readonly<Record<string, number>> {
  const found = names.map((name) => [name, config[name]] as const);
  return Object.fromEntries(found.filter(([, value]) => typeof value === 'number')) as Record<string, number>;
}
