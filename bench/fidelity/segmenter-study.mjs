// Completions at every unsure token of some thoughts in, how much of the credit each segmenter's cuts keep out.
import { withIntervals } from '../../dist/compare/bootstrap.js';
import { tokenWeights } from '../../dist/credit/shaping.js';
import { bestCut, keptOf, keptWithin, QUARTERS, valueCurve } from './cuts.mjs';
import { mean, valuesBy } from './samples.mjs';
import { COUNTS, SEGMENTERS } from './segmenters.mjs';

const RESAMPLES = { resamples: 1000, seed: 0 };

/** Share kept over all thoughts, one a group, with its interval. @param parts [kept, all] of each */
function shareOf(parts) {
  const figure = { terms: Float64Array.from(parts.flat()), m: 2, value: ([part, all]) => part / all };
  return withIntervals([figure], Int32Array.from(parts.keys()), RESAMPLES)[0];
}

/** The part of the token-wise credit that lies along the one that lines and `--within` give, over all thoughts. */
function withinShare(thoughts, own, within) {
  const K = Number.POSITIVE_INFINITY;
  const parts = own.map(({ cuts, figures }, i) => {
    const ends = cuts({ segmenter: 'newline', maxSegments: K });
    const weights = tokenWeights({ ends: Int32Array.from(ends), ...figures }, within);
    let [along, same] = [0, 0];
    // every curve once with every other
    for (const a of QUARTERS)
      for (const b of QUARTERS.filter((q) => q !== a)) {
        const [more, moreOwn] = keptWithin(thoughts[i][a], thoughts[i][b], ends, weights);
        [along, same] = [along + more, same + moreOwn];
      }
    const [, all] = keptOf(thoughts[i], () => ends);
    return [along, same, 2 * all];
  });
  const value = ([along, same, all]) => along ** 2 / same / all;
  const figure = { terms: Float64Array.from(parts.flat()), m: 3, value };
  return withIntervals([figure], Int32Array.from(parts.keys()), RESAMPLES)[0];
}

/** Weights inside a segment that are tried on lines. */
export const WITHIN = ['uniform', 'entropy', 'unsure'];

/**
 * @param traces compact samples (samples.mjs) of the thoughts that are looked at token by token
 * @param own their cutters (segmenters.mjs), in the same order
 * @returns counts, tokens and exits (means of a thought), and for each way to cut {name, shares (counts), segments (counts)}: shares
 * of the token-wise Monte Carlo credit with intervals, mean numbers of segments; within: [name, share] of lines with weights inside
 */
export function segmenterStudy(traces, own) {
  const samples = traces[0].utilities[0].length;
  const thoughts = traces.map((trace, i) => {
    const ends = [own[i].start, ...trace.ends.slice(1)];
    return QUARTERS.map((q) => valueCurve(ends, valuesBy(trace, (q * samples) / 4, ((q + 1) * samples) / 4)));
  });
  const lengths = own.map(({ start, end }) => end - start);
  const ways = SEGMENTERS.map(([name, options]) => {
    const cuts = COUNTS.map((K) => own.map(({ cuts: cut }, i) => cut(options(lengths[i], K))));
    const shares = cuts.map((each) => shareOf(each.map((cut, i) => keptOf(thoughts[i], () => cut))));
    return { name, shares, segments: cuts.map((each) => mean(each.map(({ length }) => length))) };
  });
  const best = (curves, K) =>
    keptOf(curves, (a, b) => {
      const both = curves[a].map((value, t) => (value + curves[b][t]) / 2);
      return bestCut(both, K);
    });
  return {
    counts: COUNTS,
    traces: traces.length,
    tokens: mean(lengths),
    exits: mean(traces.map(({ ends }) => ends.length)),
    within: WITHIN.map((name) => [name, withinShare(thoughts, own, name)]),
    ways: [
      ...ways,
      {
        name: 'best',
        shares: COUNTS.map((K) => shareOf(thoughts.map((curves) => best(curves, K)))),
        segments: COUNTS.map((K) => mean(lengths.map((n) => Math.min(K, n)))),
      },
    ],
  };
}
