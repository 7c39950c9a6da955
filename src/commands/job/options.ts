// What score and segment are told, with every value checked: flags of the command line in, options out.
import { usageError } from '../../errors.js';
import type { Baseline, CreditOptions } from '../../estimate/credit.js';
import {
  BEST_OF_ESTIMATORS,
  ESTIMATORS,
  type Estimator,
  hasLevel,
  isMagnitude,
  natureOf,
  PROVER_ESTIMATORS,
  type ProverChoice,
} from '../../estimate/estimators.js';
import { METHODS } from '../../estimate/requested.js';
import { HIERARCHICAL } from '../../estimate/rules/hierarchical.js';
import { NORMALISERS, type Normaliser, OF_OTHERS } from '../../estimate/rules/normalisers.js';
import { RESIDUALS, SIGMA_RULES, type SigmaRule, TOKEN_RULES, WITHINS } from '../../estimate/sigma.js';
import type { ExportName } from '../../io/export/exports.js';
import type { OurColumn } from '../../io/table/output-columns.js';
import type { ColumnChoice } from '../../io/write/column-choice.js';
import type { OutputFormat } from '../../io/write/output.js';
import type { TextChoice } from '../../io/write/text-columns.js';
import type { DeviceChoice } from '../../policy/device/device.js';
import type { SegmentOptions } from '../../segment/segment.js';
import { finite, oneOf, positiveInteger } from './flag-values.js';
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
  readonly rewardRange: string;
  readonly tau?: string;
  readonly smooth?: string;
  readonly penalty?: string;
  readonly lambda?: string;
  readonly method?: string;
  readonly alpha?: string;
  readonly beta?: string;
  readonly normalisers?: string;
  readonly batchSize?: string;
  readonly maxCompletionLength?: string;
  readonly proverEstimator?: string;
  readonly bestOf?: string;
}

/**
 * Checks the flags of the method.
 * @throws RredcotError (exit 2) for a value that none is, and for a flag that the others leave without a meaning
 */
export function resolveCreditOptions(flags: CreditFlags): CreditOptions {
  const estimator = oneOf('--estimator', flags.estimator, ESTIMATORS);
  const rules = listOf('--sigma', flags.sigma, SIGMA_RULES);
  const [rule, ...others] = rules as [SigmaRule, ...SigmaRule[]];
  const isLevel = hasLevel(estimator);
  const baseline = resolveBaseline(flags.baseline);
  if (!isLevel && baseline === 'value' && rules.some((each) => each !== 'uniform'))
    throw usageError(
      `the values of --estimator ${estimator} are ${kindOf(estimator)}, so v̂(s_0) is no baseline for a reward`,
      'use --baseline group or a number',
    );
  if (!isLevel && rules.includes('signed'))
    throw usageError(
      `--sigma signed divides by ζ − v̂(s_0), and the values of --estimator ${estimator} are ${kindOf(estimator)}`,
      '--sigma share, or another estimator',
    );
  const residual = oneOf('--residual', flags.residual, RESIDUALS);
  if (residual !== 'uniform' && !rules.includes('rudder'))
    throw usageError(
      `--residual ${residual}: --sigma ${flags.sigma} leaves no residual`,
      'add --sigma rudder, or leave out --residual',
    );
  return {
    estimator,
    rule,
    baseline,
    residual,
    within: oneOf('--within', flags.within, WITHINS),
    rewardRange: resolveRange(flags.rewardRange),
    ...(others.length === 0 ? {} : { others }),
    ...resolveProver(flags, estimator),
    ...resolveShaping(flags, rules, estimator),
    ...resolveRequests(flags, estimator),
  };
}

/** What values without a level are. */
function kindOf(estimator: Estimator): string {
  if (natureOf(estimator).isHinted) return 'no values of a state';
  const { isLog, judgesSteps } = natureOf(estimator);
  return isLog ? 'logarithms' : judgesSteps ? "a reward model's judgements of steps" : 'sums of attributions';
}

/** `--prover-estimator` and `--best-of`, for an estimator that has a prover. */
function resolveProver(
  { proverEstimator, bestOf }: CreditFlags,
  estimator: Estimator,
): { readonly prover?: ProverChoice } {
  if (!natureOf(estimator).isOfProver) {
    const given =
      proverEstimator !== undefined ? '--prover-estimator' : bestOf !== undefined ? '--best-of' : undefined;
    if (given === undefined) return {};
    throw usageError(`${given} has no meaning with --estimator ${estimator}`, 'add --estimator progress');
  }
  const own = oneOf('--prover-estimator', proverEstimator ?? 'pr', PROVER_ESTIMATORS);
  const best = positiveInteger('--best-of', bestOf ?? '1', 4);
  if (best > 1 && !BEST_OF_ESTIMATORS.includes(own))
    throw usageError(
      `--best-of ${best}: the values of --prover-estimator ${own} are no probabilities`,
      `--prover-estimator ${BEST_OF_ESTIMATORS.join('|')}, or leave it out`,
    );
  return { prover: { estimator: own, bestOf: best } };
}

/** `--tau`, `--smooth`, `--penalty` and `--lambda`, each where a rule reads it; one that changes nothing is left out. */
function resolveShaping(flags: CreditFlags, rules: readonly SigmaRule[], estimator: Estimator) {
  const readBy = (flag: string, readers: readonly SigmaRule[]): void => {
    if (!rules.some((rule) => readers.includes(rule)))
      throw usageError(
        `${flag} has no meaning with --sigma ${rules.join(',')}`,
        `leave it out, or take one of --sigma ${readers.join('|')}`,
      );
  };
  const shaped = SIGMA_RULES.filter((rule) => !TOKEN_RULES.includes(rule));
  const shaping: { tau?: number; smooth?: number; penalty?: number; lambda?: number } = {};
  if (flags.tau !== undefined) {
    readBy('--tau', ['softmax']);
    const tau = finite('--tau', flags.tau, 'a number above 0', '0.5');
    if (tau <= 0) throw usageError(`--tau ${flags.tau}: expected a number above 0`, '--tau 0.5');
    if (tau !== 1) shaping.tau = tau;
  }
  if (flags.smooth !== undefined) {
    readBy('--smooth', shaped);
    const smooth = positiveInteger('--smooth', flags.smooth, 1, 0);
    if (smooth !== 0) shaping.smooth = smooth;
  }
  if (flags.penalty !== undefined) {
    // of `share` each sign is shared out by itself: a factor on one of them cancels
    readBy('--penalty', ['rudder', 'signed', 'softmax', 'abs']);
    const penalty = finite('--penalty', flags.penalty, 'a number of at least 0', '2');
    if (penalty < 0) throw usageError(`--penalty ${flags.penalty}: expected at least 0`, '--penalty 2');
    if (penalty !== 1) shaping.penalty = penalty;
  }
  if (flags.lambda !== undefined) {
    if (flags.method !== 'segment') readBy('--lambda', shaped);
    const lambda = finite('--lambda', flags.lambda, 'a number from 0 to 1', '0.5');
    if (lambda < 0 || lambda > 1)
      throw usageError(`--lambda ${flags.lambda}: expected a number from 0 to 1`, '--lambda 0.5');
    if (!hasLevel(estimator) && lambda !== 0)
      throw usageError(
        `--lambda mixes the reward into the values, and these are ${kindOf(estimator)}`,
        'leave it out, or take another --estimator',
      );
    if (lambda !== 0) shaping.lambda = lambda;
  }
  return shaping;
}

/** `--method` and `--normalisers`: what is written beside σ. */
function resolveRequests(flags: CreditFlags, estimator: CreditOptions['estimator']) {
  const method = oneOf('--method', flags.method ?? 'sigma', METHODS);
  if (method === 'segment' && natureOf(estimator).readsMates)
    throw usageError(
      `--method segment takes V(s_k-1) for a baseline, and the values of --estimator ${estimator} have the trace's own outcome in them`,
      '--estimator calibrated',
    );
  if (method === 'segment' && !natureOf(estimator).onRewardScale)
    throw usageError(
      `--method segment: the values of --estimator ${estimator} are no expected rewards, so ζ − V is no advantage`,
      `--estimator ${ESTIMATORS.filter((name) => natureOf(name).onRewardScale).join('|')}`,
    );
  const isHierarchical = method === 'hierarchical';
  if (isHierarchical && !natureOf(estimator).isOfProver)
    throw usageError(
      `--method hierarchical takes the progress of a prover, and --estimator ${estimator} has none`,
      '--estimator progress',
    );
  const part = (name: keyof typeof HIERARCHICAL): number => {
    const text = flags[name];
    if (text !== undefined && !isHierarchical)
      throw usageError(`--${name} has no meaning with --method ${method}`, 'add --method hierarchical');
    const value = finite(`--${name}`, text ?? `${HIERARCHICAL[name]}`, 'a number of at least 0', '1');
    if (value < 0 || value > MOST_PART)
      throw usageError(`--${name} ${text}: expected 0 to ${MOST_PART}`, `--${name} 1`);
    return value;
  };
  const [alpha, beta] = [part('alpha'), part('beta')];
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
  if (exportName === 'prm' && isMagnitude(credit.estimator))
    throw usageError(
      `--export prm labels steps by the sign of σ, and what segments count for by --estimator ${credit.estimator} has none`,
      'take another --estimator',
    );
  if (exportName === 'prm' && rule !== 'rudder' && rule !== 'signed')
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

function resolveRange(text: string): readonly [number, number] {
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
