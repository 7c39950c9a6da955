// What of a row is credit beside its segments' own: columns that a user names, and how their numbers are meant.
import { usageError } from '../../errors.js';
import { type FieldPath, parsePath, resolvePath } from '../map/path.js';
import { numbers } from './check-ranges.js';

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
function listAt(row: Readonly<Record<string, unknown>>, path: FieldPath, flag: string): Float64Array | null {
  const found = resolvePath(row, path);
  if (found.kind === 'missing' || (found.kind === 'one' && (found.value ?? null) === null)) return null;
  if (found.kind === 'no list') throw new CreditFault(`${flag}: ${path.text} is no list`);
  const list =
    found.kind === 'each'
      ? found.items.map((item) => item?.value ?? null)
      : (numbers(found.value) ?? found.value);
  if (!Array.isArray(list) && !ArrayBuffer.isView(list))
    throw new CreditFault(`${flag}: ${path.text} is no list of numbers`);
  return Float64Array.from(list as ArrayLike<unknown>, (item, k) => {
    if (item === null || item === undefined) return Number.NaN;
    if (typeof item === 'number') return item;
    throw new CreditFault(
      `${flag}: ${path.text}: number ${k} is ${JSON.stringify(item)?.slice(0, 40)}, expected a number or null`,
    );
  });
}
