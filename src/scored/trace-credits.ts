// The credits of a stored row's thought segments: its own, and those in columns that a user names.
import { usageError } from '../errors.js';
import { type FieldPath, parsePath, resolvePath, valueAt } from '../io/map/fields.js';
import type { InputRow } from '../rows.js';
import { isFallback, ownTokens, withoutShown } from '../scored.js';
import { compact } from '../turns.js';
import { type Cells, isList, oursOf, storedRow } from './stored-rows.js';

/**
 * How a column's numbers are meant, K thought segments of a trace given:
 * - `credit`: K numbers, each a segment's credit
 * - `values`: K + 1, of the states before and after each segment, or K, those before each; credit is the change
 * - `scores`: K, each of the state after a segment (a process reward model's); credit is the change, the first one's unknown
 */
export type Meaning = 'credit' | 'values' | 'scores';

/** A credit that a column holds. */
export interface CreditColumn {
  readonly name: string;
  readonly meaning: Meaning;
  readonly path: FieldPath;
}

/** Where the number of the first wrong segment is, or the list of all that are wrong, and which number the first segment has. */
export interface LabelPath {
  readonly path: FieldPath;
  readonly from: 0 | 1;
}

/** What a user has named beside what the file has by itself. */
export interface CreditRequest {
  readonly columns: readonly CreditColumn[];
  readonly firstWrong: LabelPath | undefined;
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
export type TraceCredits = ReturnType<typeof traceCredits>;

export const DELTA = 'delta';
export const UNIFORM = 'uniform';
export const SIGMA = 'sigma';

/** Parses `name=path`. @throws RredcotError (exit 2) */
export function parseNamedPath(flag: string, text: string): { name: string; path: FieldPath } {
  const at = text.indexOf('=');
  const name = text.slice(0, at).trim();
  const example = `${flag} mc=values`;
  if (at < 1 || name === '') throw usageError(`${flag} ${text}: expected name=path`, example);
  try {
    return { name, path: parsePath(text.slice(at + 1)) };
  } catch (error) {
    throw usageError(`${flag} ${text}: ${(error as Error).message}`, example);
  }
}

/** A column that is not as its flag says. */
export class CreditFault extends Error {}

/** Those of our columns that are looked at. */
const READ = ['id', 'group', 'segments', 'value_start', 'baseline', 'logprobs', 'status'];

/** Whether {@link traceCredits} looks at a column of a file. */
export function isRead({ columns, firstWrong, reward }: CreditRequest): (name: string) => boolean {
  const paths = [...columns, ...(firstWrong ? [firstWrong] : [])].map(({ path }) => path);
  const asked = [...paths, reward].flatMap((path) => path?.text ?? []);
  const own = new Set([...READ, 'reward']);
  return (name) => own.has(name) || name.startsWith(SIGMA) || asked.some((text) => text.startsWith(name));
}

/** @throws CreditFault naming what is not as it should be */
export function traceCredits(
  row: InputRow,
  asked: CreditRequest,
  { isMagnitude = false, further }: FileCredits = {},
) {
  const { columns } = row;
  if (!isList(columns.segments) || columns.segments.length === 0)
    throw new CreditFault('no segments, expected a row that was scored or cut');
  const whole = storedRow(oursOf(columns, READ), row);
  const { segments, trace, valueStart, baseline, logprobs, status } = withoutShown(whole);
  const own = ownTokens(whole);
  const thoughts = segments.filter(({ kind }) => kind === 'thought');
  const K = thoughts.length;
  const unit = segments[0]?.end === null ? 'charEnd' : 'end';
  const ends = segments.map((segment) => segment[unit]).filter((end) => end !== null);
  if (ends.length < segments.length) throw new CreditFault('its segments have no ends');
  const total = ends.at(-1) as number;
  const reward = rewardOf(columns, asked.reward);
  // R* = ζ − b, which σ shares out: its sign says whether more of σ is good or bad. Without b: ζ − ½
  const weight = reward - (baseline ?? 0.5);
  const perSegment = (credit: (k: number, from: number, to: number) => number) =>
    Float64Array.from({ length: K }, (_, k) => credit(k, ends[k - 1] ?? 0, ends[k] as number));
  const sums = (list: ArrayLike<unknown>) =>
    perSegment(
      (_, from, to) => weight * Array.prototype.slice.call(list, from, to).reduce((sum, s) => sum + s, 0),
    );

  const credits = new Map<string, Float64Array>([
    [UNIFORM, perSegment((_, from, to) => (weight * (to - from)) / total)],
  ]);
  const deltas = Float64Array.from(thoughts, ({ delta }) =>
    isMagnitude ? Math.abs(delta ?? Number.NaN) * Math.sign(weight) : (delta ?? Number.NaN),
  );
  const isKnown = (credit: Float64Array) => credit.some(Number.isFinite);
  if (isKnown(deltas)) credits.set(DELTA, deltas);
  const sigmas = Float64Array.from(thoughts, ({ sigma }) => weight * (sigma ?? Number.NaN));
  if (isKnown(sigmas)) credits.set(SIGMA, sigmas);
  if (unit === 'end')
    for (const [name, list] of Object.entries(columns))
      if (name.startsWith('sigma_') && isList(list) && list.length === (own?.length ?? total))
        credits.set(name, sums(compact(Float32Array.from(list, Number), own)));
  const values = Float64Array.from(
    [valueStart, ...thoughts.map(({ value }) => value)],
    (value) => value ?? Number.NaN,
  );
  if (further !== undefined && unit === 'end' && logprobs?.length === total && values.every(Number.isFinite))
    for (const [name, credit] of further(values, Int32Array.from(ends.slice(0, K)), logprobs))
      credits.set(name, credit);
  for (const column of asked.columns) {
    const found = columnCredit(columns, column, K);
    if (found !== null) credits.set(column.name, found);
  }
  return {
    id: trace.id,
    /** undefined where the row has none */
    group: trace.group,
    segments: K,
    /** ends of all segments in tokens, or in characters where there are no tokens */
    ends: `${unit} ${ends.join(' ')} ${K}`,
    reward, // NaN where unknown
    /** (K+1) NaN where unknown */
    values,
    /** (K) by name: `delta`, `uniform`, `sigma…`, and the names of the request */
    credits,
    /** −1: none is wrong; undefined: nothing is said of it */
    firstWrong: firstWrongOf(columns, asked.firstWrong, K, segments.length),
    /** why σ is uniform although its rule is not, as the status has it */
    fallback: status.find(isFallback),
  };
}

/** ζ: our own column, else the place that was named; truth as 1, falsehood as 0. */
function rewardOf(row: Cells, path: FieldPath | undefined): number {
  const named = path && valueAt(row, path);
  const value = named === undefined ? row.reward : named;
  return typeof value === 'boolean' || typeof value === 'number' ? Number(value) : Number.NaN;
}

function firstWrongOf(row: Cells, label: LabelPath | undefined, K: number, segments: number) {
  if (label === undefined) return undefined;
  const { path, from } = label;
  const found = valueAt(row, path);
  if (found === undefined) return undefined;
  const isList = Array.isArray(found) || ArrayBuffer.isView(found);
  const marked = isList ? Array.from(found as ArrayLike<unknown>, wholeNumber) : [wholeNumber(found)];
  // N/A: as MR-GSM8K has it
  const isNone = isList ? marked.length === 0 : found === null || found === 'N/A' || marked[0] === -1;
  if (isNone) return -1;
  const wrong = Math.min(...marked) - from;
  if (wrong >= 0 && wrong < K) return wrong;
  const place = wrong === K && segments > K ? ', the answer, which has no credit' : '';
  throw new CreditFault(
    `first_wrong: ${path.text} is ${isList ? `[${found}]` : String(found)}${place}, expected a thought segment from ${from} to ${K - 1 + from}, null or -1`,
  );
}

/** NaN for what is none: a verdict is no number of a segment, nor is an empty text. */
function wholeNumber(value: unknown): number {
  const isNumber = typeof value === 'number' || typeof value === 'bigint' || /^-?\d+$/.test(String(value));
  const number = isNumber ? Number(value) : Number.NaN;
  return Number.isInteger(number) ? number : Number.NaN;
}

/**
 * The credit of K segments; NaN where a number is null. Null where the row has no such column.
 * @throws CreditFault for another number of numbers, or something else
 */
export function columnCredit(
  row: Readonly<Record<string, unknown>>,
  { name, meaning, path }: CreditColumn,
  K: number,
): Float64Array | null {
  const flag = `--${meaning} ${name}`;
  const found = listAt(row, path, flag);
  if (found === null) return null;
  const expected = meaning === 'values' ? `${K} or ${K + 1}` : `${K}`;
  const fits = found.length === K || (meaning === 'values' && found.length === K + 1);
  if (!fits)
    throw new CreditFault(
      `${flag}: ${path.text} has ${found.length} numbers, expected ${expected} for ${K} thought segments`,
    );
  if (meaning === 'credit') return found;
  const first = meaning === 'values' ? 0 : -1;
  return Float64Array.from({ length: K }, (_, k) => at(found, k + first + 1) - at(found, k + first));
}

function at(list: Float64Array, k: number): number {
  return list[k] ?? Number.NaN;
}

/**
 * The numbers at a path; NaN for null and for what an item of a list lacks. Null where the row has nothing there.
 * @param flag that names the path
 * @throws CreditFault for anything else
 */
export function listAt(
  row: Readonly<Record<string, unknown>>,
  path: FieldPath,
  flag: string,
): Float64Array | null {
  const found = resolvePath(row, path);
  if ('noList' in found) throw new CreditFault(`${flag}: ${path.text} is no list`);
  const list = 'items' in found ? found.items : found.value;
  if (list === null || list === undefined) return null;
  if (!isList(list)) throw new CreditFault(`${flag}: ${path.text} is no list of numbers`);
  return Float64Array.from(list, (item, k) => {
    if (item === null || item === undefined) return Number.NaN;
    if (typeof item === 'number') return item;
    throw new CreditFault(
      `${flag}: ${path.text}: number ${k} is ${JSON.stringify(item)?.slice(0, 40)}, expected a number or null`,
    );
  });
}
