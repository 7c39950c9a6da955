// The correlations inside one trace as sums that add up over traces, with what permuting the trace's segments does to them.
//
// Pooled over traces, a correlation mixes in the outcome: on right traces most credit is positive, on wrong ones negative.
// So each trace is compared with itself alone, and what is added up over traces is what the coefficients are made of.

/** What a trace adds to a coefficient: r = Σ cross / √(Σ own of one · Σ own of the other). */
export interface Sums {
  readonly cross: number;
  readonly ownX: number;
  readonly ownY: number;
  /** variance of `cross` over all permutations of the trace's segments; its mean is 0 */
  readonly variance: number;
}

const NOTHING: Sums = { cross: 0, ownX: 0, ownY: 0, variance: 0 };

/** Σ (x − x̄)(y − ȳ), Σ (x − x̄)², Σ (y − ȳ)² of a trace. A constant credit is 0, whatever rounding leaves. */
export function pearsonSums(x: Float64Array, y: Float64Array): Sums {
  const n = x.length;
  if (n < 2) return NOTHING;
  const [u, v] = [centred(x), centred(y)];
  const ownX = dot(u, u);
  const ownY = dot(v, v);
  // Hoeffding (1951): Σ u² Σ v² / (n − 1) for Σ u_i v_π(i)
  return { cross: dot(u, v), ownX, ownY, variance: (ownX * ownY) / (n - 1) };
}

/** The same of ranks inside the trace, divided by their number: a trace counts by its length, not by its cube. */
export function spearmanSums(x: Float64Array, y: Float64Array): Sums {
  const n = x.length;
  const scaled = (values: Float64Array) => midranks(values).map((rank) => rank / n);
  return pearsonSums(scaled(x), scaled(y));
}

/**
 * Kendall's τ_b: concordant less discordant pairs, and the pairs without a tie on either side.
 * The variance with ties is Kendall's (Rank Correlation Methods, 1970, ch. 5).
 */
export function kendallSums(x: Float64Array, y: Float64Array): Sums {
  const n = x.length;
  if (n < 2) return NOTHING;
  let cross = 0;
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++)
      cross +=
        Math.sign((x[j] as number) - (x[i] as number)) * Math.sign((y[j] as number) - (y[i] as number));
  const [t, u] = [tieCounts(x), tieCounts(y)];
  const sum = (counts: readonly number[], term: (m: number) => number) =>
    counts.reduce((all, m) => all + term(m), 0);
  const pairs = (m: number) => m * (m - 1);
  const triples = (m: number) => m * (m - 1) * (m - 2);
  const spread = (m: number) => m * (m - 1) * (2 * m + 5);
  const single = (spread(n) - sum(t, spread) - sum(u, spread)) / 18;
  const both = (sum(t, pairs) * sum(u, pairs)) / (2 * pairs(n));
  const three = n < 3 ? 0 : (sum(t, triples) * sum(u, triples)) / (9 * triples(n));
  return {
    cross,
    ownX: (pairs(n) - sum(t, pairs)) / 2,
    ownY: (pairs(n) - sum(u, pairs)) / 2,
    variance: single + both + three,
  };
}

function centred(values: Float64Array): Float64Array {
  const first = values[0] as number;
  if (values.every((value) => value === first)) return new Float64Array(values.length);
  let mean = 0;
  for (const value of values) mean += value / values.length;
  return values.map((value) => value - mean);
}

function dot(u: Float64Array, v: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < u.length; i++) sum += (u[i] as number) * (v[i] as number);
  return sum;
}

/** 1 for the smallest; equal ones get the mean of the ranks they take. */
export function midranks(values: Float64Array): Float64Array {
  const n = values.length;
  // numbers alone are sorted many times faster than places by their numbers, and a search finds the place again
  const sorted = values.slice().sort();
  const means = new Float64Array(n); // where a value begins, its rank
  for (let from = 0, to = 0; from < n; from = to) {
    const value = sorted[from];
    for (to = from + 1; to < n && sorted[to] === value; ) to++;
    means[from] = (from + to + 1) / 2;
  }
  return values.map((value) => means[placeOf(sorted, value)] as number);
}

/** Where a value of a sorted list begins. */
function placeOf(sorted: Float64Array, value: number): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((sorted[middle] as number) < value) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** How many values each group of equal ones has. */
function tieCounts(values: Float64Array): number[] {
  const sorted = values.slice().sort();
  const counts: number[] = [];
  for (let from = 0, to = 0; from < sorted.length; from = to) {
    for (to = from + 1; to < sorted.length && sorted[to] === sorted[from]; ) to++;
    counts.push(to - from);
  }
  return counts;
}

/** P(|Z| ≥ |z|) of a standard normal Z, to a relative 1e-12. */
export function twoSided(z: number): number {
  return erfc(Math.abs(z) / Math.SQRT2);
}

/** erfc(x), x ≥ 0: its series where that is short, else its continued fraction (DLMF 7.6.2 and 7.9.3). */
function erfc(x: number): number {
  if (x < 2) {
    // erf(x) = 2/√π e^{-x²} Σ 2ⁿ x^{2n+1} / (1·3·…·(2n+1))
    let term = x;
    let sum = x;
    for (let n = 1; term > sum * 1e-17; n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return 1 - (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  }
  // x + (1/2)/(x + 1/(x + (3/2)/(x + …))), from the inside
  let fraction = x;
  for (let n = 120; n >= 1; n--) fraction = x + n / 2 / fraction;
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * fraction);
}
