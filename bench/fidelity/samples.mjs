// Kept completions in; values of states by any part of them, what fewer or shorter ones would have given, their noise, out.

/**
 * What is needed of one trace's completions.
 * @param row of a run with --keep-samples
 * @returns ends (E) token boundaries of the exits; utilities, lengths (E) of (M); written: tokens in all
 */
export function compactSamples({ id, segments, value_start, samples }) {
  const thoughts = segments.filter(({ kind }) => kind === 'thought');
  const exits = thoughts.length + 1;
  const utilities = Array.from({ length: exits }, () => []);
  const lengths = Array.from({ length: exits }, () => []);
  for (const { exit, completion_ids, finish_reason, utility } of samples) {
    utilities[exit].push(utility ?? 0);
    // one that a limit has cut would have gone on
    lengths[exit].push(finish_reason === 'stop' ? completion_ids.length : Number.POSITIVE_INFINITY);
  }
  const ends = [null, ...thoughts.map(({ end }) => end)];
  const stored = [value_start, ...thoughts.map(({ value }) => value)];
  for (const [k, own] of utilities.entries())
    if (!(Math.abs(mean(own) - stored[k]) < 1e-6))
      throw new Error(
        `${id}: exit ${k} has the value ${stored[k]}, its ${own.length} completions ${mean(own)}`,
      );
  const written = samples.reduce((sum, { completion_ids }) => sum + completion_ids.length, 0);
  return { id, ends, utilities, lengths, written };
}

/** The same, of some of the exits: those of a trace's start and at the given boundaries. */
export function atEnds({ id, ends, utilities, lengths }, wanted) {
  const at = [0, ...wanted.map((end) => ends.indexOf(end))];
  if (at.includes(-1)) throw new Error(`${id}: no completions at token ${wanted[at.indexOf(-1) - 1]}`);
  const some = (of) => at.map((k) => of[k]);
  return { id, ends: some(ends), utilities: some(utilities), lengths: some(lengths) };
}

export const mean = (x) => x.reduce((sum, value) => sum + value, 0) / x.length;

/** (E) mean utility of the samples from..to. */
export const valuesBy = ({ utilities }, from, to) => utilities.map((own) => mean(own.slice(from, to)));

/** (E) what --estimator mc-truncated gives with so many new tokens at most: what is longer counts 0. */
export function truncatedValues({ utilities, lengths }, limit, from, to) {
  const cut = utilities.map((own, k) => own.map((utility, m) => (lengths[k][m] > limit ? 0 : utility)));
  return valuesBy({ utilities: cut }, from, to);
}

/**
 * Share of completions that a limit of new tokens would lose, by how long the trace itself goes on, as a share of that limit.
 * @param traces with `tokens`, each trace's own length
 * @param edges of the bins, rising, from 0
 * @returns (bins) {exits, lost}
 */
export function lostBy(traces, limit, edges) {
  const bins = edges.slice(1).map(() => ({ exits: 0, lost: 0 }));
  for (const { ends, lengths, tokens, start } of traces)
    for (const [k, own] of lengths.entries()) {
      const share = (tokens - (ends[k] ?? start)) / limit;
      const bin = bins[edges.findLastIndex((edge) => edge <= share)];
      if (bin === undefined) continue;
      bin.exits++;
      bin.lost += own.filter((length) => length > limit).length / own.length;
    }
  return bins.map(({ exits, lost }) => ({ exits, lost: lost / exits }));
}

/** Exits of a trace of E of which `count` are left, evenly spread, first and last among them; all where there are no more. */
export function spread(E, count) {
  if (count >= E) return Array.from({ length: E }, (_, k) => k);
  return Array.from({ length: count }, (_, j) => Math.round((j * (E - 1)) / (count - 1)));
}

/**
 * Bootstrap standard deviation of a value of M completions, the mean over all exits: M of a state's completions drawn with
 * replacement have √(Σ(ζ − mean)²/N)/√M, to which resampling converges.
 * @param traces with `utilities`; @param exits which of a trace's E exits count
 */
export function bootstrapDeviation(traces, M, exits) {
  const deviations = traces.flatMap(({ utilities }) =>
    exits(utilities.length).map((k) => {
      const middle = mean(utilities[k]);
      return Math.sqrt(mean(utilities[k].map((u) => (u - middle) ** 2)) / M);
    }),
  );
  return mean(deviations);
}

/**
 * √reliability of differences of values of M completions: the root of the correlation inside traces of two values of M each, over
 * all pairs of disjoint neighbouring blocks of the completions; of all of them by Spearman and Brown from the two halves.
 */
export function ceilingOf(traces, M, exits) {
  const N = traces[0].utilities[0].length;
  const isWhole = 2 * M > N;
  const size = isWhole ? Math.floor(N / 2) : M;
  let [cross, ownX, ownY] = [0, 0, 0];
  for (const { utilities } of traces) {
    const kept = exits(utilities.length).map((k) => utilities[k]);
    const block = (from) => centred(changes(kept.map((own) => mean(own.slice(from, from + size)))));
    for (let from = 0; from + 2 * size <= N; from += 2 * size) {
      const [x, y] = [block(from), block(from + size)];
      for (const [k, u] of x.entries()) {
        cross += u * y[k];
        ownX += u * u;
        ownY += y[k] * y[k];
      }
    }
  }
  const r = cross / Math.sqrt(ownX * ownY);
  return Math.sqrt(Math.max(0, isWhole ? (2 * r) / (1 + r) : r));
}

const changes = (values) => values.slice(1).map((value, k) => value - values[k]);
function centred(x) {
  const middle = mean(x);
  return x.map((value) => value - middle);
}
