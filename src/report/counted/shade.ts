// How strongly a segment's weight is shaded: on one scale for all traces, so that a flat trace looks flat.

/** Steps of the shade on each side. */
export const SHADES = 5;

/** Up to here a weight is taken for uniform. */
const EVEN = 1.02;

/**
 * From −5 to 5: 0 at uniform weight or less, a step for each doubling of |σ·T|. The sign is what training does with the segment:
 * above 0 it becomes likelier, below 0 less likely.
 * @param weight mean σ·T of the segment
 * @param advantage R* = ζ − b; null where it is unknown, which counts as above 0
 */
export function shadeOf(weight: number | null, advantage: number | null): number {
  if (weight === null || !(Math.abs(weight) > EVEN)) return 0;
  const step = Math.min(SHADES, Math.max(1, Math.round(Math.log2(Math.abs(weight)) + 0.3)));
  return Math.sign(weight) * ((advantage ?? 0) < 0 ? -step : step);
}

/** R*; null where one of them is unknown. */
export function advantageOf({
  reward,
  baseline,
}: {
  readonly reward: number | null;
  readonly baseline: number | null;
}): number | null {
  return reward === null || baseline === null ? null : reward - baseline;
}
