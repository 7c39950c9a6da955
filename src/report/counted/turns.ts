// What the segments of a scored trace did: which raised its value, which lowered it, and where it went right or wrong.
import type { OutputRow } from '../../scored.js';

/** A thought segment and what it changed. */
export interface Turn {
  /** number of the segment, from 0 */
  readonly segment: number;
  /** v̂ after it less v̂ before it; of what has no sign of its own, with the sign of R* */
  readonly change: number;
  /** σ summed over it, and as a multiple of what uniform σ would give it */
  readonly sigma: number | null;
  readonly weight: number | null;
}

/** Changes below this are what rounding leaves. */
export const NOTHING = 0.0005;

/**
 * The thought segments in order.
 * @param isMagnitude the estimator's differences are magnitudes, whatever their sign
 */
export function turnsOf(
  { segments, reward, baseline }: Pick<OutputRow, 'segments' | 'reward' | 'baseline'>,
  isMagnitude: boolean,
): Turn[] {
  const outcome = Math.sign((reward ?? 0.5) - (baseline ?? 0.5));
  const tokens = segments.at(-1)?.end ?? null;
  return segments.flatMap(({ kind, delta, sigma, start, end }, segment) => {
    if (kind !== 'thought' || delta === null) return [];
    const share = tokens === null || start === null || end === null ? null : (end - start) / tokens;
    const weight = sigma === null || share === null || share === 0 ? null : sigma / share;
    return [{ segment, change: isMagnitude ? outcome * Math.abs(delta) : delta, sigma, weight }];
  });
}

/** Those that raised the value the most, and those that lowered it the most. */
export interface Turns {
  readonly decisive: readonly Turn[];
  readonly harmful: readonly Turn[];
}

/** @param most of each */
export function outstanding(turns: readonly Turn[], most = 3): Turns {
  const sorted = turns.toSorted((a, b) => b.change - a.change || a.segment - b.segment);
  return {
    decisive: sorted.filter(({ change }) => change > NOTHING).slice(0, most),
    harmful: sorted
      .filter(({ change }) => change < -NOTHING)
      .reverse()
      .slice(0, most),
  };
}

/** The largest rise and the largest fall, both ≥ 0. */
export function extremes(turns: readonly Turn[]): { readonly rise: number; readonly fall: number } {
  let [rise, fall] = [0, 0];
  for (const { change } of turns) {
    rise = Math.max(rise, change);
    fall = Math.max(fall, -change);
  }
  return { rise, fall };
}
