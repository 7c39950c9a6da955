// Makes a stored row again by its own credit, and says where the two differ: `verify`'s part of METHOD §3 and §4.

import type { SigmaRule } from '../credit/rules.js';
import { bankFault, NO_BANK } from '../estimate/bank.js';
import { asksForMean, baselineOf, type CreditOptions, creditableOf } from '../estimate/credit.js';
import type { Remade } from '../estimate/estimator.js';
import { estimatorNamed, valueColumns } from '../estimate/registry.js';
import {
  GROUP_STD,
  OF_OTHERS,
  OUTCOME_ADVANTAGE,
  readsEntropies,
  readsLogprobs,
  requestedColumns,
} from '../estimate/requested.js';
import { sigmaEss, sigmaGain, sigmaMaxWeight } from '../estimate/sigma.js';
import type { Config } from '../io/write/output.js';
import { plural } from '../plural.js';
import { type OutputRow, thoughtEnds, UNREAD, withOwn, withoutShown } from '../scored.js';
import { segmentSums } from '../segment/segment.js';
import { withCredit } from './again.js';
import type { Cells } from './stored-rows.js';

/** Numbers that were rounded to float32 once on either side differ by less, relative to the larger. */
const ROUNDING = 1e-6;

/** A row as it may have been made, and the columns that its values follow from, for a person. */
interface Way {
  readonly made: OutputRow;
  readonly from?: string;
}

/**
 * What of a row is not as it is made again of the rest of it, as far as its columns go.
 * @param cells our columns
 * @param row decoded, with the columns of {@link beside}
 * @param credit undefined where the file does not say how σ was made
 * @param config of the file
 */
export function remadeFaults(
  cells: Cells,
  row: OutputRow,
  credit: CreditOptions | undefined,
  config: Config,
): string[] {
  if (credit === undefined) return differences(cells, row, [{ made: summed(row) }]);
  const has: Has = (...names) => names.every((name) => name in cells);
  const estimator = estimatorNamed(config.estimator);
  const isWhole = has('segments', 'value_start', 'reward', 'baseline');
  const ways = isWhole ? creditWays(row, credit, config, has) : baselineWays(row, credit, has);
  return [
    ...requestedColumns(credit).flatMap(({ name }) => (has(name) ? [] : [`has no ${name}`])),
    ...differences(cells, row, ways),
    ...(has('segments')
      ? [...differences(cells, row, valueWays(row, credit, config)), ...shapeFaults(row, credit, config)]
      : []),
    ...(estimator?.faults?.(row, config, cells) ?? []),
  ];
}

/** The columns beside ours that a row is decoded with. */
export function columnsBeside(credit: CreditOptions | undefined, config: Config) {
  return [...(credit === undefined ? [] : requestedColumns(credit)), ...valueColumns(config)];
}

/** The differences from the way that comes closest; none where nothing says how the row was made. */
function differences(cells: Cells, row: OutputRow, ways: Iterable<Way>): string[] {
  const found = figuresOf(row);
  let least: string[] | undefined;
  for (const { made, from } of ways) {
    const faults = Object.entries(figuresOf(made)).flatMap(([name, expected]) =>
      (/^\w+/.exec(name)?.[0] as string) in cells ? difference(name, found[name], expected, from) : [],
    );
    if (faults.length === 0) return [];
    if (least === undefined || faults.length < least.length) least = faults;
  }
  return least ?? [];
}

/** What of a row can be made again, by column; in segments, by field. */
function figuresOf(row: OutputRow): Readonly<Record<string, unknown>> {
  const { segments, requested } = row;
  return {
    value_start: row.valueStart,
    'segments[].value': segments.map(({ value }) => value),
    'segments[].entropy': segments.map(({ entropy }) => entropy),
    'segments[].delta': segments.map(({ delta }) => delta),
    baseline: row.baseline,
    sigma: row.sigma,
    sigma_ess: row.sigmaEss,
    sigma_max_weight: row.sigmaMaxWeight,
    sigma_gain: row.sigmaGain,
    ...requested,
    status: [...new Set(row.status)].sort().join(';') || 'ok',
  };
}

/** What a figure follows from, where that is not the credit as a whole. */
const FROM: Readonly<Record<string, string>> = {
  'segments[].entropy': 'its tokens',
  'segments[].delta': 'the values',
  baseline: 'the configuration and the values',
  [OUTCOME_ADVANTAGE]: `reward, baseline and ${GROUP_STD}`,
  ...{ sigma_ess: 'sigma', sigma_max_weight: 'sigma', sigma_gain: 'sigma and logprobs' },
};

function difference(
  name: string,
  found: unknown,
  expected: unknown,
  from = FROM[name] ?? 'values, reward and baseline',
): string[] {
  if (isSame(found, expected)) return [];
  const [list, wanted] = [found, expected] as ArrayLike<unknown>[];
  if (typeof expected !== 'object' || expected === null || typeof found !== 'object' || found === null)
    return [`${name} is ${shown(found)}, from ${from} it is ${shown(asStored(expected))}`];
  if (list?.length !== wanted?.length)
    return [`${name} has ${plural(list?.length ?? 0, 'entry', 'entries')}, expected ${wanted?.length}`];
  const at = Array.from(wanted as ArrayLike<unknown>).findIndex((each, n) => !isSame(list?.[n], each));
  const place = name.includes('[]') ? name.replace('[]', `[${at}]`) : `${name}[${at}]`;
  return at < 0
    ? []
    : [`${place} is ${shown(list?.[at])}, from ${from} it is ${shown(asStored(wanted?.[at]))}`];
}

function asStored(figure: unknown): unknown {
  return typeof figure === 'number' ? Math.fround(figure) : figure;
}

function shown(figure: unknown): string {
  return typeof figure === 'object' && figure !== null ? 'a list' : String(figure);
}

function isSame(found: unknown, expected: unknown): boolean {
  if (Object.is(found, expected)) return true;
  // JSON has no −∞
  if (expected === Number.NEGATIVE_INFINITY) return found === null;
  if (typeof found !== 'number' || typeof expected !== 'number') return false;
  const [a, b] = [Math.fround(found), Math.fround(expected)];
  return a === b || Math.abs(a - b) <= ROUNDING * Math.max(Math.abs(a), Math.abs(b));
}

/** The log-probabilities, or the entropies; zeros where no policy has read the trace; undefined where the file has not kept them. */
function listOf(row: OutputRow, name: 'logprobs' | 'entropies'): Float32Array | undefined {
  return row[name] ?? (row.status.includes(UNREAD) ? new Float32Array(row.sigma?.length ?? 0) : undefined);
}

/** The row with the sums over its lists. @param stored has those of lists that nobody knows */
function summed(row: OutputRow, stored = row): OutputRow {
  const { entropies, segments } = row;
  // of the policy's own tokens
  const own = withoutShown(row);
  const { sigma } = own;
  const logprobs = listOf(own, 'logprobs');
  const ends = Int32Array.from(segments, ({ end }) => end ?? 0);
  const sums = entropies?.length === ends.at(-1) && entropies && segmentSums(entropies, ends);
  return {
    ...row,
    ...(sums && { segments: segments.map((segment, k) => ({ ...segment, entropy: sums[k] as number })) }),
    sigmaEss: sigma ? sigmaEss(sigma) : stored.sigmaEss,
    sigmaMaxWeight: sigma ? sigmaMaxWeight(sigma) : stored.sigmaMaxWeight,
    sigmaGain: sigma && logprobs ? sigmaGain(sigma, logprobs) : stored.sigmaGain,
  };
}

/** Banks of which a credit may be where the file has not kept their utilities: of right and wrong answers, of one kind, of none. */
const BANKS = [Float32Array.of(1, 0), Float32Array.of(1), new Float32Array(0)];

/** Whether a row has all of these columns. */
type Has = (...names: readonly string[]) => boolean;

/** Means and deviation of the group's rewards, as the row has them: a mean is that of the rows together, whose baselines are compared. */
function meanOf({ baseline, trace, requested }: OutputRow, credit: CreditOptions, has: Has) {
  const isMean = asksForMean(credit) && baseline !== null && (trace.group !== undefined || !has('group'));
  const std = requested?.[GROUP_STD];
  const mean = isMean ? baseline : undefined;
  return {
    ...{ groupMean: mean, matesMean: mean },
    groupStd: isMean && typeof std === 'number' ? std : undefined,
  };
}

/** The row with the baseline that its credit has, where the rest of what that is made of was not kept. */
function* baselineWays(row: OutputRow, credit: CreditOptions, has: Has): Generator<Way> {
  const { utilities, values, reward, start } = creditableOf(row, credit.estimator);
  const first = credit.estimator.hasOutcome ? start : has('value_start') ? values[0] : undefined;
  const isTold = first !== undefined || typeof credit.baseline === 'number';
  if (!isTold || !has('baseline')) return yield { made: summed(row) };
  // a graded reward may have none
  for (const bank of row.referenceUtilities === null ? BANKS : [utilities])
    for (const own of has('reward') ? [reward] : [1, 0.5]) {
      const means = meanOf(row, credit, has);
      const fault = bankFault(bank, credit.estimator);
      const made = fault === undefined ? baselineOf(means, first ?? 0, own, credit).baseline : undefined;
      yield { made: summed({ ...row, baseline: made ?? null }, row) };
    }
}

/** The row with its own credit, as far as it has kept what that is made of. */
function* creditWays(row: OutputRow, asked: CreditOptions, config: Config, has: Has): Generator<Way> {
  const { estimator } = asked;
  const stored = creditableOf(row, estimator);
  const mean = meanOf(row, asked, has);
  const start = stored.start ?? (estimator.hasOutcome ? (row.baseline ?? undefined) : undefined);
  const { credit, hasSigma, hasSteps, isUntold } = readable(row, asked);
  for (const utilities of row.referenceUtilities === null ? BANKS : [stored.utilities]) {
    // the bank tells of a trace that it has no reference, whatever comes of that
    const isEmpty = utilities.length === 0 && (estimator.scores !== 'nothing' || config.bank === 'group');
    const own = { ...row, status: row.status.filter((code) => code !== NO_BANK || isEmpty) };
    const made = withCredit(own, { ...stored, ...mean, start, utilities }, credit);
    const status = [...made.status.filter((code) => !isUntold(code)), ...row.status.filter(isUntold)];
    const { sigma } = hasSigma ? made : row;
    const { segments } = hasSteps ? made : row;
    yield { made: summed({ ...made, sigma, segments, status }, row) };
  }
}

/** The credit without what is made of lists that the row has not. */
function readable(row: OutputRow, credit: CreditOptions) {
  const [hasEntropies, hasLogprobs] = [listOf(row, 'entropies'), listOf(row, 'logprobs')].map(Boolean);
  const { rule, others = [], method, normalisers = [], steps, ...rest } = credit;
  const isReadable = (own: SigmaRule): boolean => {
    const alone = { ...rest, rule: own, ...(steps && { steps }) };
    return (hasEntropies || !readsEntropies(alone)) && (hasLogprobs || !readsLogprobs(alone));
  };
  const hasSteps = hasLogprobs || steps === undefined;
  const hasMethod = hasSteps && (hasEntropies || method !== 'hierarchical');
  const untold = [...others.filter((each) => !isReadable(each)), ...(isReadable(rule) ? [] : ['uniform'])];
  return {
    hasSigma: isReadable(rule),
    hasSteps,
    /** whether a code says why a credit is uniform that cannot be made again; the first one's begin with `uniform` */
    isUntold: (code: string) => untold.some((each) => code.startsWith(`${each}:`)),
    credit: {
      ...{ ...rest, rule, others: others.filter(isReadable) },
      ...(steps && { steps }),
      ...(method && hasMethod && { method }),
      // tokens of other traces are not counted
      normalisers: normalisers.filter((name) => !OF_OTHERS.includes(name)),
    },
  };
}

/** The row with values that follow from its own columns, each way in which they may have been made. */
function* valueWays(row: OutputRow, { estimator }: CreditOptions, config: Config): Generator<Way> {
  for (const { from, values, columns } of remadeValues(row, estimator, config)) {
    const segments =
      values === undefined
        ? row.segments
        : withOwn(row.segments, (segment, k) =>
            segment.kind === 'thought' ? { ...segment, value: values[k + 1] as number } : segment,
          );
    const valueStart = values?.[0] ?? row.valueStart;
    yield { from, made: { ...row, valueStart, segments, requested: { ...row.requested, ...columns } } };
  }
}

function remadeValues(
  row: OutputRow,
  { fromLogprobs, fromStored }: CreditOptions['estimator'],
  config: Config,
): Iterable<Remade> {
  const { referenceLogprobs: exits, referenceTokens: tokens, referenceUtilities: utilities } = row;
  const { logprobs, segments } = withoutShown(row);
  if (fromLogprobs)
    return logprobs ? [{ from: 'logprobs', values: fromLogprobs(logprobs, thoughtEnds({ segments })) }] : [];
  if (fromStored === undefined) return estimatorNamed(config.estimator)?.remade?.(row, config) ?? [];
  if (!exits || !tokens || !utilities) return [];
  const values = Float32Array.from(exits, (own) => fromStored({ logprobs: own, tokens, utilities }));
  return [{ from: 'reference_logprobs', values }];
}

/** Expected rewards and probabilities lie in 0..1; what comes with values has an entry for each exit, or for each token. */
function shapeFaults(row: OutputRow, { estimator }: CreditOptions, config: Config): string[] {
  const { values } = creditableOf(row, estimator);
  const faults: string[] = [];
  const k =
    estimator.onRewardScale || estimator.hasOutcome ? values.findIndex((v) => !(v >= 0 && v <= 1)) : -1;
  if (k >= 0) faults.push(`the value of exit ${k} is ${values[k]}, expected 0 to 1`);
  const [exits, tokens] = [values.length, row.segments.at(-1)?.end];
  for (const { name, type } of valueColumns(config)) {
    if (type.kind !== 'list' || type.element.kind !== 'float32') continue;
    const list = row.requested?.[name] as Float32Array | null | undefined;
    if (list?.length !== exits && list?.length !== tokens)
      faults.push(
        `${name} has ${list?.length ?? 'no'} entries, expected ${exits}, one for each exit, or ${tokens}, one for each token`,
      );
  }
  return faults;
}
