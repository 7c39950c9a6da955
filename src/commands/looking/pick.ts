// A scored file in, the one of its traces that was asked for out: the worst, the best, one by chance, the first that fits.
import { randomInt } from 'node:crypto';
import { dataError, TraceRejected, throwIfInterrupted } from '../../errors.js';
import { isMagnitude } from '../../estimate/estimators.js';
import { plural } from '../../plural.js';
import { extremes, turnsOf } from '../../report/counted/turns.js';
import { isBad } from '../../rows.js';
import type { Scored } from '../scored/open-scored.js';
import { type StoredTrace, storedTrace } from '../scored/scored-rows.js';
import type { Condition } from '../scored/where.js';

export type Pick = 'worst' | 'best' | 'random' | 'first';

/** A row's number over all inputs, and why it is this one. */
export interface Picked {
  readonly ordinal: number;
  readonly why: string;
}

/**
 * Reads a file through, holding one row of it.
 * @throws RredcotError (exit 65) where none fits
 */
export async function pickTrace(
  source: Scored,
  pick: Pick,
  conditions: readonly Condition[],
  signal: AbortSignal,
): Promise<Picked> {
  const magnitude = isMagnitude(source.credit.estimator);
  let best: { readonly rank: number; readonly key: number; readonly picked: Picked } | undefined;
  let [fitting, traces] = [0, 0];
  for await (const row of source.read({})) {
    throwIfInterrupted(signal);
    if (isBad(row)) continue;
    const trace = readable(() => storedTrace(row, source));
    if (trace === undefined) continue;
    traces++;
    if (!conditions.every(({ holds }) => holds(trace))) continue;
    fitting++;
    const { ordinal } = row;
    if (pick === 'first') return { ordinal, why: 'the first that fits' };
    // each of n has its chance of 1 in n
    if (pick === 'random' && randomInt(fitting) === 0)
      best = { rank: 0, key: 0, picked: { ordinal, why: `one of ${plural(fitting, 'trace')} by chance` } };
    if (pick === 'random') continue;
    const found = standing(trace, pick, magnitude);
    if (best === undefined || found.rank > best.rank || (found.rank === best.rank && found.key > best.key))
      best = { ...found, picked: { ordinal, why: found.why } };
  }
  if (best === undefined)
    throw dataError(
      `none of ${plural(traces, 'trace')} fits`,
      conditions.length > 0 ? 'another --where' : 'rredcot verify tells what is wrong with the file',
    );
  const { ordinal, why } = best.picked;
  return pick === 'random'
    ? { ordinal, why: `one of ${plural(fitting, 'trace')} by chance` }
    : { ordinal, why };
}

/** Wrong traces come before right ones in search of the worst, right ones before wrong ones in search of the best. */
function standing({ row }: StoredTrace, pick: 'worst' | 'best', magnitude: boolean) {
  const { rise, fall } = extremes(turnsOf(row, magnitude));
  const isRight = row.reward !== null && row.reward > 0.5;
  const isMeant = row.reward !== null && isRight === (pick === 'best');
  const what = row.reward === null ? '' : isRight ? 'right ' : 'wrong ';
  return pick === 'worst'
    ? { rank: Number(isMeant), key: fall, why: `the ${what}trace whose value fell the most in one segment` }
    : { rank: Number(isMeant), key: rise, why: `the ${what}trace whose value rose the most in one segment` };
}

function readable(read: () => StoredTrace): StoredTrace | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof TraceRejected) return undefined;
    throw error;
  }
}
