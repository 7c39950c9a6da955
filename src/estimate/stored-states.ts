// A scored row in, the states of its trace out: what the calibrated value is fitted to, and computed again from.
import type { StoredRow } from '../io/verify/stored-rows.js';
import type { States } from './calibrate/features.js';
import { storedValue } from './value.js';

/** Columns that the states of a trace are read from. */
export const STATE_COLUMNS = ['segments', 'logprobs', 'reference_logprobs', 'reference_utilities'] as const;

/** @returns the states, or why the row has none, as half a sentence */
export function storedStates(row: StoredRow): States | string {
  const segments = row.cell('segments');
  if (!Array.isArray(segments)) return 'it has no segments';
  const ends = (segments as Readonly<Record<string, unknown>>[])
    .filter(({ kind }) => kind === 'thought')
    .map(({ end }) => end);
  const logprobs = floats(row.cell('logprobs'));
  if (logprobs === null) return 'it has no logprobs';
  const isRising = ends.every((end, k) => Number(end) > (k === 0 ? 0 : Number(ends[k - 1])));
  if (!isRising || !(Number(ends.at(-1) ?? 0) <= logprobs.length))
    return `its segments end at ${ends.join(', ')}, with ${logprobs.length} tokens`;
  const utilities = floats(row.cell('reference_utilities'));
  const exits = row.cell('reference_logprobs');
  if (utilities === null || !Array.isArray(exits)) return 'it has no reference_logprobs';
  if (utilities.length === 0) return 'it has no reference';
  if (exits.length !== ends.length + 1)
    return `reference_logprobs has ${exits.length} exits, its segments ${ends.length + 1}`;
  const found = exits.map(floats);
  if (!found.every((exit): exit is Float32Array => exit?.length === utilities.length))
    return `reference_logprobs does not have ${utilities.length} entries at every exit`;
  const values = Float32Array.from(found, (exit) => storedValue(exit, new Int32Array(0), utilities, 'pr'));
  const isWhole = values.every(Number.isFinite) && logprobs.every(Number.isFinite);
  return isWhole ? { values, ends: Int32Array.from(ends, Number), logprobs } : 'its numbers are not finite';
}

function floats(cell: unknown): Float32Array | null {
  return Array.isArray(cell) || ArrayBuffer.isView(cell)
    ? Float32Array.from(cell as unknown as ArrayLike<number>, Number)
    : null;
}
