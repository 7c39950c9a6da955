// Checks a stored row of `mc` or `mc-truncated` by its own columns.
import type { StoredRow } from '../../io/scored/stored-rows.js';
import { LOST, MUCH_LOST, monteCarloValues, UNFINISHED } from './monte-carlo.js';

/** Values, deviations and shares lie in 0..1, and were rounded to float32 on the way. */
const ROUNDING = 1e-6;

/**
 * Values in 0..1, deviations that such values can have, `mc:lost` where much is lost and nowhere else; where samples were
 * kept, all of that from them.
 * @param values (K+1)
 */
export function checkSampled(row: StoredRow, values: Float32Array, fault: (text: string) => void): void {
  const [sd, lost] = ['value_sd', 'lost_fraction'].map((name) => listOf(row, name, values.length, fault));
  for (const [k, value] of values.entries()) {
    if (value < 0 || value > 1) fault(`the value of exit ${k} is ${value}, expected 0 to 1`);
    const most = Math.sqrt(Math.max(0, value * (1 - value)));
    const deviation = sd?.[k] ?? 0;
    if (!(deviation >= 0 && deviation <= most + ROUNDING))
      fault(`value_sd[${k}] is ${deviation}, expected 0 to ${most} for a value of ${value}`);
    const share = lost?.[k] ?? 0;
    if (!(share >= 0 && share <= 1)) fault(`lost_fraction[${k}] is ${share}, expected 0 to 1`);
  }
  const status = row.cell('status');
  if (lost !== undefined && typeof status === 'string') {
    const [is, has] = [lost.some((share) => share >= MUCH_LOST), status.split(';').includes(LOST)];
    if (is !== has) fault(`status is ${status}, and the largest lost_fraction is ${Math.max(...lost)}`);
  }
  const samples = row.cell('samples');
  if (Array.isArray(samples)) checkSamples(samples, values, sd, lost, fault);
}

/** A list with a number for each exit; undefined where it is none, which is told unless its column was not written. */
function listOf(row: StoredRow, name: string, exits: number, fault: (text: string) => void) {
  if (!row.has(name)) return undefined;
  const cell = row.cell(name);
  const isList = Array.isArray(cell) || ArrayBuffer.isView(cell);
  const list = isList ? Array.from(cell as unknown as ArrayLike<number>, Number) : [];
  if (list.length === exits) return list;
  fault(`${name} has ${list.length} entries, expected ${exits}: one for each exit`);
  return undefined;
}

function checkSamples(
  samples: readonly { readonly exit: number; readonly utility: number | null }[],
  values: Float32Array,
  sd: readonly number[] | undefined,
  lost: readonly number[] | undefined,
  fault: (text: string) => void,
): void {
  const of = Array.from(values, (_, k) =>
    samples.filter(({ exit }) => exit === k).map(({ utility }) => utility),
  );
  const most = Math.max(...of.map(({ length }) => length));
  // an exit without room for one more token has none
  for (const [k, { length }] of of.entries())
    if (length !== most && length !== 0)
      fault(`samples has ${length} of exit ${k}, expected ${most} as of another exit`);
  const utilities = of.map((own) => (own.length > 0 ? own : [null]));
  const ways = UNFINISHED.map((unfinished) => monteCarloValues(utilities, unfinished));
  const differs = (found: ArrayLike<number> | undefined, expected: ArrayLike<number>) =>
    found === undefined
      ? -1
      : Array.from(found).findIndex((x, k) => Math.abs(x - (expected[k] as number)) > ROUNDING);
  const faults = ways.map(({ values: means, columns }) =>
    (
      [
        ['the value', values, means],
        ['value_sd', sd, columns.value_sd as Float32Array],
        ['lost_fraction', lost, columns.lost_fraction as Float32Array],
      ] as const
    ).flatMap(([name, found, expected]) => {
      const k = differs(found, expected);
      return k < 0 ? [] : [`${name} of exit ${k} is ${found?.[k]}, from its samples it is ${expected[k]}`];
    }),
  );
  // the row does not say what a sample without a verdict counts
  if (faults.every(({ length }) => length > 0)) for (const text of faults[0] ?? []) fault(text);
}
