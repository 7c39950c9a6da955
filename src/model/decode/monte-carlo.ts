// Values of states as the mean of what completions sampled from them have earned (METHOD §3, `mc` and `mc-truncated`).

import type { Judge } from '../../estimate/reward.js';
import type { TraceValues } from '../../estimate/value.js';
import {
  FLOAT32,
  FLOAT32_LIST,
  INT32,
  INT32_LIST,
  type OutputColumn,
  requestedColumn,
  STRING,
} from '../../io/arrow/output-columns.js';
import type { OutputRow } from '../../scored.js';
import type { SamplingOptions } from './sampling.js';

/** What a sample without a verdict counts: 0, or nothing. */
export const UNFINISHED = ['zero', 'drop'] as const;
export type Unfinished = (typeof UNFINISHED)[number];

/** How states are sampled from. */
export interface MonteCarloOptions {
  /** completions an exit */
  readonly samples: number;
  readonly sampling: SamplingOptions;
  readonly judge: Judge;
  readonly unfinished: Unfinished;
  /** write the samples themselves */
  readonly keep: boolean;
}

/** The options as a configuration has them: keys by which flags are found, nothing that leaves the bytes as they are. */
export function monteCarloConfig({ samples, sampling, judge, unfinished, keep }: MonteCarloOptions) {
  const { temperature, topP, maxTokens, seed, stop } = sampling;
  return {
    ...{ mcSamples: samples, mcMaxTokens: maxTokens, mcUnfinished: unfinished },
    ...{ temperature, topP, seed, judge, keepSamples: keep },
    ...(stop === undefined ? {} : { stop }),
  };
}

/** One completion from a state. */
export interface Sample {
  /** number of the exit it was sampled from, 0..K */
  readonly exit: number;
  readonly completion: string;
  readonly ids: Int32Array;
  readonly finish: 'stop' | 'length';
  /** ζ; null where it was cut before it ended, or nobody can tell */
  readonly utility: number | null;
}

/** Half of a state's samples without a verdict: its value is of those that end soon, or of whoever can be judged. */
export const MUCH_LOST = 0.5;
/** Status of a trace with such a state. */
export const LOST = 'mc:lost';

export interface MonteCarloValues extends TraceValues {
  /** the columns of {@link monteCarloColumns} */
  readonly columns: Readonly<Record<string, unknown>>;
  readonly status: readonly string[];
}

/**
 * Values of the exits of one trace.
 * @param utilities (K+1) of (M) ζ, null where there is no verdict
 */
export function monteCarloValues(
  utilities: readonly (readonly (number | null)[])[],
  unfinished: Unfinished,
): Pick<MonteCarloValues, 'values' | 'columns' | 'status'> {
  const judged = utilities.map((each) => each.filter((utility) => utility !== null));
  const counted = unfinished === 'drop' ? judged : utilities.map((each) => each.map((u) => u ?? 0));
  const lost = utilities.map((each, k) => 1 - (judged[k] as number[]).length / Math.max(1, each.length));
  return {
    values: Float32Array.from(counted, mean),
    columns: {
      value_sd: Float32Array.from(counted, deviationOfMean),
      lost_fraction: Float32Array.from(lost),
    },
    status: lost.some((share) => share >= MUCH_LOST) ? [LOST] : [],
  };
}

/** 0 of nothing. */
function mean(x: readonly number[]): number {
  return x.length === 0 ? 0 : x.reduce((sum, value) => sum + value, 0) / x.length;
}

/**
 * Standard deviation of the mean under the bootstrap: of M values drawn again from these M, √(Σ(x − x̄)²/M)/√M. It has this
 * closed form, to which resampling converges.
 */
function deviationOfMean(x: readonly number[]): number {
  const middle = mean(x);
  return x.length === 0 ? 0 : Math.sqrt(mean(x.map((value) => (value - middle) ** 2)) / x.length);
}

/** The columns that Monte Carlo adds. @param keep the samples themselves too */
export function monteCarloColumns(keep: boolean): OutputColumn[] {
  const samples = { kind: 'list', element: { kind: 'struct', fields: SAMPLE_FIELDS } } as const;
  return [
    requestedColumn(
      'value_sd',
      FLOAT32_LIST,
      'standard deviation of the value at each exit point, by the bootstrap over its samples',
    ),
    requestedColumn(
      'lost_fraction',
      FLOAT32_LIST,
      'share of the samples at each exit point that were cut, or could not be judged',
    ),
    ...(keep
      ? [
          requestedColumn(
            'samples',
            samples,
            'the samples: number of the exit point, text, token ids, how it ended, what it earned',
          ),
        ]
      : []),
  ];
}

const SAMPLE_FIELDS: readonly { name: string; key?: keyof Sample; type: OutputColumn['type'] }[] = [
  { name: 'exit', type: INT32 },
  { name: 'completion', type: STRING },
  { name: 'completion_ids', key: 'ids', type: INT32_LIST },
  { name: 'finish_reason', key: 'finish', type: STRING },
  { name: 'utility', type: FLOAT32 },
];

// ------ what `verify` finds in a stored row

/** Values, deviations and shares were rounded to float32 on the way. */
const ROUNDING = 1e-6;

/**
 * What the samples of a stored row give again; nothing where they were not kept.
 * @param unfinished as the configuration says it; undefined: either way
 */
export function sampledAgain({ segments, requested }: OutputRow, unfinished: unknown) {
  const samples = requested?.samples as readonly Sample[] | null | undefined;
  if (!samples) return [];
  const exits = segments.filter(({ kind }) => kind === 'thought').length + 1;
  const utilities = Array.from({ length: exits }, (_, k) =>
    samples.filter(({ exit }) => exit === k).map(({ utility }) => utility),
  );
  const ways = UNFINISHED.filter((way) => unfinished === undefined || way === unfinished);
  // an exit without room for one more token has none, which counts as one that was lost
  const drawn = utilities.map((own) => (own.length > 0 ? own : [null]));
  return ways.map((way) => monteCarloValues(drawn, way)).map(({ values, columns }) => ({ values, columns }));
}

/**
 * Deviations that values in 0..1 can have, as many samples at every exit that has any, `mc:lost` where much is lost and nowhere else.
 * @param hasStatus whether the file has that column
 */
export function sampledFaults(
  { valueStart, segments, status, requested = {} }: OutputRow,
  hasStatus: boolean,
): string[] {
  const faults: string[] = [];
  const { value_sd: deviations, lost_fraction: shares } = requested as Readonly<
    Record<string, Float32Array | null>
  >;
  const thoughts = segments.filter(({ kind }) => kind === 'thought');
  for (const [k, value] of [valueStart, ...thoughts.map((each) => each.value)].entries()) {
    if (value === null) continue;
    const most = Math.sqrt(Math.max(0, value * (1 - value)));
    const [deviation, share] = [deviations?.[k] ?? 0, shares?.[k] ?? 0];
    if (!(deviation >= 0 && deviation <= most + ROUNDING))
      faults.push(`value_sd[${k}] is ${deviation}, expected 0 to ${most} for a value of ${value}`);
    if (!(share >= 0 && share <= 1)) faults.push(`lost_fraction[${k}] is ${share}, expected 0 to 1`);
  }
  if (hasStatus && shares && shares.some((share) => share >= MUCH_LOST) !== status.includes(LOST))
    faults.push(
      `status is ${status.join(';') || 'ok'}, and the largest lost_fraction is ${Math.max(...shares)}`,
    );
  const samples = (requested.samples ?? []) as readonly Sample[];
  const counts = Array.from(
    { length: thoughts.length + 1 },
    (_, k) => samples.filter(({ exit }) => exit === k).length,
  );
  const most = Math.max(...counts);
  for (const [k, count] of counts.entries())
    if (count !== most && count !== 0)
      faults.push(`samples has ${count} of exit ${k}, expected ${most} as of another exit`);
  return faults;
}
