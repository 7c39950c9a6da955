// What the calibrated value knows of a state: v̂ there, where something was scored, how surprising the thought up to it was (METHOD §3), and columns of the row (`calibrate --features`).
import { usageError } from '../errors.js';
import { OUR_COLUMNS } from '../scored/columns.js';
import type { Trace } from '../trace.js';

/** φ(s_k) of `pr`, in the order in which weights stand: a calibration file names them. Further ones stand behind them. */
export const FEATURES = [
  'logit_value',
  'value',
  'tokens',
  'lowest_logprob',
  'logprob_sum',
  'improbable_tokens',
  'two_lowest_logprobs',
  'logit_geo_value',
  'geo_value',
] as const;

const ALL: readonly string[] = [...FEATURES, 'entropy_sum', 'lowest_value', 'start'];
const OF_THOUGHT = FEATURES.slice(2, 7);

/** What values are calibrated: `pr`; P(yes) of `ask`, which needs no reference; or none, where nothing was scored and the thought has to tell. */
export type Base = 'pr' | 'ask' | 'none';

/** The features of each, in the order in which weights stand; a value's logarithmic odds and itself come first. */
export const FEATURES_OF: Readonly<Record<Base, readonly string[]>> = {
  pr: FEATURES,
  // what was doubted once may still be wrong; before anything is written P(yes) is of another kind
  ask: [...FEATURES.slice(0, 2), ...OF_THOUGHT, 'entropy_sum', 'lowest_value', 'start'],
  none: [...OF_THOUGHT, 'entropy_sum'],
};

/** v̂ is held this far from 0 and 1 where a logarithm is taken of it. */
const CLIP = 1e-4;
/** nats: a token less likely than about one in ten */
const IMPROBABLE = -2.3;

/** A trace's states: K+1 of them, the last after `ends[K−1]` tokens. */
export interface States {
  /** (K+1) v̂(s_0..K): the probability of the references now (`pr`), or of yes (`ask`); not read where nothing was scored */
  readonly values: Float32Array;
  /** (K+1) the same of one token of them (`pr-geo`): a long reference is improbable whatever the thought was worth */
  readonly geoValues: Float32Array;
  /** (K) tokens before s_1..s_K; s_0 has none, whatever opens the thought */
  readonly ends: Int32Array;
  /** (T) log p of the completion's tokens, nats; nothing behind `ends[k−1]` is read for s_k */
  readonly logprobs: Float32Array;
  /** (T) entropies there, nats; of `pr` not read */
  readonly entropies?: Float32Array;
  /** (K+1) by column, for features that read one; NaN where nothing is known */
  readonly columns?: ReadonlyMap<string, Float64Array>;
}

/** v̂ within 1e-4 of neither 0 nor 1. */
export function clipped(value: number): number {
  return Math.min(1 - CLIP, Math.max(CLIP, value));
}

/**
 * φ(s_0..K), one state after the other: (K+1)·F; NaN where a column has no number for a state.
 * @param further features behind those of `base`
 */
export function stateFeatures(
  { values, geoValues, ends, logprobs, entropies, columns }: States,
  further: readonly ColumnFeature[] = [],
  base: Base = 'pr',
): Float64Array {
  const places = FEATURES_OF[base].map((name) => ALL.indexOf(name));
  const F = places.length + further.length;
  const features = new Float64Array(values.length * F);
  let [lowest, second, sum, improbable, unsure, doubted] = [0, 0, 0, 0, 0, 1];
  let t = 0;
  for (let k = 0; k < values.length; k++) {
    for (const end = k === 0 ? 0 : (ends[k - 1] as number); t < end; t++) {
      const logprob = logprobs[t] as number;
      sum += logprob;
      unsure += entropies?.[t] ?? 0;
      if (logprob < IMPROBABLE) improbable++;
      if (logprob < lowest) [lowest, second] = [logprob, lowest];
      else if (logprob < second) second = logprob;
    }
    const [value, geo] = [values[k] as number, geoValues[k] as number];
    doubted = Math.min(doubted, value);
    const surprise = [t, lowest, sum, improbable, lowest + second];
    const all = [heldLogit(value), value, ...surprise, heldLogit(geo), geo, unsure, doubted, k === 0 ? 1 : 0];
    for (const [f, place] of places.entries()) features[k * F + f] = all[place] as number;
  }
  for (const [n, { column, isLowest }] of further.entries()) {
    const numbers = columns?.get(column);
    let least = Number.NaN;
    for (let k = 0; k < values.length; k++) {
      const own = numbers?.[k] ?? Number.NaN;
      // what is not known is no number to be lower than
      if (!(own >= least)) least = Number.isNaN(own) ? least : own;
      features[k * F + places.length + n] = isLowest ? least : own;
    }
  }
  return features;
}

function heldLogit(value: number): number {
  const held = clipped(value);
  return Math.log(held / (1 - held));
}

/** A column that V looks at. */
export interface ColumnFeature {
  /** as `--features` and a calibration file name it: `<column>` or `lowest:<column>` */
  readonly name: string;
  readonly column: string;
  /** the lowest number so far in place of the state's own */
  readonly isLowest: boolean;
}

const LOWEST = 'lowest:';

export function columnFeature(name: string): ColumnFeature {
  const isLowest = name.startsWith(LOWEST);
  return { name, column: isLowest ? name.slice(LOWEST.length) : name, isLowest };
}

/** Parses `--features`. @throws RredcotError (exit 2) for a name twice, an empty one, and a column of ours */
export function parseFeatures(text: string): ColumnFeature[] {
  const features = text.split(',').map((name) => columnFeature(name.trim()));
  for (const [n, { name, column }] of features.entries()) {
    const refuse = (why: string) =>
      usageError(`--features ${text}: ${why}`, '--features prm_scores,lowest:prm_scores');
    if (column === '') throw refuse('a name is empty');
    if (features.findIndex((other) => other.name === name) < n) throw refuse(`${name} stands there twice`);
    if (isOurs(column))
      throw usageError(
        `--features ${text}: ${column} is a column that score writes, in which its own values will stand`,
        `--join <that file> --join-on id --join-columns ${column}, and --features join_${column}`,
      );
  }
  return features;
}

function isOurs(column: string): boolean {
  return OUR_COLUMNS.some((name) => name === column);
}

/** A trace's column by the name under which it is written. @returns undefined where the trace has none */
export function writtenCell({ source, joined }: Trace, name: string): unknown {
  const { columns } = source;
  if (Object.hasOwn(columns, name) && !isOurs(name)) return columns[name];
  if (joined !== undefined && Object.hasOwn(joined, name) && !isOurs(name)) return joined[name];
  const plain = name.replace(/^(join|input)_/, '');
  if (name.startsWith('input_') && isOurs(plain)) return columns[plain];
  const isTaken = isOurs(plain) || Object.hasOwn(columns, plain);
  return name.startsWith('join_') && isTaken ? joined?.[plain] : undefined;
}

/**
 * The numbers of all columns that features read.
 * @param cell of the trace's row, by a column's name; null or undefined where there is none
 * @param ends (K) of its thought segments
 * @returns (K+1) by column, NaN where nothing is known of a state; or why a column has none, as half a sentence
 */
export function columnNumbers(
  features: readonly ColumnFeature[],
  cell: (column: string) => unknown,
  ends: Int32Array,
): ReadonlyMap<string, Float64Array> | string {
  const found = new Map<string, Float64Array>();
  for (const { column } of features) {
    const numbers = stateNumbers(cell(column), ends);
    if (typeof numbers === 'string') return `its column ${column} ${numbers}`;
    found.set(column, numbers);
  }
  return found;
}

/** K + 1 numbers are those of the states, K those after each segment; segments as `score` writes them have them in `value`. */
function stateNumbers(cell: unknown, ends: Int32Array): Float64Array | string {
  if (cell === null || cell === undefined) return 'is missing';
  if (!Array.isArray(cell) && !ArrayBuffer.isView(cell)) return 'is no list';
  const K = ends.length;
  let list = Array.from(cell as unknown as ArrayLike<unknown>);
  if (list.some(isSegment)) {
    const thoughts = list.filter(
      (item) => isSegment(item) && item.kind !== 'answer' && item.kind !== 'shown',
    ) as Segment[];
    let length = 0;
    // tokens that the policy was shown between them do not count
    const isOther = ({ start, end }: Segment, k: number) => {
      length += Number(end) - Number(start ?? length);
      return typeof end === 'number' && length !== ends[k];
    };
    if (thoughts.some(isOther)) return 'has other segments than the trace';
    list = thoughts.map(({ value }) => value ?? null);
    if (list.length !== K) return `has ${list.length} thought segments, the trace ${K}`;
  }
  if (list.length !== K && list.length !== K + 1)
    return `has ${list.length} numbers, expected ${K} or ${K + 1} for ${K} thought segments`;
  if (!list.every((item) => item === null || Number.isFinite(item)))
    return 'has something else than finite numbers and null';
  const before = K + 1 - list.length;
  return Float64Array.from({ length: K + 1 }, (_, k) => (list[k - before] ?? Number.NaN) as number);
}

type Segment = Readonly<Record<string, unknown>>;

function isSegment(item: unknown): item is Segment {
  return typeof item === 'object' && item !== null && 'value' in item;
}
