// Checks a stored row of `siblings` by its own columns.
import type { StoredRow } from '../../io/scored/stored-rows.js';
import { MATELESS } from '../mateless.js';

/**
 * Values in 0..1; a prior and an effective number for every exit; where the status says that no mate counts, values that are
 * the prior and numbers that are 0, else numbers of 1 at least where the trace's own reward is known.
 * @param values (K+1) @param prior (K+1) of `value_prior`; null where there is none
 */
export function checkMates(
  row: StoredRow,
  values: Float32Array,
  prior: Float32Array | null,
  fault: (text: string) => void,
): void {
  if (prior?.length !== values.length) {
    fault(`value_prior has ${prior?.length ?? 'no'} entries, expected ${values.length}: one for each exit`);
    return;
  }
  const outside = values.findIndex((value) => value < 0 || value > 1);
  if (outside >= 0) fault(`the value of exit ${outside} is ${values[outside]}, expected 0 to 1`);
  const status = row.cell('status');
  const isAlone = typeof status === 'string' && status.split(';').some((code) => MATELESS.includes(code));
  if (row.has('value_ess') && typeof status === 'string') {
    const cell = row.cell('value_ess');
    const isList = Array.isArray(cell) || ArrayBuffer.isView(cell);
    const effective = isList ? Array.from(cell as unknown as ArrayLike<number>, Number) : [];
    if (effective.length !== values.length)
      fault(`value_ess has ${effective.length} entries, expected ${values.length}: one for each exit`);
    const least = typeof row.cell('reward') === 'number' ? 1 - 1e-6 : 0;
    const k = effective.findIndex((n) => (isAlone ? n !== 0 : !(n >= least)));
    if (k >= 0)
      fault(
        `value_ess[${k}] is ${effective[k]}, expected ${isAlone ? `0 with the status ${status}` : `${Math.round(least)} or more`}`,
      );
  }
  if (!isAlone) return;
  const k = prior.findIndex((value, n) => value !== values[n]);
  if (k >= 0) fault(`status is ${status}, and the value of exit ${k} is ${values[k]}, expected ${prior[k]}`);
}
