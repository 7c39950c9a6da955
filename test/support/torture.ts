// What `npm run torture` does in full, and CI, which has 25 minutes, in part.
export const IS_TORTURE = process.env.RREDCOT_TORTURE !== undefined;

/** Of cases that have a mechanism in common CI runs the few that are named. */
export const inPart = <T>(all: readonly T[], isOfFew: (each: T, index: number) => boolean): readonly T[] =>
  IS_TORTURE ? all : all.filter(isOfFew);
