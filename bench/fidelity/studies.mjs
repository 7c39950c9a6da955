// Kept completions in, tables of two figures of the paper out: the noise of fewer completions, and what a limit of tokens loses.
import { bootstrapDeviation, ceilingOf, lostBy, mean, spread } from './samples.mjs';

/** Completions an exit that are looked at, as far as there are so many. */
export const FEWER = [1, 2, 4, 8, 16, 20, 32, 64];
/** Exits a trace, evenly spread over the ends of its lines. */
const EXITS = [3, 5, 9];
/** Limits of new tokens. */
export const LIMITS = [16, 32, 64, 128];
/** Bins of a trace's own remaining length, as a share of the limit. */
const EDGES = [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 4];

/** @returns exits: of each choice its mean number; rows: of each M the deviation and √reliability for each choice */
export function noiseStudy(traces) {
  const choices = [...EXITS.map((count) => (E) => spread(E, count)), (E) => spread(E, E)];
  const samples = traces[0].utilities[0].length;
  return {
    exits: choices.map((exits) => mean(traces.map(({ ends }) => exits(ends.length).length))),
    rows: FEWER.filter((M) => M <= samples).map((M) => ({
      M,
      deviations: choices.map((exits) => bootstrapDeviation(traces, M, exits)),
      ceilings:
        2 * M <= samples || M === samples ? choices.map((exits) => ceilingOf(traces, M, exits)) : null,
    })),
  };
}

/** @returns edges, and of each limit the share lost, bin by bin and over all */
export function lengthStudy(traces) {
  return {
    edges: EDGES,
    limits: LIMITS.map((limit) => ({
      limit,
      bins: lostBy(traces, limit, EDGES),
      all: lostBy(traces, limit, [0, Number.POSITIVE_INFINITY])[0].lost,
    })),
  };
}
