// Another estimator's values for stored rows, as far as they follow from what the rows store of references and tokens.
import { isDeepStrictEqual } from 'node:util';
import { asksForMean, type CreditOptions } from '../credit/credit.js';
import { type Nature, NO_REFERENCES } from '../credit/nature.js';
import { readsEntropies, readsLogprobs } from '../credit/requested.js';
import { usageError } from '../errors.js';
import { POLICY_KEY } from '../io/write/output.js';
import type { Log } from '../report/log.js';
import { NEEDED, type ScoredFiles } from '../scored/open-scored.js';
import { type OutputRow, thoughtEnds, withOwn, withoutShown } from '../scored.js';
import {
  calibrationWarning,
  furtherNumbers,
  geoValuesOf,
  readCalibration,
  scoredWith,
  UNCALIBRATED,
} from './calibrated.js';
import type { Calibration } from './calibration.js';
import type { CreditFlags } from './credit-flags.js';
import { pr } from './one-pass.js';
import { noReferences } from './value.js';

/** Whether values are made in one way. */
export function hasSameValues(a: CreditOptions, b: CreditOptions): boolean {
  return a.estimator.name === b.estimator.name && isDeepStrictEqual(a.estimator.config, b.estimator.config);
}

/** Codes by which an estimator tells of its values. */
const OF_VALUES = /^(ask|hint|mc|siblings|value):/;

/**
 * The row with the values of another estimator, or of a calibration.
 * @param isOther the file names another one: what it says of its values and of references that this one has not goes
 * @throws TraceRejected (`feature`) for what a calibration finds no number for
 */
export function revalued(row: OutputRow, to: Nature, isOther: boolean, calibration?: Calibration): OutputRow {
  const values = valuesOf(row, to, calibration);
  const isOfTokens = isOther && to.fromLogprobs !== undefined;
  const isGone = (code: string): boolean =>
    (isOfTokens && (code === NO_REFERENCES || code.startsWith('references:'))) ||
    (code === UNCALIBRATED && calibration !== undefined) ||
    (isOther && OF_VALUES.test(code));
  return {
    ...row,
    ...(isOfTokens && { ...noReferences(values.length), referenceUtilities: new Float32Array(0) }),
    valueStart: values[0] as number,
    segments: withOwn(row.segments, (segment, k) => ({ ...segment, value: values[k + 1] ?? null })),
    requested: {},
    status: [
      ...row.status.filter((code) => !isGone(code)),
      ...(calibration?.standsBack ? [UNCALIBRATED] : []),
    ],
  };
}

/** (K+1) values. */
function valuesOf(scored: OutputRow, to: Nature, calibration?: Calibration): Float32Array {
  const row = withoutShown(scored);
  const { trace, referenceLogprobs: exits } = row;
  const tokens = row.referenceTokens ?? new Int32Array(0);
  const utilities = row.referenceUtilities ?? new Float32Array(0);
  const logprobs = row.logprobs ?? new Float32Array(0);
  const ends = thoughtEnds(row);
  const { fromLogprobs, fromStored } = calibration === undefined ? to : pr;
  if (fromLogprobs) return fromLogprobs(logprobs, ends);
  const values = Float32Array.from(exits ?? [], (lp) =>
    Number(fromStored?.({ logprobs: lp, tokens, utilities })),
  );
  // a trace without a reference has no v̂ to be calibrated
  if (calibration === undefined || calibration.standsBack || utilities.length === 0) return values;
  const geoValues = geoValuesOf(exits ?? [], tokens, utilities);
  const columns = furtherNumbers(calibration, (name) => trace.source.columns[name], ends);
  return calibration.values(trace.group ?? trace.id, { values, geoValues, ends, logprobs, columns });
}

/**
 * What stored values do not allow is said before anything is read.
 * @throws RredcotError (exit 2) naming the columns that are missing, or why the values of an estimator do not follow from them
 */
export function refuseImpossible(
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
  const isOfTokens = to.fromLogprobs !== undefined;
  const isCalibrated = calibration !== undefined;
  const needed = [
    ...NEEDED,
    ...(asksForMean(credit) || credit.normalisers?.includes('dapo') || isCalibrated ? ['group'] : []),
    ...(readsEntropies(credit) ? ['entropies'] : []),
    ...((isOther && !isOfTokens) || isCalibrated ? ['reference_logprobs'] : []),
    ...(isCalibrated ? ['id'] : []),
    ...(readsLogprobs(credit) || (isOther && isOfTokens) || isCalibrated ? ['logprobs'] : []),
    ...(isOther && !isOfTokens && !isCalibrated ? ['reference_tokens'] : []),
    // its first entry is the baseline
    ...(to.hasOutcome === true ? ['value_prior'] : []),
  ];
  // no policy has read its traces
  const isEmpty = (name: string) => config.ofPolicy !== undefined && /^(logprobs|entropies)$/.test(name);
  const missing = needed.filter(
    (name) => !(source.made.has(name) && columns.includes(name) && !isEmpty(name)),
  );
  if (missing.length > 0)
    throw usageError(
      `${path}: has no ${missing.join(', ')}, from which the credit would follow`,
      missing.some(isEmpty)
        ? 'rredcot score with the same flag, and --policy <folder>: the policy then reads the traces'
        : 'score with these among --columns, or with all of them',
    );
  const absent = calibration?.further.find(
    ({ column }) => !columns.includes(column) || source.made.has(column),
  );
  if (absent !== undefined && !calibration?.standsBack)
    throw usageError(
      `${path}: has no column ${absent.column}, which the calibration reads (${absent.name})`,
      'a file of score that has it, such as by --join and --join-columns, or a calibration without --features',
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
  if (from.isOfProver !== to.isOfProver)
    throw refuse(
      from.isOfProver
        ? `the references of ${own} were scored by the prover, not by the policy`
        : 'the references of the file were scored by the policy, not by a prover',
    );
  if (to.fromStored === undefined && calibration === undefined)
    throw refuse(
      to.fromTokens
        ? 'the probabilities of single tokens, whose mean it is, are not stored'
        : 'its values do not follow from what is stored',
    );
  if (from.scores !== to.scores)
    throw refuse(`${own} has scored ${from.scores}, and ${asked} needs ${to.scores} scored`);
  if (isOfGroup && from.isContrast !== to.isContrast)
    throw refuse(
      "the reference set of a group is another one: snis alone has the peers' wrong answers in it",
    );
}

/** The calibration whose values are asked for; undefined where values stay as they are. @throws RredcotError (exit 2) where it has no use */
export async function calibrationOf(
  path: string,
  { config, account }: ScoredFiles,
  { flags, calibration }: { readonly flags: CreditFlags; readonly calibration?: string | undefined },
  log: Log,
): Promise<Calibration | undefined> {
  const asked = flags.estimator ?? config.estimator;
  if (asked === 'calibrated' && calibration === undefined && config.estimator !== 'calibrated')
    throw usageError(
      `--estimator calibrated: ${path} has the values of ${config.estimator}, and no calibration`,
      'rredcot calibrate scored.parquet -o calibration.json, then --calibration calibration.json',
    );
  if (calibration === undefined) return undefined;
  if (asked !== 'calibrated')
    throw usageError(
      `--calibration has no meaning with --estimator ${asked} here`,
      asked === 'siblings' ? 'its values are kept as they are: leave it out' : 'add --estimator calibrated',
    );
  const found = await readCalibration(calibration);
  const { estimator: base } = found.model;
  if (base !== 'pr')
    throw usageError(
      `--calibration ${calibration}: is of ${base === 'ask' ? 'the values of ask' : 'no values'}, and here those of references are exchanged`,
      'rredcot score --estimator calibrated with it',
    );
  const policy = account.get(POLICY_KEY);
  const own = { policy: policy === undefined ? null : JSON.parse(policy), scored_with: scoredWith(config) };
  const warning = calibrationWarning(found, own);
  if (warning !== undefined) log.warn('calibration', warning);
  return found;
}
