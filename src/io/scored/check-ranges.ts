// Finds numbers in a stored row that no policy and no reward can give.
import type { StoredRow } from './stored-rows.js';

export type Numbers = ArrayLike<number>;

/** log p and entropies come from sums of some thousand floats */
const LOGIT_TOLERANCE = 1e-4;
/** nats of the largest vocabulary that an id of 32 bits can have, where the policy's is not known */
const MOST_ENTROPY = Math.log(2 ** 31);

/** Numbers that no policy and no reward can give. */
export function checkRanges(row: StoredRow, vocab: number | undefined, fault: (text: string) => void): void {
  const most = (vocab === undefined ? MOST_ENTROPY : Math.log(vocab)) + LOGIT_TOLERANCE;
  const ids = (vocab ?? 2 ** 31) - 1;
  const ranges = [
    ['prompt_ids', 0, ids],
    ['completion_ids', 0, ids],
    ['logprobs', Number.NEGATIVE_INFINITY, LOGIT_TOLERANCE],
    ['entropies', -LOGIT_TOLERANCE, most],
    ['reference_utilities', 0, 1],
    ['reference_tokens', 1, 2 ** 31 - 1],
  ] as const;
  for (const [name, low, high] of ranges) {
    const list = numbers(row.cell(name)) ?? [];
    const at = firstOutside(list, low, high);
    if (at >= 0) fault(`${name}[${at}] is ${list[at]}, expected ${rangeText(low, high)}`);
  }
  const exits = row.cell('reference_logprobs');
  for (const [k, exit] of Array.isArray(exits) ? exits.entries() : []) {
    const at = firstOutside(numbers(exit) ?? [], Number.NEGATIVE_INFINITY, LOGIT_TOLERANCE);
    if (at >= 0) fault(`reference_logprobs[${k}][${at}] is above 0`);
  }
  const reward = row.cell('reward');
  if (typeof reward === 'number' && !(reward >= 0 && reward <= 1))
    fault(`reward is ${reward}, expected 0 to 1`);
}

function rangeText(low: number, high: number): string {
  return low === Number.NEGATIVE_INFINITY
    ? 'at most 0'
    : `${Math.round(low)} to ${Number(high.toPrecision(6))}`;
}

function firstOutside(list: ArrayLike<unknown>, low: number, high: number): number {
  for (let i = 0; i < list.length; i++) if (Number(list[i]) < low || Number(list[i]) > high) return i;
  return -1;
}

/** A cell that holds a list of numbers; null for any other. */
export function numbers(cell: unknown): Numbers | null {
  return Array.isArray(cell) || ArrayBuffer.isView(cell) ? (cell as unknown as Numbers) : null;
}
