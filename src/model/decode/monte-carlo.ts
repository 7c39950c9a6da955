// Values of states as the mean of what completions sampled from them have earned (METHOD §3, `mc` and `mc-truncated`).

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
import type { Judge } from './judge.js';
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
