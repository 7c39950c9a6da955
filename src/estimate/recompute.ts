// A stored row and the configuration that made it in, what does not follow from its own columns out: `verify`'s part of METHOD.
import type { StoredRow } from '../io/verify/stored-rows.js';
import { segmentSums } from '../segment/segment.js';
import { NO_BANK, ONE_SIDED } from './bank.js';
import { ESTIMATORS, type Estimator, natureOf } from './estimators.js';
import {
  RESIDUALS,
  redistribute,
  SIGMA_RULES,
  type SigmaOptions,
  sigmaEss,
  sigmaMaxWeight,
  WITHINS,
} from './sigma.js';
import { storedValue } from './value.js';

/** What of a run's configuration its credit follows from. */
export interface StoredCredit extends SigmaOptions {
  readonly estimator: Estimator;
  /** auto, group, value or a number */
  readonly baseline: unknown;
}

/** The part of a stored configuration that credit follows from; undefined where it says nothing of that. */
export function storedCredit(config: Readonly<Record<string, unknown>>): StoredCredit | undefined {
  const oneOf = <T extends string>(names: readonly T[], value: unknown): T | undefined =>
    names.find((name) => name === value);
  const estimator = oneOf(ESTIMATORS, config.estimator);
  const rule = oneOf(SIGMA_RULES, config.rule);
  const residual = oneOf(RESIDUALS, config.residual);
  const within = oneOf(WITHINS, config.within);
  if (estimator === undefined || rule === undefined || residual === undefined || within === undefined)
    return undefined;
  return { estimator, rule, residual, within, baseline: config.baseline };
}

/** Whether rows of a group share their baseline, the group's mean reward. */
export function mayBeGroupMean({ baseline, estimator }: StoredCredit): boolean {
  return baseline === 'group' || (baseline === 'auto' && !natureOf(estimator).onRewardScale);
}

/** Numbers that were rounded to float32 once on either side differ by less, relative to the larger. */
const ROUNDING = 1e-6;

type Segment = Readonly<Record<string, unknown>>;
type Fault = (text: string) => void;

/**
 * Computes again what of a row follows from the rest of it, as far as its columns go: sums over segments, values from the
 * references' log-probabilities, differences, σ and its status, effective number and largest weight.
 * @param credit undefined where the file does not say how σ was made
 */
export function recomputedFaults(row: StoredRow, credit: StoredCredit | undefined): string[] {
  const faults: string[] = [];
  const fault: Fault = (text) => void faults.push(text);
  const cell = row.cell('segments');
  const segments = Array.isArray(cell) ? (cell as Segment[]) : [];
  const ends = Int32Array.from(segments, ({ end }) => (typeof end === 'number' ? end : 0));
  const entropies = floats(row.cell('entropies'));
  const sigma = floats(row.cell('sigma'));
  const isWhole = (list: Float32Array | null): list is Float32Array =>
    list !== null && list.length === ends.at(-1);

  if (isWhole(entropies))
    for (const [k, sum] of segmentSums(entropies, ends).entries())
      if (!isRounded(segments[k]?.entropy, sum))
        fault(`segments[${k}].entropy is ${segments[k]?.entropy}, its tokens' sum is ${Math.fround(sum)}`);
  if (sigma !== null) {
    expectNumber(row, 'sigma_ess', sigmaEss(sigma), fault);
    expectNumber(row, 'sigma_max_weight', sigmaMaxWeight(sigma), fault);
  }
  if (credit === undefined) return faults;

  const values = storedValues(row, segments, credit);
  if (values !== undefined) checkValues(row, values, credit, fault);
  checkBaseline(row, credit, fault);
  const isComplete = values !== undefined && row.has('reward') && row.has('baseline');
  const needsEntropies = credit.within === 'entropy' && !isWhole(entropies);
  if (!isComplete || needsEntropies || ends.length === 0) return faults;
  const {
    deltas,
    sigma: expected,
    fallback,
  } = redistribute(
    {
      ends,
      answered: segments.at(-1)?.kind === 'answer',
      values,
      estimator: credit.estimator,
      entropies: entropies ?? new Float32Array(ends.at(-1) as number),
      reward: numberOrNull(row.cell('reward')),
      baseline: numberOrNull(row.cell('baseline')) ?? undefined,
    },
    credit,
  );
  for (const [k, delta] of deltas.entries())
    if (!isRounded(segments[k]?.delta, delta))
      fault(`segments[${k}].delta is ${segments[k]?.delta}, from the values it is ${delta}`);
  if (isWhole(sigma)) {
    const t = expected.findIndex((value, t) => !isRounded(sigma[t], value));
    if (t >= 0) fault(`sigma[${t}] is ${sigma[t]}, from values, reward and baseline it is ${expected[t]}`);
  }
  checkFallback(row, fallback, fault);
  return faults;
}

/** (K+1) v̂(s_0..K); undefined where a column of them is missing. JSON has no −∞. */
function storedValues(row: StoredRow, segments: readonly Segment[], { estimator }: StoredCredit) {
  if (!row.has('segments') || !row.has('value_start')) return undefined;
  const thoughts = segments.filter(({ kind }) => kind === 'thought').map(({ value }) => value);
  const values = [row.cell('value_start'), ...thoughts].map((value) =>
    value === null && natureOf(estimator).isLog ? Number.NEGATIVE_INFINITY : value,
  );
  return values.every((value) => typeof value === 'number') ? Float32Array.from(values) : undefined;
}

/** v̂ from log p, token counts and ζ as they are stored. */
function checkValues(row: StoredRow, values: Float32Array, { estimator }: StoredCredit, fault: Fault): void {
  const exits = row.cell('reference_logprobs');
  const utilities = floats(row.cell('reference_utilities'));
  if (!Array.isArray(exits) || utilities === null || !natureOf(estimator).isStored) return;
  if (estimator === 'pr-geo' && !row.has('reference_tokens')) return;
  const tokens = Int32Array.from((row.cell('reference_tokens') ?? []) as ArrayLike<number>);
  for (const [k, value] of values.entries()) {
    const logprobs = floats(exits[k]);
    if (logprobs === null || logprobs.length !== utilities.length) continue;
    const expected = storedValue(logprobs, tokens, utilities, estimator);
    if (isRounded(value, expected)) continue;
    const name = k === 0 ? 'value_start' : `segments[${k - 1}].value`;
    fault(`${name} is ${value}, from reference_logprobs it is ${Math.fround(expected)}`);
  }
}

/** b where the configuration alone says what it is. */
function checkBaseline(row: StoredRow, { baseline, estimator }: StoredCredit, fault: Fault): void {
  const found = numberOrNull(row.cell('baseline'));
  if (!row.has('baseline') || found === null) return;
  const isStart = row.has('value_start') && found === numberOrNull(row.cell('value_start'));
  if (typeof baseline === 'number' && found !== Math.fround(baseline))
    fault(`baseline is ${found}, expected the ${baseline} of the configuration`);
  if (baseline === 'value' && row.has('value_start') && !isStart)
    fault(`baseline is ${found}, expected value_start, ${row.cell('value_start')}`);
  const hasNoGroup = row.has('group') && row.cell('group') === null;
  const { onRewardScale } = natureOf(estimator);
  if (baseline === 'auto' && (hasNoGroup || onRewardScale) && row.has('value_start') && !isStart)
    fault(
      `baseline is ${found}${onRewardScale ? '' : ' without a group'}, expected value_start, ${row.cell('value_start')}`,
    );
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

function expectNumber(row: StoredRow, name: string, expected: number, fault: Fault): void {
  if (row.has(name) && !isRounded(row.cell(name), expected))
    fault(`${name} is ${row.cell(name)}, from sigma it is ${Math.fround(expected)}`);
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
