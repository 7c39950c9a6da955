// Finds the credits of the thought segments in a stored row.
import type { InputRow } from '../../rows.js';
import { isFallback } from '../../scored.js';
import { type FieldPath, resolvePath } from '../map/path.js';
import { numbers } from './check-ranges.js';
import { type CreditColumn, CreditFault, columnCredit } from './credit-sources.js';

/** What a user has named beside what the file has by itself. */
export interface CreditRequest {
  readonly columns: readonly CreditColumn[];
  /** first wrong segment, from 0; null where none is wrong */
  readonly firstWrong: FieldPath | undefined;
  /** where the reward is, where the row has no column `reward` */
  readonly reward: FieldPath | undefined;
}

/** What is known of a file's credits as a whole. */
export interface FileCredits {
  /** its differences are magnitudes, whatever their sign: they take that of R* */
  readonly isMagnitude?: boolean;
  /** further credits of a row by name, of its K+1 values, ends of its K segments and its tokens' log-probabilities */
  readonly further?: (
    values: Float64Array,
    ends: Int32Array,
    logprobs: Float32Array,
  ) => Iterable<readonly [string, Float64Array]>;
}

/** One trace; K thought segments. */
export interface TraceCredits {
  readonly id: string;
  /** undefined where the row has none */
  readonly group: string | undefined;
  readonly segments: number;
  /** ends of all segments in tokens, or in characters where there are no tokens */
  readonly ends: string;
  readonly reward: number; // NaN where unknown
  /** (K) by name: `delta`, `uniform`, `sigma…`, and the names of the request */
  readonly credits: ReadonlyMap<string, Float64Array>;
  /** −1: none is wrong; undefined: nothing is said of it */
  readonly firstWrong: number | undefined;
  /** why σ is uniform although its rule is not, as the status has it */
  readonly fallback: string | undefined;
}

export const DELTA = 'delta';
export const UNIFORM = 'uniform';
export const SIGMA = 'sigma';

type Segment = Readonly<Record<string, unknown>>;

/**
 * @throws CreditFault naming what is not as it should be
 */
export function traceCredits(
  { columns: row, stem, row: number }: InputRow,
  asked: CreditRequest,
  { isMagnitude = false, further }: FileCredits = {},
): TraceCredits {
  const all = row.segments;
  if (!Array.isArray(all) || all.length === 0)
    throw new CreditFault('no segments, expected a row that was scored or cut');
  const segments = all as Segment[];
  const thoughts = segments.filter(({ kind }) => kind === 'thought');
  const K = thoughts.length;
  const unit = typeof segments[0]?.end === 'number' ? 'end' : 'char_end';
  const ends = segments.map((segment) => segment[unit]);
  if (!ends.every((end) => typeof end === 'number')) throw new CreditFault('its segments have no ends');
  const id = typeof row.id === 'string' ? row.id : `${stem}:${number}`;
  const reward = rewardOf(row, asked.reward);
  const weights = returnOf(row, reward);

  const credits = new Map<string, Float64Array>();
  const total = ends.at(-1) as number;
  credits.set(
    UNIFORM,
    Float64Array.from({ length: K }, (_, k) => (weights * lengthOf(ends as number[], k)) / total),
  );
  addWhereKnown(
    credits,
    DELTA,
    Float64Array.from(thoughts, ({ delta }) =>
      isMagnitude ? Math.abs(number_(delta)) * Math.sign(weights) : number_(delta),
    ),
  );
  addWhereKnown(
    credits,
    SIGMA,
    Float64Array.from(thoughts, ({ sigma }) => weights * number_(sigma)),
  );
  if (unit === 'end')
    for (const name of Object.keys(row)) {
      const list = name.startsWith('sigma_') ? numbers(row[name]) : null;
      if (list?.length === total)
        credits.set(
          name,
          Float64Array.from({ length: K }, (_, k) => weights * sumOver(list, ends as number[], k)),
        );
    }
  const logprobs = numbers(row.logprobs);
  const values = [row.value_start, ...thoughts.map(({ value }) => value)].map(number_);
  if (further !== undefined && unit === 'end' && logprobs?.length === total && values.every(Number.isFinite))
    for (const [name, credit] of further(
      Float64Array.from(values),
      Int32Array.from(ends.slice(0, K) as number[]),
      Float32Array.from(logprobs),
    ))
      credits.set(name, credit);
  for (const column of asked.columns) {
    const found = columnCredit(row, column, K);
    if (found !== null) credits.set(column.name, found);
  }
  return {
    id,
    group: typeof row.group === 'string' ? row.group : undefined,
    segments: K,
    ends: `${unit} ${ends.join(' ')} ${K}`,
    reward,
    credits,
    firstWrong: firstWrongOf(row, asked.firstWrong, K, segments.length),
    fallback: typeof row.status === 'string' ? row.status.split(';').find(isFallback) : undefined,
  };
}

function addWhereKnown(credits: Map<string, Float64Array>, name: string, values: Float64Array): void {
  if (values.some(Number.isFinite)) credits.set(name, values);
}

function number_(value: unknown): number {
  return typeof value === 'number' ? value : Number.NaN;
}

function lengthOf(ends: readonly number[], k: number): number {
  return (ends[k] as number) - (ends[k - 1] ?? 0);
}

function sumOver(list: ArrayLike<number>, ends: readonly number[], k: number): number {
  let sum = 0;
  for (let t = ends[k - 1] ?? 0; t < (ends[k] as number); t++) sum += list[t] as number;
  return sum;
}

/** ζ: our own column, else the place that was named; truth as 1, falsehood as 0. */
function rewardOf(row: InputRow['columns'], path: FieldPath | undefined): number {
  const found = path === undefined ? null : resolvePath(row, path);
  const value = found?.kind === 'one' ? found.value : row.reward;
  return typeof value === 'boolean' ? Number(value) : number_(value);
}

/** R* = ζ − b, which σ shares out: its sign says whether more of σ is good or bad. Without b: ζ − ½. */
function returnOf(row: InputRow['columns'], reward: number): number {
  const baseline = number_(row.baseline);
  return reward - (Number.isNaN(baseline) ? 0.5 : baseline);
}

function firstWrongOf(row: InputRow['columns'], path: FieldPath | undefined, K: number, segments: number) {
  if (path === undefined) return undefined;
  const found = resolvePath(row, path);
  if (found.kind !== 'one') return undefined;
  if (found.value === null || found.value === -1) return -1;
  const wrong = Number(found.value);
  if (Number.isInteger(wrong) && wrong >= 0 && wrong < K) return wrong;
  const place = wrong === K && segments > K ? ', the answer, which has no credit' : '';
  throw new CreditFault(
    `first_wrong: ${path.text} is ${String(found.value)}${place}, expected a thought segment from 0 to ${K - 1}, null or -1`,
  );
}
