// The flags that say how values become credit: what help says of each, its value checked, and the flags of a configuration.

import { BASELINES, type Baseline, type CreditOptions } from '../credit/credit.js';
import { isMartingale, type Nature } from '../credit/nature.js';
import { HIERARCHICAL, METHODS } from '../credit/requested.js';
import { DISCOUNT, RULES, type RuleFlag, SHARE_MIX, SIGMA_RULES, type SigmaRule } from '../credit/rules.js';
import { RESIDUALS, STEPS, WITHINS } from '../credit/sigma.js';
import { RredcotError, usageError } from '../errors.js';
import { attributeOf, finite, oneOf, otherFlag } from '../flag-values.js';
import type { Config } from '../io/write/output.js';
import type { ConfigReader } from '../scored/open-scored.js';
import { allFlagsOf, type Estimator, type FlagValues } from './estimator.js';
import { ESTIMATORS, estimatorNamed, flagsOfAll, storedNature, valueColumns } from './registry.js';

/** `--reward-range` where nobody has named one: the inputs say which. */
export const ANY_RANGE = 'auto';

/** What `score` takes where it is not told, by names of flags. */
const DEFAULTS: Readonly<Record<string, string | undefined>> = {
  ...{ estimator: ESTIMATORS[0]?.name, sigma: SIGMA_RULES[0], baseline: 'auto', rewardRange: ANY_RANGE },
  ...{ residual: RESIDUALS[0], within: WITHINS[0], steps: STEPS[0] },
};

/** All of them, in the order of help: a flag, what it does, and its value where `score` is not told; undefined: none. */
export function creditFlags() {
  const of = (flag: RuleFlag) => `of --sigma ${readersOf(flag).join(', ')}`;
  const estimators = ESTIMATORS.map(({ name }) => name).join('|');
  const all: Readonly<Record<string, string>> = {
    '--estimator <name>': `value of a state: ${estimators} (auto: probe where the input has rewards to fit it to, else pr; docs/method.md), or ./mine.mjs, a module of your own (docs/your-own-credit.md)`,
    ...Object.fromEntries(flagsOfAll('creditFlags')),
    '--sigma <rule,…>': `from values to σ: ${SIGMA_RULES.join('|')} (docs/method.md); the first in sigma, others in sigma_<rule>`,
    '--baseline <b>':
      "auto|group|rloo|value|<number> in 0..1; auto: the group's mean reward, v̂(s_0) without a group, and for values on the reward's scale; rloo: the mean of its other traces",
    '--residual <where>': `${of('residual')}, where the reward that no segment explains goes: ${RESIDUALS.join('|')}`,
    '--within <how>': `weights inside a segment: ${WITHINS.join('|')}`,
    '--mix <x>': `${of('mix')}, the part of σ that falls on all tokens alike, 0 to 1 (default: ${SHARE_MIX})`,
    '--cap <w>': `${of('cap')}, most that a token weighs, σ·T: what is above falls on the tokens below, 1 or more (default: none)`,
    '--tau <x>': `temperature ${of('tau')} (default: 1)`,
    '--gamma <x>': `${of('gamma')}, what a token has of the next one's credit (default: ${DISCOUNT})`,
    '--steps <how>': `how far values may step where the policy was sure of the segment: ${STEPS.join('|')} (docs/method.md)`,
    '--reward-range <low,high>':
      "the rewards' scale, mapped onto 0..1; auto: 0,1, and -1,1 where all rewards are -1 or 1; verdicts (true, false, acc) are on no scale",
    '--method <name>': `${METHODS.join('|')}; segment: also token_advantage, segments as actions, not return-equivalent, for values on the reward's scale; hierarchical: also token_advantage of outcome, progress and token, not return-equivalent, implies --estimator progress (default: sigma)`,
    '--alpha <x>': `of --method hierarchical: what progress counts for beside the outcome (default: ${HIERARCHICAL.alpha})`,
    '--beta <x>': `of --method hierarchical: how far a token's entropy takes its share (default: ${HIERARCHICAL.beta})`,
  };
  return Object.entries(all).map((flag) => [...flag, DEFAULTS[attributeOf(flag)]] as const);
}

/** More than any α or β could mean; what is far beyond leaves float32. */
const MOST_PART = 1e6;
const PART = [`0 to ${MOST_PART}`, '1', (x: number) => x >= 0 && x <= MOST_PART] as const;

/** Numbers, by what is the same as none, what is expected, an example, and a check. */
const NUMBERS = {
  mix: [SHARE_MIX, 'a number from 0 to 1', '0.5', (x: number) => x >= 0 && x <= 1],
  cap: [Number.POSITIVE_INFINITY, 'a number from 1 on', '4', (x: number) => x >= 1],
  tau: [1, 'a number above 0', '0.5', (x: number) => x > 0],
  gamma: [DISCOUNT, 'a number above 0 up to 1', '0.99', (x: number) => x > 0 && x <= 1],
  alpha: [HIERARCHICAL.alpha, ...PART],
  beta: [HIERARCHICAL.beta, ...PART],
} as const;
type NumberName = keyof typeof NUMBERS;

/** Those that a rule reads, whatever else is asked for. */
export const OF_RULES: readonly string[] = ['residual', 'mix', 'cap', 'tau', 'gamma'];

/** Those that a configuration keeps under their own names; `--sigma` is its `rule`. */
export const KEPT = [
  ...(['baseline', 'residual', 'within', 'steps', 'rewardRange', 'method'] as const),
  ...(Object.keys(NUMBERS) as readonly NumberName[]),
] as const;

/** Their raw values; those of estimators are among them. */
export type CreditFlags = Readonly<Partial<Record<(typeof KEPT)[number] | 'estimator' | 'sigma', string>>> &
  FlagValues;

/** Flags of earlier versions, without which what they made cannot be made again. */
const GONE = ['penalty', 'lambda', 'smooth'];

/**
 * The part of a scored file's configuration that credit follows from.
 * @throws RredcotError (exit 2) naming what of it this version does not know
 */
function knownCredit(path: string, config: Config): CreditOptions {
  const nature = storedNature(config);
  const gone = GONE.find((key) => config[key] !== undefined);
  try {
    if (gone !== undefined) throw usageError(`--${gone} ${config[gone]}`, '');
    if (nature === undefined || config.rule === undefined)
      throw usageError(`--estimator ${config.estimator} --sigma ${config.rule}`, '');
    return resolveCreditOptions(flagsOf(config), nature);
  } catch (error) {
    if (!(error instanceof RredcotError)) throw error;
    throw usageError(
      `${path}: was scored in a way that this version does not know: ${error.message}`,
      'score the traces again, or take the version that has scored them',
    );
  }
}

/** What a scored file's configuration says. */
export const STORED: ConfigReader = { creditOf: knownCredit, valueColumns };

/** The flags with which a configuration's credit is made again, but for those of its estimator. */
export function flagsOf(config: Config): CreditFlags {
  const all = [['sigma', config.rule] as const, ...KEPT.map((key) => [key, config[key]] as const)];
  const given = all.filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(given.map(([key, value]) => [key, String(value)]));
}

/**
 * Checks the flags of the method.
 * @param estimator what values are, where no flag says so
 * @throws RredcotError (exit 2) for a value that none is, and for a flag that the others leave without a meaning
 */
export function resolveCreditOptions(
  flags: CreditFlags,
  estimator: Nature = resolveEstimator(flags),
): CreditOptions {
  const named = (flags.sigma ?? String(SIGMA_RULES[0])).split(',');
  const rules = named.map((name) => oneOf('--sigma', name.trim(), SIGMA_RULES));
  const double = rules.find((name, n) => rules.indexOf(name) < n);
  if (double !== undefined)
    throw usageError(`--sigma ${flags.sigma}: ${double} stands there twice`, 'name it once');
  const [rule, ...others] = rules as [SigmaRule, ...SigmaRule[]];
  const isLevel = estimator.noLevel === undefined;
  const baseline = resolveBaseline(flags.baseline ?? 'auto');
  const { priorColumn, onRewardScale, scores } = estimator;
  if (baseline === 'value' && priorColumn !== undefined && !onRewardScale && scores === 'nothing')
    throw usageError(
      `--baseline value: from outcomes alone --estimator ${estimator.name} has no value in front of the trace's own`,
      'use --baseline group or a number, or --calibration <file>',
    );
  if (!isLevel && baseline === 'value' && rules.some((each) => RULES[each].reads ?? RULES[each].ofSegments))
    throw usageError(
      `the values of --estimator ${estimator.name} are ${estimator.noLevel}, so v̂(s_0) is no baseline for a reward`,
      'use --baseline group or a number',
    );
  const literal = rules.find((each) => RULES[each].needsLevel);
  if (!isLevel && literal !== undefined)
    throw usageError(
      `--sigma ${literal} divides by ζ − v̂(s_0), and the values of --estimator ${estimator.name} are ${estimator.noLevel}`,
      `--sigma ${SIGMA_RULES[0]}, or another estimator`,
    );
  const residual = oneOf('--residual', flags.residual ?? RESIDUALS[0], RESIDUALS);
  if (residual !== RESIDUALS[0]) assertRead(`--residual ${residual}`, readersOf('residual'), rules);
  const method = resolveMethod(flags.method ?? METHODS[0], estimator);
  return {
    ...{ estimator, rule, baseline, residual },
    within: oneOf('--within', flags.within ?? WITHINS[0], WITHINS),
    rewardRange: resolveRange(flags.rewardRange ?? ANY_RANGE),
    ...(others.length === 0 ? {} : { others }),
    ...resolveSteps(flags, rules, estimator),
    ...resolveNumbers(flags, rules, method),
    ...(method === METHODS[0] ? {} : { method }),
  };
}

/** The facts of the estimator that is asked for. @throws RredcotError (exit 2) for a name that none has, and a flag of another one */
export function resolveEstimator(flags: FlagValues): Nature {
  const names = ESTIMATORS.map((each) => each.name);
  const name = oneOf('--estimator', String(flags.estimator), names);
  const estimator = estimatorNamed(name) as Estimator;
  const foreignFlag = otherFlag(allFlagsOf(estimator), ESTIMATORS.flatMap(allFlagsOf), flags);
  const other = foreignFlag && ESTIMATORS.find((each) => allFlagsOf(each).includes(foreignFlag));
  if (other)
    throw usageError(
      `${foreignFlag[0].split(' ')[0]} has no meaning with --estimator ${name}`,
      `add --estimator ${other.name}`,
    );
  return estimator.withFlags?.(flags) ?? estimator;
}

function readersOf(flag: RuleFlag): readonly SigmaRule[] {
  return SIGMA_RULES.filter((rule) => RULES[rule].flags?.includes(flag));
}

/** `--steps`, for values of a state under the policy that wrote the trace, and where something reads them. */
function resolveSteps(flags: CreditFlags, rules: readonly SigmaRule[], nature: Nature) {
  const ofValues = SIGMA_RULES.filter((rule) => RULES[rule].ofSegments);
  const steps = oneOf('--steps', flags.steps ?? STEPS[0], STEPS);
  if (steps === STEPS[0]) return {};
  if (!isMartingale(nature))
    throw usageError(
      `--steps ${steps} is for values of the policy's states, and those of --estimator ${nature.name} are ${nature.isOfProver ? "a prover's" : nature.noLevel}`,
      'leave it out, or take another --estimator',
    );
  if (flags.method !== 'segment') assertRead(`--steps ${steps}`, ofValues, rules);
  return { steps };
}

/** @throws RredcotError (exit 2) where no rule reads a flag */
function assertRead(flag: string, readers: readonly SigmaRule[], rules: readonly SigmaRule[]): void {
  if (!rules.some((rule) => readers.includes(rule)))
    throw usageError(
      `${flag} has no meaning with --sigma ${rules.join(',')}`,
      `leave it out, or take one of --sigma ${readers.join('|')}`,
    );
}

/** The numbers, each where a rule or the method reads it; one that changes nothing is left out. */
function resolveNumbers(flags: CreditFlags, rules: readonly SigmaRule[], method: string) {
  const numbers: Partial<Record<NumberName, number>> = {};
  for (const [name, [neutral, expected, example, fits]] of Object.entries(NUMBERS)) {
    const text = flags[name as NumberName];
    if (text === undefined) continue;
    if (!(name in HIERARCHICAL)) assertRead(`--${name}`, readersOf(name as RuleFlag), rules);
    else if (method !== 'hierarchical')
      throw usageError(`--${name} has no meaning with --method ${method}`, 'add --method hierarchical');
    const value = finite(`--${name}`, text, expected, example, fits);
    if (value !== neutral) numbers[name as NumberName] = value;
  }
  return numbers;
}

/** `--method`: what is written beside σ. */
function resolveMethod(text: string, { name, priorColumn, onRewardScale, isOfProver }: Nature) {
  const method = oneOf('--method', text, METHODS);
  const expected = ESTIMATORS.filter((each) => each.onRewardScale);
  if (method === 'segment' && priorColumn !== undefined)
    throw usageError(
      `--method segment takes V(s_k-1) for a baseline, and the values of --estimator ${name} have the trace's own outcome in them`,
      `--estimator ${expected[0]?.name}`,
    );
  if (method === 'segment' && !onRewardScale)
    throw usageError(
      `--method segment: the values of --estimator ${name} are no expected rewards, so ζ − V is no advantage`,
      `--estimator ${expected.map((each) => each.name).join('|')}`,
    );
  if (method === 'hierarchical' && !isOfProver)
    throw usageError(
      `--method hierarchical takes the progress of a prover, and --estimator ${name} has none`,
      `--estimator ${ESTIMATORS.find((each) => each.isOfProver)?.name}`,
    );
  return method;
}

function resolveBaseline(text: string): Baseline {
  const named = BASELINES.find((name) => name === text);
  if (named !== undefined) return named;
  const expected = 'auto, group, rloo, value or a number in 0..1, the scale onto which --reward-range maps';
  // beyond it no mean reward is: the sign of R* would not be that of the trace
  return finite('--baseline', text, expected, 'auto', (b) => b >= 0 && b <= 1);
}

function resolveRange(text: string): readonly [number, number] {
  if (text === ANY_RANGE) return [0, 1];
  const expected = 'two numbers low,high with low below high, e.g. -1,1';
  const [low = Number.NaN, high = Number.NaN, ...more] = text
    .split(',')
    .map((part) => finite('--reward-range', part, expected, '0,1'));
  if (more.length > 0 || !(low < high))
    throw usageError(`--reward-range ${text}: expected ${expected}`, '--reward-range 0,1');
  return [low, high];
}
