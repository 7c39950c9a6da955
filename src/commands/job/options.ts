// Checks every value of the flags that `score` and `segment` take.

import { HIERARCHICAL } from '../../credit/hierarchical.js';
import { NORMALISERS, type Normaliser, OF_OTHERS } from '../../credit/normalisers.js';
import { SHARE_EVEN } from '../../credit/per-segment.js';
import type { RuleFlag } from '../../credit/rule.js';
import { usageError } from '../../errors.js';
import type { Baseline, CreditOptions } from '../../estimate/credit.js';
import { hasLevel, isMartingale, type Nature } from '../../estimate/nature.js';
import { METHODS } from '../../estimate/requested.js';
import { RESIDUALS, ruleOf, SIGMA_RULES, type SigmaRule, STEPS, WITHINS } from '../../estimate/sigma.js';
import { type FlagValues, refuseForeignFlags } from '../../estimators/estimator.js';
import { ESTIMATORS, estimatorNamed } from '../../estimators/registry.js';
import { finite, oneOf, positiveInteger } from '../../flag-values.js';
import type { OurColumn } from '../../io/arrow/output-columns.js';
import type { ColumnChoice } from '../../io/write/column-choice.js';
import type { ExportName } from '../../io/write/exports.js';
import type { OutputFormat } from '../../io/write/output.js';
import type { TextChoice } from '../../io/write/text-columns.js';
import type { DeviceChoice } from '../../policy/device.js';
import type { SegmentOptions } from '../../segment/segment.js';
import type { MaxRejects } from './reject-limits.js';

/** More than any α or β could mean; what is far beyond leaves float32. */
const MOST_PART = 1e6;

/** What `score`, `segment` and `sample` share. */
export interface JobOptions {
  readonly device: DeviceChoice;
  readonly map: string | undefined;
  readonly preset: string;
  readonly join: string | undefined;
  readonly joinOn: string | undefined;
  readonly joinColumns?: readonly string[] | undefined;
  readonly output: string | undefined;
  readonly format: OutputFormat | undefined;
  /** ours that are written; undefined: all */
  readonly columns: readonly OurColumn[] | undefined;
  /** columns of the input that are written */
  readonly choice?: ColumnChoice;
  readonly text?: TextChoice;
  readonly limit: number | undefined;
  readonly maxLineBytes: number;
  readonly signal: AbortSignal;
  readonly maxRejects: MaxRejects | undefined;
  /** variables for the policy's chat template */
  readonly chatTemplateArgs: Readonly<Record<string, unknown>>;
}

/** What `score` and `segment` share. */
export interface CutOptions extends JobOptions {
  readonly segments: SegmentOptions;
}

/** Raw flag values of the method, as commander hands them on. */
export interface CreditFlags {
  readonly estimator: string;
  readonly sigma: string;
  readonly baseline: string;
  readonly residual: string;
  readonly within: string;
  readonly steps: string;
  readonly even?: string;
  readonly rewardRange: string;
  readonly tau?: string;
  readonly smooth?: string;
  readonly penalty?: string;
  readonly method?: string;
  readonly alpha?: string;
  readonly beta?: string;
  readonly normalisers?: string;
  readonly batchSize?: string;
  readonly maxCompletionLength?: string;
  /** those of estimators */
  readonly [flag: string]: unknown;
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
  const rules = listOf('--sigma', flags.sigma, SIGMA_RULES);
  const [rule, ...others] = rules as [SigmaRule, ...SigmaRule[]];
  const isLevel = hasLevel(estimator);
  const baseline = resolveBaseline(flags.baseline);
  if (!isLevel && baseline === 'value' && rules.some((each) => ruleOf(each).reads ?? ruleOf(each).ofSegments))
    throw usageError(
      `the values of --estimator ${estimator.name} are ${estimator.noLevel}, so v̂(s_0) is no baseline for a reward`,
      'use --baseline group or a number',
    );
  const literal = rules.find((each) => ruleOf(each).needsLevel);
  if (!isLevel && literal !== undefined)
    throw usageError(
      `--sigma ${literal} divides by ζ − v̂(s_0), and the values of --estimator ${estimator.name} are ${estimator.noLevel}`,
      '--sigma share, or another estimator',
    );
  const residual = oneOf('--residual', flags.residual, RESIDUALS);
  if (residual !== 'uniform' && !rules.some((each) => reads(each, 'residual')))
    throw usageError(
      `--residual ${residual}: --sigma ${flags.sigma} leaves no residual`,
      `add --sigma ${readersOf('residual').join('|')}, or leave out --residual`,
    );
  return {
    estimator,
    rule,
    baseline,
    residual,
    within: oneOf('--within', flags.within, WITHINS),
    rewardRange: resolveRange(flags.rewardRange),
    ...(others.length === 0 ? {} : { others }),
    ...resolveSteps(flags, rules, estimator),
    ...resolveShaping(flags, rules),
    ...resolveRequests(flags, estimator),
  };
}

/** The facts of the estimator that is asked for. @throws RredcotError (exit 2) for a name that none has, and a flag of another one */
export function resolveEstimator(flags: FlagValues): Nature {
  const name = oneOf(
    '--estimator',
    String(flags.estimator),
    ESTIMATORS.map((each) => each.name),
  );
  const estimator = estimatorNamed(name) as (typeof ESTIMATORS)[number];
  refuseForeignFlags(estimator, ESTIMATORS, flags);
  return estimator.withFlags?.(flags) ?? estimator;
}

/** The rules that share values' differences out. */
const VALUE_RULES = SIGMA_RULES.filter((rule) => ruleOf(rule).ofSegments);

function reads(rule: SigmaRule, flag: RuleFlag): boolean {
  return ruleOf(rule).flags?.includes(flag) === true;
}

function readersOf(flag: RuleFlag): readonly SigmaRule[] {
  return SIGMA_RULES.filter((rule) => reads(rule, flag));
}

/** `--steps`, for values of a state under the policy that wrote the trace, and where something reads them. */
function resolveSteps(flags: CreditFlags, rules: readonly SigmaRule[], nature: Nature) {
  const steps = oneOf('--steps', flags.steps, STEPS);
  if (steps === 'free') return {};
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

/** `--even`, `--tau`, `--smooth` and `--penalty`, each where a rule reads it; one that changes nothing is left out. */
function resolveShaping(flags: CreditFlags, rules: readonly SigmaRule[]) {
  const readBy = (flag: RuleFlag): void => {
    const readers = readersOf(flag);
    if (!rules.some((rule) => readers.includes(rule)))
      throw usageError(
        `--${flag} has no meaning with --sigma ${rules.join(',')}`,
        `leave it out, or take one of --sigma ${readers.join('|')}`,
      );
  };
  const shaping: { even?: number; tau?: number; smooth?: number; penalty?: number } = {};
  if (flags.even !== undefined) {
    readBy('even');
    const even = finite('--even', flags.even, 'a number from 0 to 1', '0.5');
    if (even < 0 || even > 1)
      throw usageError(`--even ${flags.even}: expected a number from 0 to 1`, '--even 0.5');
    if (even !== SHARE_EVEN) shaping.even = even;
  }
  if (flags.tau !== undefined) {
    readBy('tau');
    const tau = finite('--tau', flags.tau, 'a number above 0', '0.5');
    if (tau <= 0) throw usageError(`--tau ${flags.tau}: expected a number above 0`, '--tau 0.5');
    if (tau !== 1) shaping.tau = tau;
  }
  if (flags.smooth !== undefined) {
    readBy('smooth');
    const smooth = positiveInteger('--smooth', flags.smooth, 1, 0);
    if (smooth !== 0) shaping.smooth = smooth;
  }
  if (flags.penalty !== undefined) {
    readBy('penalty');
    const penalty = finite('--penalty', flags.penalty, 'a number of at least 0', '2');
    if (penalty < 0) throw usageError(`--penalty ${flags.penalty}: expected at least 0`, '--penalty 2');
    if (penalty !== 1) shaping.penalty = penalty;
  }
  return shaping;
}

/** `--method` and `--normalisers`: what is written beside σ. */
function resolveRequests(flags: CreditFlags, { name, hasOutcome, onRewardScale, isOfProver }: Nature) {
  const method = oneOf('--method', flags.method ?? 'sigma', METHODS);
  if (method === 'segment' && hasOutcome)
    throw usageError(
      `--method segment takes V(s_k-1) for a baseline, and the values of --estimator ${name} have the trace's own outcome in them`,
      '--estimator calibrated',
    );
  if (method === 'segment' && !onRewardScale)
    throw usageError(
      `--method segment: the values of --estimator ${name} are no expected rewards, so ζ − V is no advantage`,
      `--estimator ${ESTIMATORS.filter((each) => each.onRewardScale)
        .map((each) => each.name)
        .join('|')}`,
    );
  const isHierarchical = method === 'hierarchical';
  if (isHierarchical && !isOfProver)
    throw usageError(
      `--method hierarchical takes the progress of a prover, and --estimator ${name} has none`,
      '--estimator progress',
    );
  const number = (part: keyof typeof HIERARCHICAL): number => {
    const text = flags[part];
    if (text !== undefined && !isHierarchical)
      throw usageError(`--${part} has no meaning with --method ${method}`, 'add --method hierarchical');
    const value = finite(`--${part}`, text ?? `${HIERARCHICAL[part]}`, 'a number of at least 0', '1');
    if (value < 0 || value > MOST_PART)
      throw usageError(`--${part} ${text}: expected 0 to ${MOST_PART}`, `--${part} 1`);
    return value;
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
  const most = needs('--max-completion-length', flags.maxCompletionLength, 'dr_grpo');
  const batchSize = needs('--batch-size', flags.batchSize, 'batch_tokens');
  return {
    ...(method === 'segment' ? { method } : {}),
    ...(isHierarchical ? { method, alpha, beta } : {}),
    ...(normalisers.length === 0 ? {} : { normalisers }),
    ...(batchSize === undefined ? {} : { batchSize }),
    ...(most === undefined ? {} : { maxCompletionLength: most }),
  };
}

/**
 * What a pass over traces cannot know is made of the file that it writes.
 * @throws RredcotError (exit 2) for normalisers that count the tokens of other traces
 */
export function refuseOfOthers({ normalisers = [] }: CreditOptions): void {
  const found = normalisers.find((name) => OF_OTHERS.includes(name));
  if (found !== undefined)
    throw usageError(
      `--normalisers ${found} counts the tokens of other traces, which are known when all are scored`,
      `score without it, then rredcot redistribute <scored> --normalisers ${normalisers.join(',')}`,
    );
}

/** A list of named choices, each once. */
function listOf<T extends string>(flag: string, text: string, choices: readonly T[]): readonly T[] {
  const found = text.split(',').map((name) => oneOf(flag, name.trim(), choices));
  const double = found.find((name, n) => found.indexOf(name) < n);
  if (double !== undefined) throw usageError(`${flag} ${text}: ${double} stands there twice`, 'name it once');
  return found;
}

/**
 * Steps are labelled by the sign of their σ, which not all rules give them.
 * @throws RredcotError (exit 2) for an export that the rule cannot make, or beside columns that it has no place for
 */
export function checkExport(exportName: ExportName | undefined, credit: CreditOptions): void {
  if (exportName === undefined) return;
  const { rule, others = [], method, normalisers = [] } = credit;
  if (others.length > 0 || method !== undefined || normalisers.length > 0)
    throw usageError(
      `--export ${exportName} writes a trainer's columns alone`,
      'leave it out, or name one --sigma, and no --method or --normalisers',
    );
  if (exportName === 'prm' && credit.estimator.isMagnitude)
    throw usageError(
      `--export prm labels steps by the sign of σ, and what segments count for by --estimator ${credit.estimator.name} has none`,
      'take another --estimator',
    );
  if (exportName === 'prm' && !ruleOf(rule).isSigned)
    throw usageError(
      `--export prm labels steps by the sign of σ, and with --sigma ${rule} all have the same`,
      'add --sigma rudder',
    );
}

function resolveBaseline(text: string): Baseline {
  if (text === 'auto' || text === 'group' || text === 'value') return text;
  const expected = 'auto, group, value or a number in 0..1, the scale onto which --reward-range maps';
  const baseline = finite('--baseline', text, expected, 'auto');
  // no mean reward is there: the sign of R* would not be that of the trace
  if (baseline < 0 || baseline > 1)
    throw usageError(`--baseline ${text}: expected ${expected}`, '--baseline auto');
  return baseline;
}

/** `--reward-range` where nobody has named one: the inputs say which. */
export const ANY_RANGE = 'auto';

function resolveRange(text: string): readonly [number, number] {
  if (text === ANY_RANGE) return [0, 1];
  const expected = 'two numbers low,high with low below high, e.g. -1,1';
  const parts = text.split(',');
  if (parts.length !== 2)
    throw usageError(`--reward-range ${text}: expected ${expected}`, '--reward-range 0,1');
  const [low, high] = parts.map((part) => finite('--reward-range', part, expected, '0,1')) as [
    number,
    number,
  ];
  if (low >= high) throw usageError(`--reward-range ${text}: expected ${expected}`, '--reward-range 0,1');
  return [low, high];
}
