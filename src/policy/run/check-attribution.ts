// Checks the graphs that attribute: continuations beside each other must not see each other, and attention is shared out whole.

import type { Sequence } from './attribution-run.js';
import { type Difference, Largest } from './check.js';
import type { PolicySession } from './session.js';

type Kind = Parameters<PolicySession['openAttribution']>[0];

/**
 * Reads ids (T) with each of two continuations behind them alone, and with both beside each other, one of which counts. What the
 * tokens of the text get has to be the same; differences are shares of the largest number. Of attention all that is seen sums to 1.
 * @param session whose folder has these graphs
 */
export async function compareAttribution(
  session: PolicySession,
  kind: Kind,
  ids: Int32Array,
  continuations: readonly [Int32Array, Int32Array],
): Promise<Difference[]> {
  await session.openAttribution(kind);
  const beside = new Largest(`${kind}, two − one`);
  const sum = new Largest(`${kind}, sum − 1`);
  for (const [n, own] of continuations.entries()) {
    const alone = await session.attribute(sequence(ids, [own], 0));
    const together = await session.attribute(sequence(ids, continuations, n));
    const most = alone.subarray(0, ids.length).reduce((largest, x) => Math.max(largest, x), 0);
    const shares = (of: Float32Array) => Float64Array.from(of.subarray(0, ids.length), (x) => x / most);
    beside.add(shares(together), shares(alone), 0);
    sum.add([alone.reduce((all, x) => all + x, 0)], [1], ids.length);
  }
  return kind === 'attention' ? [beside.result(), sum.result()] : [beside.result()];
}

/** The text, and continuations that each see the text and themselves; all tokens of the one that counts are scored, evenly. */
function sequence(ids: Int32Array, continuations: readonly Int32Array[], counted: number): Sequence {
  const T = ids.length;
  const [all, pos, number] = [Array.from(ids), Array.from(ids.keys()), Array.from(ids, () => -1)];
  const [rows, targets, weights]: [number[], number[], number[]] = [[], [], []];
  for (const [n, own] of continuations.entries()) {
    const first = all.length;
    for (const [j, id] of own.entries()) {
      rows.push(j === 0 ? T - 1 : first + j - 1);
      targets.push(id);
      weights.push(n === counted ? 1 / own.length : 0);
      // the last one predicts nothing
      if (j === own.length - 1) continue;
      all.push(id);
      pos.push(T + j);
      number.push(n);
    }
  }
  return {
    ids: Int32Array.from(all),
    pos: Int32Array.from(pos),
    number: Int32Array.from(number),
    rows: Int32Array.from(rows),
    targets: Int32Array.from(targets),
    weights: Float32Array.from(weights),
  };
}
