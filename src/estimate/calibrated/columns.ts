// Further features of a state, which stand in columns of the trace's row: which those are, and their numbers (`calibrate --features`).
import { usageError } from '../../errors.js';
import { OUR_COLUMNS } from '../../io/arrow/output-columns.js';
import type { Trace } from '../../trace.js';

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
    const thoughts = list.filter((item) => isSegment(item) && item.kind !== 'answer') as Segment[];
    if (thoughts.some(({ end }, k) => typeof end === 'number' && end !== ends[k]))
      return 'has other segments than the trace';
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
