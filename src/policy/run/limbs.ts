// Traces, of which some begin with the same prompt, in; the trunks that a run reads once and each trace's place on them out.
import type { PackedTrace } from './pack.js';

/** Where a trace's keys are: on a trunk, and where that is its prompt alone, on a limb behind it. */
export interface Place {
  /** which of the trunks */
  readonly trunk: number;
  readonly limb?: {
    /** which of the limbs */
    readonly number: number;
    /** tokens of the trace that are on the trunk */
    readonly from: number;
  };
}

/** What a run reads. */
export interface Placed {
  /** (B) ids of each trunk: a trace, or a prompt that traces share */
  readonly trunks: readonly Int32Array[];
  /** (N) ids of each limb: the completion of a trace that shares its prompt */
  readonly limbs: readonly Int32Array[];
  /** of each trace */
  readonly places: readonly Place[];
}

/**
 * Traces with the same number in `shares` stand on one trunk.
 * @throws RangeError where their prompts differ
 */
export function placeTraces(traces: readonly Omit<PackedTrace, 'branches'>[]): Placed {
  const trunks: Int32Array[] = [];
  const limbs: Int32Array[] = [];
  const shared = new Map<number, number>(); // number of a prompt → its trunk
  const places = traces.map(({ ids, promptLength, shares }): Place => {
    if (shares === undefined) return { trunk: trunks.push(ids) - 1 };
    const prompt = ids.subarray(0, promptLength);
    const trunk = shared.get(shares) ?? trunks.push(prompt) - 1;
    shared.set(shares, trunk);
    const read = trunks[trunk] as Int32Array;
    if (read.length !== promptLength || prompt.some((id, t) => id !== read[t]))
      throw new RangeError(`traces that share prompt ${shares} have different ones`);
    return { trunk, limb: { number: limbs.push(ids.subarray(promptLength)) - 1, from: promptLength } };
  });
  return { trunks, limbs, places };
}

/** The graph's table of the limbs' rows: (N, L), short limbs padded with row 0, which nothing sees. */
export function limbTable(limbs: readonly Int32Array[], count: number): [BigInt64Array, [number, number]] {
  const longest = limbs.reduce((most, { length }) => Math.max(most, length), 0);
  const table = new BigInt64Array(count * longest);
  for (const [n, rows] of limbs.entries())
    for (const [t, row] of rows.entries()) table[n * longest + t] = BigInt(row);
  return [table, [count, longest]];
}
