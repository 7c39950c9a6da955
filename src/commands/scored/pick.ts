// Picks the one trace of a scored file that was asked for: the worst, the best, one by chance, the first that fits.
import { randomInt } from 'node:crypto';
import { dataError, TraceRejected, throwIfInterrupted } from '../../errors.js';
import type { ReadRows } from '../../io/read/peek.js';
import { plural } from '../../plural.js';
import { Sketch } from '../../report/gathered.js';
import { mean } from '../../report/run-counts.js';
import { extremes, NOTHING, shortNumber } from '../../report/trace-record.js';
import { foreignTraces, isForeign } from '../../report/warnings.js';
import { type InputRow, isBad } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import { type Scored, storedTrace, vocabOf } from './open-scored.js';
import type { Condition } from './where.js';

export type Pick = 'worst' | 'best' | 'random' | 'first';

/** A row's number over all inputs, and why it is this one. */
export interface Picked {
  readonly ordinal: number;
  readonly why: string;
  /** what stands against trusting the file, as far as it was read; as `summary` says it */
  readonly warnings: readonly string[];
}

/** Whether a trace of the file fits all conditions; none that cannot be read does. */
export function fitting(source: Scored, conditions: readonly Condition[]): (row: InputRow) => boolean {
  return (row) => {
    const trace = readable(() => storedTrace(row, source));
    return trace !== undefined && conditions.every(({ holds }) => holds(trace));
  };
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
  const magnitude = source.credit.estimator.isMagnitude === true;
  let best: (Standing & { readonly ordinal: number }) | undefined;
  let [fits, traces] = [0, 0];
  const logprobs = new Sketch();
  for await (const row of source.read({})) {
    throwIfInterrupted(signal);
    if (isBad(row)) continue;
    const trace = readable(() => storedTrace(row, source));
    if (trace === undefined) continue;
    traces++;
    const logprob = mean(trace.logprobs);
    if (logprob !== null) logprobs.add(logprob);
    if (!conditions.every(({ holds }) => holds(trace))) continue;
    fits++;
    const { ordinal } = row;
    if (pick === 'first') return { ordinal, why: 'the first that fits', warnings: [] };
    // each of n has its chance of 1 in n
    if (pick === 'random' && randomInt(fits) === 0) best = { rank: 0, key: 0, what: '', ordinal };
    if (pick === 'random') continue;
    const found = standing(trace, pick, magnitude);
    if (best === undefined || found.rank > best.rank || (found.rank === best.rank && found.key > best.key))
      best = { ...found, ordinal };
  }
  if (best === undefined)
    throw dataError(
      `none of ${plural(traces, 'trace')} fits`,
      conditions.length > 0 ? 'another --where' : 'rredcot verify tells what is wrong with the file',
    );
  const { median } = logprobs.distribution;
  return {
    ordinal: best.ordinal,
    why: pick === 'random' ? `one of ${plural(fits, 'trace')} by chance` : reasonOf(best, pick, magnitude),
    warnings: isForeign(median, vocabOf(source)) ? [foreignTraces(median)] : [],
  };
}

/** One of the rows that can be read, by chance. @throws RredcotError (exit 65) where there is none */
export async function pickRow(read: ReadRows, signal: AbortSignal): Promise<Picked> {
  let rows = 0;
  let ordinal: number | undefined;
  for await (const row of read({})) {
    throwIfInterrupted(signal);
    // each of n has its chance of 1 in n
    if (!isBad(row) && randomInt(++rows) === 0) ordinal = row.ordinal;
  }
  if (ordinal === undefined) throw dataError('there is no row that can be read', '--row 0 says why');
  return { ordinal, why: `one of ${plural(rows, 'row')} by chance`, warnings: [] };
}

/** What a trace is ordered by in the search. */
interface Standing {
  readonly rank: number;
  /** its largest fall, or rise */
  readonly key: number;
  /** `right `, `wrong `, or nothing */
  readonly what: string;
}

function reasonOf({ key, what }: Standing, pick: 'worst' | 'best' | 'first', magnitude: boolean): string {
  if (magnitude && key > NOTHING)
    return `the ${what}trace of which one segment counts for the most, ${shortNumber(key)}`;
  const moved = pick === 'worst' ? 'fell' : 'rose';
  return key > NOTHING
    ? `the ${what}trace whose value ${moved} the most in one segment, by ${shortNumber(key)}`
    : `the first ${what}trace; the value of none ${moved} in a segment, so that none is ${pick === 'worst' ? 'worse' : 'better'} than another`;
}

/** Wrong traces come before right ones in search of the worst, right ones before wrong ones in search of the best. */
function standing(row: OutputRow, pick: 'worst' | 'best', magnitude: boolean): Standing {
  const { rise, fall } = extremes(row, magnitude);
  const isRight = row.reward !== null && row.reward > 0.5;
  const isMeant = row.reward !== null && isRight === (pick === 'best');
  const what = row.reward === null ? '' : isRight ? 'right ' : 'wrong ';
  const key = pick === 'worst' ? fall : rise;
  // what is nothing is as much as nothing: the first of such traces stays
  return { rank: Number(isMeant), key: key > NOTHING ? key : 0, what };
}

/** What is made of a row; undefined where that cannot be read. */
export function readable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof TraceRejected) return undefined;
    throw error;
  }
}
