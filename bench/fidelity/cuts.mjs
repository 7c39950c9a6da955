// Values at every token of a thought in, how much of their credit a cut into few segments keeps, and the best cut there is, out.

/**
 * A thought's value before and after each of its tokens, from the exits at which it was sampled: between two of them the policy was
 * sure of every token but the first, so a boundary has the value of the next exit behind it.
 * @param ends (E) boundaries of the exits, rising, the first one the thought's start, the last one its end
 * @param values (E) of them
 * @returns (n+1)
 */
export function valueCurve(ends, values) {
  const [start, end] = [ends[0], ends.at(-1)];
  const curve = new Float64Array(end - start + 1);
  for (let t = start, k = 0; t <= end; t++) {
    while (ends[k] < t) k++;
    curve[t - start] = values[k];
  }
  return curve;
}

/**
 * The product of two credits, each spread evenly inside the segments of a cut: Σ over segments of Δ·Δ'/n. With segments of
 * one token it is that of the credits themselves; of a credit with itself, the part of Σ_t Δ_t² that the cut keeps. Where the two curves
 * have independent noise, its expectation has none.
 * @param curve, other (n+1)
 * @param cuts rising boundaries from 1 to n, the last one n
 */
export function kept(curve, other, cuts) {
  let [sum, from] = [0, 0];
  for (const to of cuts) {
    sum += ((curve[to] - curve[from]) * (other[to] - other[from])) / (to - from);
    from = to;
  }
  return sum;
}

/** The cut into at most K segments that keeps most of a curve's own credit, by dynamic programming over all boundaries. */
export function bestCut(curve, K) {
  const n = curve.length - 1;
  const most = Math.min(K, n);
  // best[k][t]: what k segments keep of the first t tokens
  let best = Float64Array.from({ length: n + 1 }, (_, t) => (t === 0 ? 0 : Number.NEGATIVE_INFINITY));
  const before = [];
  for (let k = 1; k <= most; k++) {
    const next = new Float64Array(n + 1).fill(Number.NEGATIVE_INFINITY);
    const from = new Int32Array(n + 1);
    for (let t = k; t <= n; t++)
      for (let s = k - 1; s < t; s++) {
        const gain = best[s] + (curve[t] - curve[s]) ** 2 / (t - s);
        if (gain > next[t]) [next[t], from[t]] = [gain, s];
      }
    best = next;
    before.push(from);
  }
  const cuts = [];
  for (let k = most, t = n; k > 0; k--) {
    cuts.unshift(t);
    t = before[k - 1][t];
  }
  return cuts;
}

/** Completions are dealt out to so many curves, each of which has noise of its own. */
export const QUARTERS = [0, 1, 2, 3];

/**
 * What cuts of one thought keep of its token-wise credit.
 * @param curves (4) by quarters of its completions
 * @param cutsOf cuts by the two quarters that may be looked at to find them; what they keep is that of the other two, summed over all
 * choices
 * @returns [kept, all there is]
 */
export function keptOf(curves, cutsOf) {
  const everyToken = Array.from({ length: curves[0].length - 1 }, (_, t) => t + 1);
  let [part, all] = [0, 0];
  for (const a of QUARTERS)
    for (const b of QUARTERS.slice(a + 1)) {
      const [c, d] = QUARTERS.filter((q) => q !== a && q !== b);
      part += kept(curves[c], curves[d], cutsOf(a, b));
      all += kept(curves[c], curves[d], everyToken);
    }
  return [part, all];
}

/**
 * How the credit that a cut and weights inside its segments give to tokens goes with the token-wise one. Even weights make of it what
 * {@link kept} says.
 * @param curve, other (n+1) with independent noise
 * @param weights (n) of mean 1 in each segment
 * @returns [along, own]: products of the given credit with the token-wise one, and with itself; along² / own is the part of Σ_t Δ_t² kept
 */
export function keptWithin(curve, other, cuts, weights) {
  let [along, own, from] = [0, 0, 0];
  for (const to of cuts) {
    const step = (curve[to] - curve[from]) / (to - from);
    const step2 = (other[to] - other[from]) / (to - from);
    for (let t = from; t < to; t++) {
      along += step * weights[t] * (other[t + 1] - other[t]);
      own += step * step2 * weights[t] ** 2;
    }
    from = to;
  }
  return [along, own];
}
