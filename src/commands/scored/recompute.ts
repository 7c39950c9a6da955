// Checks a stored row against the configuration that made it: `verify`'s part of METHOD.

import { OF_OTHERS } from '../../credit/normalisers.js';
import { bankFault, NO_BANK, ONE_SIDED } from '../../estimate/bank.js';
import {
  furtherOf,
  modelValues,
  type StoredModel,
  storedModel,
} from '../../estimate/calibrated/calibration.js';
import { groupPlace } from '../../estimate/calibrated/folds.js';
import { STATE_COLUMNS, storedStates, UNCALIBRATED } from '../../estimate/calibrated.js';
import type { CreditOptions } from '../../estimate/credit.js';
import { checkSampled } from '../../estimate/models/check-stored.js';
import { posteriorValues } from '../../estimate/posterior.js';
import {
  creditColumn,
  GROUP_STD,
  normaliserColumn,
  OUTCOME_ADVANTAGE,
  PROGRESS,
  requestedOf,
  TOKEN_ADVANTAGE,
  TOKEN_FACTOR,
} from '../../estimate/requested.js';
import { checkMates } from '../../estimate/siblings/check-stored.js';
import {
  redistribute,
  ruleOf,
  type SigmaInput,
  type SigmaRule,
  sigmaEss,
  sigmaGain,
  sigmaMaxWeight,
} from '../../estimate/sigma.js';
import type { StoredRow } from '../../io/scored/stored-rows.js';
import { segmentSums } from '../../segment/segment.js';

/** Whether rows of a group share their baseline, the group's mean reward. */
export function mayBeGroupMean(credit: CreditOptions): boolean {
  return credit.baseline === 'group' || (credit.baseline === 'auto' && !credit.estimator.onRewardScale);
}

/** Numbers that were rounded to float32 once on either side differ by less, relative to the larger. */
const ROUNDING = 1e-6;

type Segment = Readonly<Record<string, unknown>>;
type Fault = (text: string) => void;

/**
 * Computes again what of a row follows from the rest of it, as far as its columns go: sums over segments, values from the
 * references' log-probabilities, differences, σ and its status, effective number and largest weight.
 * @param credit undefined where the file does not say how σ was made
 * @param config of the file
 */
export function recomputedFaults(
  row: StoredRow,
  credit: CreditOptions | undefined,
  config: Readonly<Record<string, unknown>> = {},
): string[] {
  const faults: string[] = [];
  const fault: Fault = (text) => void faults.push(text);
  const cell = row.cell('segments');
  const segments = Array.isArray(cell) ? (cell as Segment[]) : [];
  const ends = Int32Array.from(segments, ({ end }) => (typeof end === 'number' ? end : 0));
  const entropies = floats(row.cell('entropies'));
  const sigma = floats(row.cell('sigma'));
  const logprobs = floats(row.cell('logprobs'));
  const isWhole = (list: Float32Array | null): list is Float32Array =>
    list !== null && list.length === ends.at(-1);

  if (isWhole(entropies))
    for (const [k, sum] of segmentSums(entropies, ends).entries())
      if (!isRounded(segments[k]?.entropy, sum))
        fault(`segments[${k}].entropy is ${segments[k]?.entropy}, its tokens' sum is ${Math.fround(sum)}`);
  if (sigma !== null) {
    expectNumber(row, 'sigma_ess', sigmaEss(sigma), fault);
    expectNumber(row, 'sigma_max_weight', sigmaMaxWeight(sigma), fault);
    if (isWhole(logprobs)) expectNumber(row, 'sigma_gain', sigmaGain(sigma, logprobs), fault);
  }
  if (credit === undefined) return faults;

  const values = storedValues(row, segments, credit);
  if (values !== undefined) checkValues(row, values, credit, fault);
  if (values !== undefined && credit.estimator.fromLogprobs)
    checkOfTokens(row, values, ends, credit.estimator.fromLogprobs, fault);
  if (values !== undefined && row.has('hint_logprobs')) checkHinted(row, values, segments, fault);
  // values that rest on mates' outcomes follow from nothing that is stored; what they were mixed with does
  const readsMates = credit.estimator.hasOutcome === true;
  const expected = readsMates ? floats(row.cell('value_prior')) : (values ?? null);
  const model = storedModel(config.calibration);
  if (expected !== null && model !== undefined) checkCalibrated(row, expected, model, fault);
  if (readsMates && values !== undefined) checkMates(row, values, expected, fault);
  if (row.has('lost_fraction') && values !== undefined) checkSampled(row, values, fault);
  const start = readsMates ? expected?.[0] : numberOrNull(row.cell('value_start'));
  checkBaseline(row, credit, start ?? undefined, fault);
  const T = ends.at(-1);
  const isComplete = values !== undefined && row.has('reward') && row.has('baseline');
  if (!isComplete || T === undefined) return faults;
  const utilities = floats(row.cell('reference_utilities'));
  const input: SigmaInput = {
    ends,
    answered: segments.at(-1)?.kind === 'answer',
    values,
    estimator: credit.estimator,
    entropies: entropies ?? new Float32Array(T),
    logprobs: logprobs ?? new Float32Array(T),
    reward: numberOrNull(row.cell('reward')),
    baseline: numberOrNull(row.cell('baseline')) ?? undefined,
    groupStd: numberOrNull(row.cell(GROUP_STD)) ?? undefined,
    fault: utilities === null ? undefined : bankFault(utilities, credit.estimator),
  };
  /** whether the row has all that a rule reads */
  const isReadable = (rule: SigmaRule): boolean => {
    const readsEntropies = credit.within === 'entropy' || ruleOf(rule).reads === 'entropies';
    const readsLogprobs =
      credit.within === 'unsure' || credit.steps !== undefined || ruleOf(rule).reads === 'logprobs';
    return (!readsEntropies || isWhole(entropies)) && (!readsLogprobs || isWhole(logprobs));
  };
  if (isReadable(credit.rule)) {
    const { deltas, sigma: expected, fallback } = redistribute(input, credit);
    for (const [k, delta] of deltas.entries())
      if (!isRounded(segments[k]?.delta, delta))
        fault(`segments[${k}].delta is ${segments[k]?.delta}, from the values it is ${delta}`);
    if (isWhole(sigma)) expectList('sigma', sigma, expected, fault);
    checkFallback(row, fallback, fault);
  }
  const readable = { ...credit, others: (credit.others ?? []).filter(isReadable) };
  // what entropies are in, without them, is not looked at
  const { method: _, ...plain } = readable;
  const isSplit = credit.method === 'hierarchical' && !isWhole(entropies);
  checkRequested(row, input, isSplit ? plain : readable, fault);
  return faults;
}

/** The columns that were asked for beside ours, as far as the row alone tells what is in them. */
function checkRequested(row: StoredRow, input: SigmaInput, credit: CreditOptions, fault: Fault): void {
  const { others = [], method, normalisers = [] } = credit;
  const { columns, status: expectedCodes } = requestedOf(input, credit);
  if (row.has('reference_utilities')) checkFurtherCodes(row, others, expectedCodes, fault);
  const isHierarchical = method === 'hierarchical';
  const lists = [
    ...others.map(creditColumn),
    ...(method === 'segment' || isHierarchical ? [TOKEN_ADVANTAGE] : []),
    ...(isHierarchical ? [PROGRESS, TOKEN_FACTOR] : []),
  ];
  const outcome = columns[OUTCOME_ADVANTAGE] as number | null;
  const stored = row.cell(OUTCOME_ADVANTAGE);
  if (isHierarchical && (outcome === null ? stored !== null : !isRounded(stored, outcome)))
    fault(`${OUTCOME_ADVANTAGE} is ${stored}, from reward, baseline and ${GROUP_STD} it is ${outcome}`);
  for (const name of lists) {
    const [found, expected] = [floats(row.cell(name)), columns[name] as Float32Array | null];
    if (!row.has(name)) fault(`has no ${name}`);
    else if (found?.length !== expected?.length)
      fault(`${name} has ${found?.length ?? 'no'} entries, expected ${expected?.length ?? 'null'}`);
    else if (found !== null && expected !== null) expectList(name, found, expected, fault);
  }
  for (const name of normalisers.filter((each) => !OF_OTHERS.includes(each))) {
    const expected = columns[normaliserColumn(name)] as number;
    if (!isRounded(row.cell(normaliserColumn(name)), expected))
      fault(
        `${normaliserColumn(name)} is ${row.cell(normaliserColumn(name))}, expected ${Math.fround(expected)}`,
      );
  }
}

/** The first entry that is not what it has to be. */
function expectList(name: string, found: Float32Array, expected: Float32Array, fault: Fault): void {
  const t = expected.findIndex((value, t) => !isRounded(found[t], value));
  if (t >= 0) fault(`${name}[${t}] is ${found[t]}, from values, reward and baseline it is ${expected[t]}`);
}

/** (K+1) v̂(s_0..K); undefined where a column of them is missing. JSON has no −∞. */
function storedValues(row: StoredRow, segments: readonly Segment[], { estimator }: CreditOptions) {
  if (!row.has('segments') || !row.has('value_start')) return undefined;
  const thoughts = segments.filter(({ kind }) => kind === 'thought').map(({ value }) => value);
  const values = [row.cell('value_start'), ...thoughts].map((value) =>
    value === null && estimator.isLog ? Number.NEGATIVE_INFINITY : value,
  );
  return values.every((value) => typeof value === 'number') ? Float32Array.from(values) : undefined;
}

/** v̂ from log p, token counts and ζ as they are stored. */
function checkValues(
  row: StoredRow,
  values: Float32Array,
  { estimator: { fromStored } }: CreditOptions,
  fault: Fault,
): void {
  const exits = row.cell('reference_logprobs');
  const utilities = floats(row.cell('reference_utilities'));
  if (!Array.isArray(exits) || utilities === null || fromStored === undefined) return;
  if (!row.has('reference_tokens')) return;
  const tokens = Int32Array.from((row.cell('reference_tokens') ?? []) as ArrayLike<number>);
  for (const [k, value] of values.entries()) {
    const logprobs = floats(exits[k]);
    if (logprobs === null || logprobs.length !== utilities.length) continue;
    const expected = fromStored({ logprobs, tokens, utilities });
    if (isRounded(value, expected)) continue;
    const name = k === 0 ? 'value_start' : `segments[${k - 1}].value`;
    fault(`${name} is ${value}, from reference_logprobs it is ${Math.fround(expected)}`);
  }
}

/** Values from the tokens' own log p. @param ends of all segments: a value has one before it */
function checkOfTokens(
  row: StoredRow,
  values: Float32Array,
  ends: Int32Array,
  fromLogprobs: NonNullable<CreditOptions['estimator']['fromLogprobs']>,
  fault: Fault,
): void {
  const logprobs = floats(row.cell('logprobs'));
  if (logprobs === null) return;
  for (const [k, expected] of fromLogprobs(logprobs, ends.subarray(0, values.length - 1)).entries()) {
    if (isRounded(values[k], expected)) continue;
    const name = k === 0 ? 'value_start' : `segments[${k - 1}].value`;
    fault(`${name} is ${values[k]}, from logprobs it is ${expected}`);
  }
}

/** What the values of a hint are, by log p without and with it; s_0 is the place in the first segment that fits best. */
function checkHinted(row: StoredRow, values: Float32Array, segments: readonly Segment[], fault: Fault): void {
  const [logprobs, hinted] = [floats(row.cell('logprobs')), floats(row.cell('hint_logprobs'))];
  // without an answer the last state may lie before the end token
  if (logprobs === null || hinted === null || segments.at(-1)?.kind !== 'answer') return;
  const ends = Int32Array.from(segments.slice(0, values.length - 1), ({ end }) => Number(end));
  let least: number[] | undefined;
  for (let start = 0; start <= (ends[0] ?? 0) && least?.length !== 0; start++) {
    const expected = posteriorValues(logprobs, hinted, Int32Array.of(start, ...ends));
    const wrong = Array.from(expected.keys()).filter((k) => !isRounded(values[k], expected[k] as number));
    if (least === undefined || wrong.length < least.length) least = wrong;
  }
  for (const k of least ?? [])
    fault(
      `${k === 0 ? 'value_start' : `segments[${k - 1}].value`} is ${values[k]}, which logprobs and hint_logprobs do not give`,
    );
}

/** V from v̂ and log p as they are stored: by the weights of all traces, or by those of the trace's fold. */
function checkCalibrated(row: StoredRow, values: Float32Array, model: StoredModel, fault: Fault): void {
  const status = row.cell('status');
  const isUncalibrated = typeof status === 'string' && status.split(';').includes(UNCALIBRATED);
  if (row.has('status') && isUncalibrated !== (model.stands_back !== null))
    fault(`status is ${status}, and the calibration ${isUncalibrated ? 'does not stand' : 'stands'} back`);
  if (model.stands_back !== null || !STATE_COLUMNS.every((name) => row.has(name))) return;
  const states = storedStates(row, furtherOf(model));
  // a trace without a reference has no value; a column that its features read may not be written
  if (typeof states === 'string' || !row.has('id') || !row.has('group')) return;
  const key = row.cell('group') ?? row.cell('id');
  const sets = [null, groupPlace(String(key)).fold].map((fold) => modelValues(model, states, fold));
  const isOf = (expected: Float32Array) => expected.every((value, k) => isRounded(values[k], value));
  if (!sets.some(isOf))
    fault(`its values begin with ${values[0]}, by the calibration with ${sets.map(([v]) => v).join(' or ')}`);
}

/**
 * b where the configuration alone says what it is.
 * @param start V(s_0) that may be a baseline; undefined where the columns do not tell
 */
function checkBaseline(row: StoredRow, credit: CreditOptions, start: number | undefined, fault: Fault): void {
  const { baseline } = credit;
  const found = numberOrNull(row.cell('baseline'));
  if (!row.has('baseline') || found === null) return;
  const isStart = found === start;
  if (typeof baseline === 'number' && found !== Math.fround(baseline))
    fault(`baseline is ${found}, expected the ${baseline} of the configuration`);
  if (baseline === 'value' && start !== undefined && !isStart)
    fault(`baseline is ${found}, expected V(s_0), ${start}`);
  const hasNoGroup = row.has('group') && row.cell('group') === null;
  const isExpected = credit.estimator.onRewardScale === true;
  if (baseline === 'auto' && (hasNoGroup || isExpected) && start !== undefined && !isStart)
    fault(`baseline is ${found}${isExpected ? '' : ' without a group'}, expected V(s_0), ${start}`);
}

/** Codes that stand for {@link redistribute}'s own where there is no baseline, since they say why. */
const WHY_NO_BASELINE = ['uniform:no-baseline', 'uniform:graded-reward', NO_BANK, ONE_SIDED];

/** Why σ is uniform, as the status has it and as it has come out. */
function checkFallback(row: StoredRow, fallback: string | undefined, fault: Fault): void {
  const status = row.cell('status');
  if (typeof status !== 'string') return;
  const found = status.split(';').filter((code) => code.startsWith('uniform:'));
  const expected =
    fallback === undefined
      ? []
      : fallback === 'reward:unknown'
        ? found.filter((code) => code === NO_BANK || code === ONE_SIDED)
        : fallback === 'uniform:no-baseline'
          ? [found.find((code) => WHY_NO_BASELINE.includes(code)) ?? fallback]
          : [fallback];
  if (found.join(';') !== expected.join(';'))
    fault(
      `status is ${status}, from values, reward and baseline it has ${expected.join(';') || 'no uniform:…'}`,
    );
}

/** The codes of further credits. Of a missing baseline the row alone does not tell whose it might have been. */
function checkFurtherCodes(
  row: StoredRow,
  rules: readonly string[],
  expected: readonly string[],
  fault: Fault,
) {
  const status = row.cell('status');
  if (typeof status !== 'string') return;
  // what begins with `uniform:` is of the first credit: a further one by that rule has no code
  const ofRule = (code: string) => rules.some((rule) => rule !== 'uniform' && code.startsWith(`${rule}:`));
  const sorted = (codes: readonly string[]) =>
    codes
      .map((code) => code.replace(/:graded-reward$/, ':no-baseline'))
      .sort()
      .join(';');
  if (sorted(status.split(';').filter(ofRule)) !== sorted(expected.filter(ofRule)))
    fault(`status is ${status}, the further credits have ${[...expected].sort().join(';') || 'no code'}`);
}

function expectNumber(row: StoredRow, name: string, expected: number | null, fault: Fault): void {
  const found = row.cell(name);
  if (!row.has(name) || (expected === null ? found === null : isRounded(found, expected))) return;
  fault(`${name} is ${found}, from sigma it is ${expected === null ? null : Math.fround(expected)}`);
}

function isRounded(found: unknown, expected: number): boolean {
  if (typeof found !== 'number') return false;
  const [a, b] = [Math.fround(found), Math.fround(expected)];
  return a === b || Math.abs(a - b) <= ROUNDING * Math.max(Math.abs(a), Math.abs(b));
}

function floats(cell: unknown): Float32Array | null {
  return Array.isArray(cell) || ArrayBuffer.isView(cell)
    ? Float32Array.from(cell as unknown as ArrayLike<number>, Number)
    : null;
}

function numberOrNull(cell: unknown): number | null {
  return typeof cell === 'number' ? Math.fround(cell) : null;
}
