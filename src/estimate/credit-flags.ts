// The flags that say how values become credit: what help says of each, its value checked, and the flags of a configuration.

import { BASELINES, type Baseline, type CreditOptions } from '../credit/credit.js';
import { HIERARCHICAL } from '../credit/hierarchical.js';
import { hasLevel, isMartingale, type Nature } from '../credit/nature.js';
import { METHODS, NORMALISERS, type Normaliser } from '../credit/requested.js';
import { DISCOUNT, type RuleFlag, ruleOf, SHARE_MIX, SIGMA_RULES, type SigmaRule } from '../credit/rules.js';
import { RESIDUALS, STEPS, WITHINS } from '../credit/sigma.js';
import { usageError } from '../errors.js';
import { finite, oneOf, otherFlag, positiveInteger } from '../flag-values.js';
import type { Config } from '../io/write/output.js';
import type { Estimator, FlagValues } from './estimator.js';
import { ESTIMATORS, estimatorNamed, flagsOfAll } from './registry.js';

/** A flag, and its value where `score` is not told; undefined: none. */
type CreditFlag = readonly [flag: string, text: string, fallback?: string | undefined];

/** `--reward-range` where nobody has named one: the inputs say which. */
export const ANY_RANGE = 'auto';

/** All of them, in the order of help. */
export function creditFlags(): readonly CreditFlag[] {
  const of = (flag: RuleFlag) => `of --sigma ${readersOf(flag).join(', ')}`;
  return [
    [
      '--estimator <name>',
      `value of a state: ${ESTIMATORS.map(({ name }) => name).join('|')} (docs/method.md), or ./mine.mjs, a module of your own (docs/your-own-credit.md)`,
      ESTIMATORS[0]?.name,
    ],
    ...flagsOfAll('creditFlags'),
    [
      '--sigma <rule,…>',
      `from values to σ: ${SIGMA_RULES.join('|')} (docs/method.md); the first in sigma, others in sigma_<rule>`,
      SIGMA_RULES[0],
    ],
    [
      '--baseline <b>',
      "auto|group|rloo|value|<number> in 0..1; auto: the group's mean reward, v̂(s_0) without a group, and for values on the reward's scale; rloo: the mean of its other traces",
      'auto',
    ],
    [
      '--residual <where>',
      `${of('residual')}, where the reward that no segment explains goes: ${RESIDUALS.join('|')}`,
      RESIDUALS[0],
    ],
    ['--within <how>', `weights inside a segment: ${WITHINS.join('|')}`, WITHINS[0]],
    [
      '--mix <x>',
      `${of('mix')}, the part of σ that falls on all tokens alike, 0 to 1 (default: ${SHARE_MIX})`,
    ],
    [
      '--cap <w>',
      `${of('cap')}, most that a token weighs, σ·T: what is above falls on all tokens alike, 1 or more (default: none)`,
    ],
    ['--tau <x>', `temperature ${of('tau')} (default: 1)`],
    ['--gamma <x>', `${of('gamma')}, what a token has of the next one's credit (default: ${DISCOUNT})`],
    ['--smooth <n>', 'σ averaged with that of n segments on either side (default: 0)'],
    [
      '--steps <how>',
      `how far values may step where the policy was sure of the segment: ${STEPS.join('|')} (docs/method.md)`,
      STEPS[0],
    ],
    [
      '--reward-range <low,high>',
      "the rewards' scale, mapped onto 0..1; auto: 0,1, and -1,1 where all rewards are -1 or 1; verdicts (true, false, acc) are on no scale",
      ANY_RANGE,
    ],
    [
      '--method <name>',
      `${METHODS.join('|')}; segment: also token_advantage, segments as actions, not return-equivalent, for values on the reward's scale; hierarchical: also token_advantage of outcome, progress and token, not return-equivalent, implies --estimator progress (default: sigma)`,
    ],
    [
      '--alpha <x>',
      `of --method hierarchical: what progress counts for beside the outcome (default: ${HIERARCHICAL.alpha})`,
    ],
    [
      '--beta <x>',
      `of --method hierarchical: how far a token's entropy takes its share (default: ${HIERARCHICAL.beta})`,
    ],
    ['--normalisers <a,b>', `columns of ${NORMALISERS.join('|')}, to be compared with σ`],
    ['--batch-size <n>', 'traces a batch, for --normalisers batch_tokens, which needs it (default: none)'],
    ['--max-completion-length <n>', 'tokens, for --normalisers dr_grpo, which needs it (default: none)'],
  ];
}

/** What shapes a rule's credit: a number, left out where it is the one that changes nothing. */
const SHAPING = {
  mix: shape(SHARE_MIX, 'a number from 0 to 1', '0.5', (x) => x >= 0 && x <= 1),
  cap: shape(Number.POSITIVE_INFINITY, 'a number from 1 on', '4', (x) => x >= 1),
  tau: shape(1, 'a number above 0', '0.5', (x) => x > 0),
  gamma: shape(DISCOUNT, 'a number above 0 up to 1', '0.99', (x) => x > 0 && x <= 1),
  smooth: { neutral: 0, read: (flag: string, text: string) => positiveInteger(flag, text, 1, 0) },
} as const;

function shape(neutral: number, expected: string, example: string, fits: (x: number) => boolean) {
  return { neutral, read: (flag: string, text: string) => finite(flag, text, expected, example, fits) };
}

const SHAPES = Object.keys(SHAPING) as readonly (keyof typeof SHAPING)[];

/** Those that a rule reads, whatever else is asked for. */
export const OF_RULES: readonly string[] = ['residual', ...SHAPES];

/** Those that a configuration keeps under their own names; `--sigma` is its `rule`. */
const KEPT = [
  ...(['baseline', 'residual', 'within', 'steps', 'rewardRange', 'method', 'alpha', 'beta'] as const),
  ...(['normalisers', 'batchSize', 'maxCompletionLength'] as const),
  ...SHAPES,
] as const;

/** Their raw values; those of estimators are among them. */
export type CreditFlags = Readonly<Partial<Record<(typeof KEPT)[number] | 'estimator' | 'sigma', string>>> &
  FlagValues;

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
  const rules = listOf('--sigma', flags.sigma ?? String(SIGMA_RULES[0]), SIGMA_RULES);
  const [rule, ...others] = rules as [SigmaRule, ...SigmaRule[]];
  const isLevel = hasLevel(estimator);
  const baseline = resolveBaseline(flags.baseline ?? 'auto');
  const { hasOutcome, onRewardScale, scores } = estimator;
  if (baseline === 'value' && hasOutcome && !onRewardScale && scores === 'nothing')
    throw usageError(
      `--baseline value: from outcomes alone --estimator ${estimator.name} has no value in front of the trace's own`,
      'use --baseline group or a number, or --calibration <file>',
    );
  if (!isLevel && baseline === 'value' && rules.some((each) => ruleOf(each).reads ?? ruleOf(each).ofSegments))
    throw usageError(
      `the values of --estimator ${estimator.name} are ${estimator.noLevel}, so v̂(s_0) is no baseline for a reward`,
      'use --baseline group or a number',
    );
  const literal = rules.find((each) => ruleOf(each).needsLevel);
  if (!isLevel && literal !== undefined)
    throw usageError(
      `--sigma ${literal} divides by ζ − v̂(s_0), and the values of --estimator ${estimator.name} are ${estimator.noLevel}`,
      `--sigma ${SIGMA_RULES[0]}, or another estimator`,
    );
  const residual = oneOf('--residual', flags.residual ?? RESIDUALS[0], RESIDUALS);
  if (residual !== RESIDUALS[0] && !rules.some((each) => readersOf('residual').includes(each)))
    throw usageError(
      `--residual ${residual}: --sigma ${flags.sigma} leaves no residual`,
      `add --sigma ${readersOf('residual').join('|')}, or leave out --residual`,
    );
  return {
    ...{ estimator, rule, baseline, residual },
    within: oneOf('--within', flags.within ?? WITHINS[0], WITHINS),
    rewardRange: resolveRange(flags.rewardRange ?? ANY_RANGE),
    ...(others.length === 0 ? {} : { others }),
    ...resolveSteps(flags, rules, estimator),
    ...resolveShaping(flags, rules),
    ...resolveRequests(flags, estimator),
  };
}

/** The facts of the estimator that is asked for. @throws RredcotError (exit 2) for a name that none has, and a flag of another one */
export function resolveEstimator(flags: FlagValues): Nature {
  const names = ESTIMATORS.map((each) => each.name);
  const name = oneOf('--estimator', String(flags.estimator), names);
  const estimator = estimatorNamed(name) as Estimator;
  const flagsOf = (each: Estimator) => [...(each.creditFlags ?? []), ...(each.flags ?? [])];
  const foreignFlag = otherFlag(flagsOf(estimator), ESTIMATORS.flatMap(flagsOf), flags);
  const other = foreignFlag && ESTIMATORS.find((each) => flagsOf(each).includes(foreignFlag));
  if (other)
    throw usageError(
      `${foreignFlag[0].split(' ')[0]} has no meaning with --estimator ${name}`,
      `add --estimator ${other.name}`,
    );
  return estimator.withFlags?.(flags) ?? estimator;
}

/** The rules that share values' differences out. */
const VALUE_RULES = SIGMA_RULES.filter((rule) => ruleOf(rule).ofSegments);

function readersOf(flag: RuleFlag): readonly SigmaRule[] {
  return SIGMA_RULES.filter((rule) => ruleOf(rule).flags?.includes(flag));
}

/** `--steps`, for values of a state under the policy that wrote the trace, and where something reads them. */
function resolveSteps(flags: CreditFlags, rules: readonly SigmaRule[], nature: Nature) {
  const steps = oneOf('--steps', flags.steps ?? STEPS[0], STEPS);
  if (steps === STEPS[0]) return {};
  if (!isMartingale(nature))
    throw usageError(
      `--steps ${steps} is for values of the policy's states, and those of --estimator ${nature.name} are ${nature.isOfProver ? "a prover's" : nature.noLevel}`,
      'leave it out, or take another --estimator',
    );
  if (flags.method !== 'segment' && !rules.some((rule) => VALUE_RULES.includes(rule)))
    throw usageError(
      `--steps ${steps} has no meaning with --sigma ${rules.join(',')}`,
      `leave it out, or take one of --sigma ${VALUE_RULES.join('|')}`,
    );
  return { steps };
}

/** The numbers that shape a rule's credit, each where the rule reads it. */
function resolveShaping(flags: CreditFlags, rules: readonly SigmaRule[]) {
  const shaping: { -readonly [K in keyof typeof SHAPING]?: number } = {};
  for (const name of SHAPES) {
    const text = flags[name];
    if (text === undefined) continue;
    const readers = readersOf(name);
    if (!rules.some((rule) => readers.includes(rule)))
      throw usageError(
        `--${name} has no meaning with --sigma ${rules.join(',')}`,
        `leave it out, or take one of --sigma ${readers.join('|')}`,
      );
    const value = SHAPING[name].read(`--${name}`, text);
    if (value !== SHAPING[name].neutral) shaping[name] = value;
  }
  return shaping;
}

/** More than any α or β could mean; what is far beyond leaves float32. */
const MOST_PART = 1e6;

/** `--method` and `--normalisers`: what is written beside σ. */
function resolveRequests(flags: CreditFlags, { name, hasOutcome, onRewardScale, isOfProver }: Nature) {
  const method = oneOf('--method', flags.method ?? METHODS[0], METHODS);
  const expected = ESTIMATORS.filter((each) => each.onRewardScale);
  if (method === 'segment' && hasOutcome)
    throw usageError(
      `--method segment takes V(s_k-1) for a baseline, and the values of --estimator ${name} have the trace's own outcome in them`,
      `--estimator ${expected[0]?.name}`,
    );
  if (method === 'segment' && !onRewardScale)
    throw usageError(
      `--method segment: the values of --estimator ${name} are no expected rewards, so ζ − V is no advantage`,
      `--estimator ${expected.map((each) => each.name).join('|')}`,
    );
  const isHierarchical = method === 'hierarchical';
  if (isHierarchical && !isOfProver)
    throw usageError(
      `--method hierarchical takes the progress of a prover, and --estimator ${name} has none`,
      `--estimator ${ESTIMATORS.find((each) => each.isOfProver)?.name}`,
    );
  const number = (part: keyof typeof HIERARCHICAL): number => {
    const text = flags[part];
    if (text !== undefined && !isHierarchical)
      throw usageError(`--${part} has no meaning with --method ${method}`, 'add --method hierarchical');
    const isPart = (x: number) => x >= 0 && x <= MOST_PART;
    return finite(`--${part}`, text ?? `${HIERARCHICAL[part]}`, `0 to ${MOST_PART}`, '1', isPart);
  };
  const [alpha, beta] = [number('alpha'), number('beta')];
  const normalisers =
    flags.normalisers === undefined ? [] : listOf('--normalisers', flags.normalisers, NORMALISERS);
  const needs = (flag: string, text: string | undefined, reader: Normaliser): number | undefined => {
    const isRead = normalisers.includes(reader);
    if (isRead !== (text !== undefined))
      throw usageError(
        isRead ? `--normalisers ${reader} needs ${flag}` : `${flag} has no meaning here`,
        isRead ? `add ${flag} <n>` : `add --normalisers ${reader}, or leave it out`,
      );
    return text === undefined ? undefined : positiveInteger(flag, text, 1024);
  };
  const maxCompletionLength = needs('--max-completion-length', flags.maxCompletionLength, 'dr_grpo');
  const batchSize = needs('--batch-size', flags.batchSize, 'batch_tokens');
  return {
    ...(method === 'segment' && { method }),
    ...(isHierarchical && { method, alpha, beta }),
    ...(normalisers.length > 0 && { normalisers }),
    ...(batchSize !== undefined && { batchSize }),
    ...(maxCompletionLength !== undefined && { maxCompletionLength }),
  };
}

/** A list of named choices, each once. */
function listOf<T extends string>(flag: string, text: string, choices: readonly T[]): readonly T[] {
  const found = text.split(',').map((name) => oneOf(flag, name.trim(), choices));
  const double = found.find((name, n) => found.indexOf(name) < n);
  if (double !== undefined) throw usageError(`${flag} ${text}: ${double} stands there twice`, 'name it once');
  return found;
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
