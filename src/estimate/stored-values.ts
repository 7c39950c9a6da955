// Another credit of stored rows: its options, its configuration, and another estimator's values as far as these follow from what rows store.
import { isDeepStrictEqual } from 'node:util';
import { asksForMean, type CreditOptions, creditConfig, type GroupMean } from '../credit/credit.js';
import { isMartingale, type Nature, NO_REFERENCES } from '../credit/nature.js';
import { readsEntropies, readsLogprobs } from '../credit/requested.js';
import { RULES, SIGMA_RULES } from '../credit/rules.js';
import { TraceRejected, usageError } from '../errors.js';
import { type Config, POLICY_KEY } from '../io/write/output.js';
import type { Log } from '../report/log.js';
import { NEEDED, type ScoredFiles } from '../scored/open-scored.js';
import { type OutputRow, thoughtEnds, withOwn, withoutShown } from '../scored.js';
import { CALIBRATION, calibrated, calibrationWarning, givenCalibration, UNCALIBRATED } from './calibrated.js';
import type { Calibration } from './calibration.js';
import { storedKnown } from './calibration-rows.js';
import {
  ANY_RANGE,
  type CreditFlags,
  flagsOf,
  KEPT,
  OF_RULES,
  resolveCreditOptions,
  resolveEstimator,
} from './credit-flags.js';
import { peersFeature } from './fit/fit.js';
import { pr } from './one-pass.js';
import { NO_STATES, natureOf, probe, refuseStates, STATES_COLUMN } from './probe.js';
import { configKeysOfAll, estimatorNamed } from './registry.js';
import { rowValues, scoredReferences } from './value.js';

/** What is asked of stored rows: the flags that were given, the file's own stand for the others. */
interface AskedCredit {
  readonly flags: CreditFlags;
  readonly calibration?: string | undefined;
}

/**
 * The credit that is asked for, and the calibration by which its values are made, where one is.
 * @throws RredcotError (exit 2) for what stored values do not allow, before any is read
 */
export async function newCredit(path: string, source: ScoredFiles, asked: AskedCredit, log: Log) {
  const calibration = await calibrationOf(source, asked, log);
  const { flags: given } = asked;
  const flags = mergedFlags(source.credit, given);
  const { estimator } = source.credit;
  const others = ['estimator', ...Object.keys(estimator.config ?? {})];
  let nature: Nature = estimator;
  if (calibration?.standsBack) nature = pr;
  else if (calibration !== undefined) nature = calibration.isProbe ? natureOf(calibration.file) : calibrated;
  else if (others.some((flag) => given[flag] !== undefined)) nature = resolveEstimator(flags);
  const credit = resolveCreditOptions(flags, nature);
  refuseImpossible(path, source, credit, calibration);
  return { credit, calibration, readsPeers: calibration?.isProbe === true };
}

/**
 * The flags that the file was made with, those that are given in their place. A rule that is given begins anew: what shaped the
 * credit of another one is given beside it, or is not.
 */
function mergedFlags(stored: CreditOptions, given: CreditFlags): CreditFlags {
  const { rule, others = [], rewardRange, estimator } = stored;
  const method = given.method ?? stored.method;
  const rules = given.sigma?.split(',').map((name) => name.trim()) ?? [rule, ...others];
  const readsValues = SIGMA_RULES.some((name) => rules.includes(name) && RULES[name].ofSegments);
  const other = given.estimator === undefined ? estimator : estimatorNamed(given.estimator);
  const readsSteps = other && isMartingale(other) && (readsValues || method === 'segment');
  const idle = [
    ...(given.sigma === undefined ? [] : OF_RULES),
    ...(readsSteps ? [] : ['steps']),
    ...(method === 'hierarchical' ? [] : ['alpha', 'beta']),
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
    ...(isNew ? configKeysOfAll() : []),
  ];
  return {
    ...Object.fromEntries(Object.entries(stored).filter(([key]) => !gone.includes(key))),
    // what the new credit leaves out is not the old one's
    ...Object.fromEntries(KEPT.map((key) => [key, undefined])),
    ...creditConfig(credit),
    // the weights of `calibrated` go with it; where they stand back it is still its name
    estimator: calibration
      ? (calibration.isProbe ? probe : calibrated).name
      : isOther
        ? estimator.name
        : stored.estimator,
    ...(isNew && { calibration: calibration?.model }),
    ...(calibration?.isProbe && { stateLayers: stored.stateLayers }),
    ...(calibration && !isOther && { keepStates: stored.keepStates }),
    // no reference set is read where nothing is scored
    ...(isOther && estimator.scores === 'nothing' && { references: 'row' }),
    ...(drop && { drop: [...((stored.drop as string[] | undefined) ?? []), ...drop] }),
    ...(columns && { columns }),
  };
}

/** Whether values are made in one way. */
export function hasSameValues(a: CreditOptions, b: CreditOptions): boolean {
  return a.estimator.name === b.estimator.name && isDeepStrictEqual(a.estimator.config, b.estimator.config);
}

/** Codes by which an estimator tells of its values. */
const OF_VALUES = /^(ask|hint|mc|siblings|value):/;

/**
 * The row with the values of another estimator, or of a calibration.
 * @param means of its group, which a probe reads
 * @param isOther the file names another one: what it says of its values and of references that this one has not goes
 */
export function revalued(
  row: OutputRow,
  means: GroupMean,
  to: Nature,
  isOther: boolean,
  calibration?: Calibration,
): OutputRow {
  const values = valuesOf(row, means, to, calibration);
  const isOfTokens = isOther && to.fromLogprobs !== undefined;
  const needsNone = isOfTokens || to.needsNoReference === true;
  const isGone = (code: string): boolean =>
    (needsNone && code === NO_REFERENCES) ||
    (isOfTokens && code.startsWith('references:')) ||
    ([UNCALIBRATED, NO_STATES].includes(code) && calibration !== undefined) ||
    (isOther && OF_VALUES.test(code));
  return {
    ...row,
    ...(isOfTokens && {
      ...scoredReferences(Array.from(values, () => [])),
      referenceUtilities: new Float32Array(0),
    }),
    valueStart: values[0] as number,
    // how far other values may be off is not stored
    segments: withOwn(row.segments, (own, k) => ({ ...own, value: values[k + 1] ?? null, noise: null })),
    status: [...row.status.filter((code) => !isGone(code)), ...(calibration ? toldBy(calibration) : [])],
  };
}

/** Of values that a calibration leaves as they are, or makes without hidden states. */
const toldBy = ({ standsBack, isProbe, file }: Calibration) =>
  standsBack ? [UNCALIBRATED] : isProbe && file.uses === 'features' ? [NO_STATES] : [];

/** (K+1) values. */
function valuesOf(
  scored: OutputRow,
  { peersMean, peersCount }: GroupMean,
  to: Nature,
  calibration?: Calibration,
): Float32Array {
  const row = withoutShown(scored);
  const tokens = row.referenceTokens ?? new Int32Array(0);
  const utilities = row.referenceUtilities ?? new Float32Array(0);
  const logprobs = row.logprobs ?? new Float32Array(0);
  const nature = calibration === undefined ? to : pr;
  if (nature.fromLogprobs) return nature.fromLogprobs(logprobs, thoughtEnds(row));
  const values = rowValues(row.referenceLogprobs ?? [], tokens, utilities, nature);
  if (calibration === undefined || calibration.standsBack) return values;
  const { file } = calibration;
  // a trace without a reference has no v̂ to be calibrated
  if (utilities.length === 0 && !calibration.isProbe) return values;
  const known = storedKnown(scored, file.estimator, file.uses === 'states');
  if (typeof known === 'string') throw new TraceRejected('values', known);
  return calibration.values(row.trace, { ...known, peers: peersFeature(peersMean, peersCount) });
}

/**
 * What stored values do not allow is said before anything is read.
 * @throws RredcotError (exit 2) naming the columns that are missing, or why the values of an estimator do not follow from them
 */
function refuseImpossible(
  path: string,
  source: ScoredFiles,
  credit: CreditOptions,
  calibration?: Calibration,
): void {
  const { config, columns } = source;
  const { estimator: from, rewardRange } = source.credit;
  const { estimator: to } = credit;
  const isOther = !hasSameValues(source.credit, credit);
  if (isOther) refuseEstimator(from, to, config.references === 'group', calibration);
  if (!isDeepStrictEqual(rewardRange, credit.rewardRange))
    throw usageError(
      `--reward-range ${credit.rewardRange.join(',')}: the rewards of ${path} were mapped from ${rewardRange.join(',')} when it was scored`,
      'leave it out, or rredcot score --reward-range',
    );
  const isOfTokens = isOther && to.fromLogprobs !== undefined;
  const isOfReferences = isOther && !isOfTokens;
  const isCalibrated = calibration !== undefined;
  const needed = [
    ...NEEDED,
    ...(asksForMean(credit) || isCalibrated ? ['group'] : []),
    ...(readsEntropies(credit) ? ['entropies'] : []),
    ...(isOfReferences || isCalibrated ? ['reference_logprobs'] : []),
    ...(isCalibrated ? ['id'] : []),
    ...(calibration?.isProbe ? ['reference_utilities', 'entropies'] : []),
    ...(calibration?.file.uses === 'states' ? [STATES_COLUMN.name] : []),
    ...(readsLogprobs(credit) || isOfTokens || isCalibrated ? ['logprobs'] : []),
    ...(isOfReferences && !isCalibrated ? ['reference_tokens'] : []),
    ...(to.priorColumn === undefined ? [] : [to.priorColumn]),
  ];
  // no policy has read its traces
  const isEmpty = (name: string) => config.ofPolicy !== undefined && /^(logprobs|entropies)$/.test(name);
  const has = (name: string) => source.made.has(name) && columns.includes(name) && !isEmpty(name);
  const missing = [...new Set(needed)].filter((name) => !has(name));
  if (missing.length > 0)
    throw usageError(
      `${path}: has no ${missing.join(', ')}, from which the credit would follow`,
      missing.some(isEmpty)
        ? 'rredcot score with the same flag, and --policy <folder>: the policy then reads the traces'
        : missing.includes(STATES_COLUMN.name)
          ? 'score with --keep-states'
          : 'score with these among --columns, or with all of them',
    );
}

function refuseEstimator(from: Nature, to: Nature, isOfGroup: boolean, calibration?: Calibration): void {
  if (to.fromLogprobs !== undefined) return;
  const [flag, own, asked] =
    from.name === to.name
      ? ['prover-estimator', from.config?.proverEstimator, to.config?.proverEstimator]
      : ['estimator', from.name, to.name];
  const refuse = (why: string) =>
    usageError(`--${flag} ${asked}: ${why}`, `leave it out (${own}), or rredcot score --${flag} ${asked}`);
  if (from.isOfProver && !to.isOfProver)
    throw refuse(`the references of ${own} were scored by the prover, not by the policy`);
  if (to.isOfProver && !from.isOfProver)
    throw refuse('the references of the file were scored by the policy, not by a prover');
  const unstored = to.fromTokens
    ? 'the probabilities of single tokens, whose mean it is, are not stored'
    : 'its values do not follow from what is stored';
  if (to.fromStored === undefined && calibration === undefined) throw refuse(unstored);
  if (from.scores !== to.scores)
    throw refuse(`${own} has scored ${from.scores}, and ${asked} needs ${to.scores} scored`);
  if (isOfGroup && from.isContrast !== to.isContrast)
    throw refuse("a group's reference set is another one: snis alone has the peers' wrong answers in it");
}

/** The calibration whose values are asked for; undefined where values stay as they are. @throws RredcotError (exit 2) where it has no use */
async function calibrationOf(
  { config, account }: ScoredFiles,
  { flags, calibration }: AskedCredit,
  log: Log,
): Promise<Calibration | undefined> {
  const asked = flags.estimator ?? config.estimator;
  const [name] = [probe.name, calibrated.name].filter((each) => each === asked);
  if (calibration === undefined && (name === undefined || config.estimator === name)) return undefined;
  const isKept = asked === config.estimator && estimatorNamed(asked)?.creditFlags?.includes(CALIBRATION);
  if (name === undefined)
    throw usageError(
      `--calibration has no meaning with --estimator ${asked} here`,
      isKept
        ? 'its values are kept as they are: leave it out'
        : `add --estimator ${calibrated.name}, or ${probe.name}`,
    );
  const found = await givenCalibration(name, calibration, name === probe.name);
  const { estimator: base } = found.model;
  if (base !== 'pr' && base !== 'probe')
    throw usageError(
      `--calibration ${calibration}: is of ${base === 'ask' ? 'the values of ask' : 'no values'}, and here those of references are exchanged`,
      `rredcot score --estimator ${name} with it`,
    );
  const policy = JSON.parse(account.get(POLICY_KEY) ?? 'null');
  refuseStates(found, policy);
  const warning = calibrationWarning(found, policy, config);
  if (warning !== undefined) log.warn('calibration', warning);
  return found;
}
