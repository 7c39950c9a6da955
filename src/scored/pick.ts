// Finds rows of a file: one by its number, its neighbours, the other completions of its prompt that stand near; and of a scored file the one
// trace that was asked for, the worst, the best, one by chance, the first that fits.
import { randomInt } from 'node:crypto';
import { dataError, throwIfInterrupted } from '../errors.js';
import type { ReadRows } from '../io/read/inputs.js';
import { plural } from '../plural.js';
import { Sketch } from '../report/gathered.js';
import { mean } from '../report/run-counts.js';
import { extremes, NOTHING, shortNumber } from '../report/trace-record.js';
import type { PeerLine } from '../report/trace-view.js';
import { isUnlikely, unlikelyTraces } from '../report/warnings.js';
import { type InputRow, isBad } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { type ScoredFiles, storedTrace, vocabOf } from './open-scored.js';
import type { Condition } from './where.js';

export type Pick = 'worst' | 'best' | 'random' | 'first';

/** A row's number over all inputs, and why it is this one. */
export interface Picked {
  readonly ordinal: number;
  readonly why: string;
  /** what stands against trusting the file, as far as it was read; as `summary` says it */
  readonly warnings: readonly string[];
}

/**
 * Reads a file through, holding one row of it.
 * @throws RredcotError (exit 65) where none fits
 */
export async function pickTrace(
  source: ScoredFiles,
  pick: Pick,
  conditions: readonly Condition[],
  signal: AbortSignal,
): Promise<Picked> {
  const magnitude = source.credit.estimator.isMagnitude === true;
  let best: (RankedTrace & { readonly ordinal: number }) | undefined;
  let [fits, traces] = [0, 0];
  const logprobs = new Sketch();
  for await (const row of source.read({})) {
    throwIfInterrupted(signal);
    if (isBad(row)) continue;
    const trace = storedTrace(row, source);
    if (isBad(trace)) continue;
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
    warnings: isUnlikely(median, vocabOf(source)) ? [unlikelyTraces(median)] : [],
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
interface RankedTrace {
  readonly rank: number;
  /** its largest fall, or rise */
  readonly key: number;
  /** `right `, `wrong `, or nothing */
  readonly what: string;
}

function reasonOf({ key, what }: RankedTrace, pick: 'worst' | 'best' | 'first', magnitude: boolean): string {
  if (magnitude && key > NOTHING)
    return `the ${what}trace of which one segment counts for the most, ${shortNumber(key)}`;
  const moved = pick === 'worst' ? 'fell' : 'rose';
  return key > NOTHING
    ? `the ${what}trace whose value ${moved} the most in one segment, by ${shortNumber(key)}`
    : `the first ${what}trace; the value of none ${moved} in a segment, so that none is ${pick === 'worst' ? 'worse' : 'better'} than another`;
}

/** Wrong traces come before right ones in search of the worst, right ones before wrong ones in search of the best. */
function standing(row: OutputRow, pick: 'worst' | 'best', magnitude: boolean): RankedTrace {
  const { rise, fall } = extremes(row, magnitude);
  const isRight = row.reward !== null && row.reward > 0.5;
  const isMeant = row.reward !== null && isRight === (pick === 'best');
  const what = row.reward === null ? '' : isRight ? 'right ' : 'wrong ';
  const key = pick === 'worst' ? fall : rise;
  // what is nothing is as much as nothing: the first of such traces stays
  return { rank: Number(isMeant), key: key > NOTHING ? key : 0, what };
}

/** Rows before and behind that are looked at: groups stand together, and a file may be long. */
export const NEAR = 512;

type NearPeer = PeerLine & { readonly ordinal: number };

/** Other rows of the same group within {@link NEAR} rows, in their order. */
export async function peersOf(row: InputRow, read: ReadRows): Promise<NearPeer[]> {
  const near = new Neighbours([row.ordinal]);
  if (typeof row.columns.group !== 'string') return [];
  for await (const other of read({ wanted: near.isNear })) {
    if (!isBad(other)) near.add(other);
    if (other.ordinal >= row.ordinal + NEAR) break;
  }
  return near.peersOf(row.ordinal);
}

function peerOf({ columns: { id, reward }, stem, row, ordinal }: InputRow): NearPeer {
  return {
    id: typeof id === 'string' ? id : `${stem}:${row}`,
    row,
    reward: typeof reward === 'number' ? reward : null,
    ordinal,
  };
}

/** The peers of several rows, gathered in one reading: of each what a line about it shows. */
export class Neighbours {
  private readonly groups = new Map<string, NearPeer[]>();
  private readonly groupOf = new Map<number, string>();
  private readonly asked: ReadonlySet<number>;
  /** those that lie no further behind a row than {@link NEAR} */
  private readonly ahead: number[];

  /** @param ordinals of the rows whose peers are asked for */
  constructor(ordinals: readonly number[]) {
    this.asked = new Set(ordinals);
    this.ahead = [...ordinals].sort((a, b) => b - a);
  }

  /** Whether a row is one of them, or within {@link NEAR} rows of one; of rows in their order. */
  readonly isNear = (ordinal: number): boolean => {
    while ((this.ahead.at(-1) ?? Number.POSITIVE_INFINITY) < ordinal - NEAR) this.ahead.pop();
    return (this.ahead.at(-1) ?? Number.POSITIVE_INFINITY) <= ordinal + NEAR;
  };

  add(row: InputRow): void {
    const { group } = row.columns;
    if (typeof group !== 'string') return;
    if (this.asked.has(row.ordinal)) this.groupOf.set(row.ordinal, group);
    const known = this.groups.get(group);
    if (known === undefined) this.groups.set(group, [peerOf(row)]);
    else known.push(peerOf(row));
  }

  peersOf(ordinal: number): NearPeer[] {
    const all = this.groups.get(this.groupOf.get(ordinal) ?? '') ?? [];
    return all.filter((peer) => peer.ordinal !== ordinal && Math.abs(peer.ordinal - ordinal) <= NEAR);
  }
}

export async function rowAt(ordinal: number, read: ReadRows): Promise<InputRow | undefined> {
  for await (const row of read({ wanted: (n) => n === ordinal })) if (!isBad(row)) return row;
  return undefined;
}
