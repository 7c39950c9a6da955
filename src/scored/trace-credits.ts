// The credits of a stored row's thought segments: its own, and those in columns that a user names.
import { TraceRejected, usageError } from '../errors.js';
import { type FieldPath, parsePath, resolvePath } from '../io/map/fields.js';
import type { InputRow } from '../rows.js';
import { ownTokens, withoutShown } from '../scored.js';
import { compact } from '../turns.js';
import { isList, oursOf, storedRow } from './stored-rows.js';

/** A column with K numbers, a credit a thought segment, or K + 1 values, before the thought and after each segment. */
export interface CreditColumn {
  readonly name: string;
  readonly path: FieldPath;
}

/** One trace; K thought segments. */
export type TraceCredits = ReturnType<typeof traceCredits>;

export const DELTA = 'delta';
export const UNIFORM = 'uniform';
export const SIGMA = 'sigma';

/** Parses `name=path`. @throws RredcotError (exit 2) */
export function parseNamedPath(flag: string, text: string): CreditColumn {
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
class CreditFault extends TraceRejected {
  constructor(reason: string) {
    super('credit', reason);
  }
}

/** Those of our columns that are looked at. */
const READ = ['id', 'group', 'segments', 'value_start', 'reward', 'baseline', 'status'];

/** Whether {@link traceCredits} looks at a column of a file. */
export function isRead(asked: readonly CreditColumn[]): (name: string) => boolean {
  return (name) =>
    READ.includes(name) || name.startsWith(SIGMA) || asked.some(({ path }) => path.text.startsWith(name));
}

/**
 * @param isMagnitude the row's differences have no sign of their own: they take that of R*
 * @throws TraceRejected naming what is not as it should be
 */
export function traceCredits(row: InputRow, asked: readonly CreditColumn[], isMagnitude: boolean) {
  const { columns } = row;
  if (!isList(columns.segments) || columns.segments.length === 0)
    throw new CreditFault('no segments, expected a row that was scored or cut');
  const whole = storedRow(oursOf(columns, READ), row);
  const { segments, trace, baseline, reward } = withoutShown(whole);
  const own = ownTokens(whole);
  const thoughts = segments.filter(({ kind }) => kind === 'thought');
  const K = thoughts.length;
  const unit = segments[0]?.end === null ? 'charEnd' : 'end';
  const ends = segments.map((segment) => segment[unit]).filter((end) => end !== null);
  if (ends.length < segments.length) throw new CreditFault('its segments have no ends');
  const total = ends.at(-1) as number;
  // R* = ζ − b, which σ shares out: its sign says whether more of σ is good or bad. Without b: ζ − ½
  const weight = (reward ?? Number.NaN) - (baseline ?? 0.5);
  const perSegment = (credit: (k: number, from: number, to: number) => number) =>
    Float64Array.from({ length: K }, (_, k) => credit(k, ends[k - 1] ?? 0, ends[k] as number));
  const credits = new Map([[UNIFORM, perSegment((_, from, to) => (weight * (to - from)) / total)]]);
  const put = (name: string, credit: Float64Array<ArrayBuffer>) => {
    if (credit.some(Number.isFinite)) credits.set(name, credit);
  };
  const deltas = Float64Array.from(thoughts, ({ delta }) => delta ?? Number.NaN);
  put(DELTA, isMagnitude ? deltas.map((delta) => Math.abs(delta) * Math.sign(weight)) : deltas);
  put(
    SIGMA,
    Float64Array.from(thoughts, ({ sigma }) => weight * (sigma ?? Number.NaN)),
  );
  if (unit === 'end')
    for (const [name, list] of Object.entries(columns))
      if (name.startsWith('sigma_') && isList(list) && list.length === (own?.length ?? total)) {
        const sigma = compact(Float32Array.from(list, Number), own);
        put(
          name,
          perSegment((_, from, to) => weight * sigma.subarray(from, to).reduce((sum, s) => sum + s, 0)),
        );
      }
  for (const column of asked) {
    if (credits.has(column.name))
      throw usageError(`--credit ${column.name}: the name is taken`, '--credit another=path');
    const credit = columnCredit(columns, column, K);
    if (credit !== null) put(column.name, credit);
  }
  return {
    id: trace.id,
    /** a trace without one is its own */
    group: trace.group ?? trace.id,
    /** ends of all segments in tokens, or in characters where there are no tokens */
    ends: `${unit} ${ends.join(' ')} ${K}`,
    /** (K) by name: `uniform`, `delta`, `sigma…`, and the names that were asked for */
    credits,
  };
}

/** The credit of K segments; NaN where a number is null. Null where the row has no such column. @throws TraceRejected */
function columnCredit(row: InputRow['columns'], { name, path }: CreditColumn, K: number) {
  const fault = (why: string) => new CreditFault(`--credit ${name}: ${path.text} ${why}`);
  const found = resolvePath(row, path);
  if ('noList' in found) throw fault('is no list');
  const list = 'items' in found ? found.items : found.value;
  if (list === null || list === undefined) return null;
  if (!isList(list)) throw fault('is no list of numbers');
  const numbers = Float64Array.from(list, (item, k) => {
    if (item === null || item === undefined) return Number.NaN;
    if (typeof item === 'number') return item;
    throw fault(`has ${JSON.stringify(item)?.slice(0, 40)} at ${k}, expected a number or null`);
  });
  if (numbers.length === K) return numbers;
  if (numbers.length !== K + 1)
    throw fault(
      `has ${numbers.length} numbers, expected ${K} credits or ${K + 1} values for ${K} thought segments`,
    );
  return numbers.slice(1).map((value, k) => value - (numbers[k] as number));
}
