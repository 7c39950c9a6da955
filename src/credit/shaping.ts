// What is done to segments' σ on its way to tokens (METHOD §4).
import { segmentLength } from './rules.js';

/**
 * `--smooth n`: σ averaged over each segment and its n neighbours on either side. Between two segments of n_j and n_k tokens
 * flows n_j n_k / max(N_j, N_k) of the difference of their tokens' σ, where N is the length of a segment's window: the plain
 * mean of the window for segments of one length. It flows both ways alike, so that Σσ stays 1; uniform σ stays uniform, and
 * what is not negative stays so.
 * @param perSegment (K) σ of one token of each segment
 */
export function smoothed(perSegment: Float64Array, ends: Int32Array, n: number): Float64Array {
  if (n === 0) return perSegment;
  const K = ends.length;
  const start = (k: number) => (k <= 0 ? 0 : (ends[k - 1] as number));
  const windowLength = (k: number) => (ends[Math.min(K - 1, k + n)] as number) - start(k - n);
  const result = perSegment.slice();
  for (let j = 0; j < K; j++)
    for (let k = j + 1; k <= Math.min(K - 1, j + n); k++) {
      const [nj, nk] = [segmentLength(ends, j), segmentLength(ends, k)];
      const weight = (nj * nk) / Math.max(windowLength(j), windowLength(k));
      const flow = weight * ((perSegment[k] as number) - (perSegment[j] as number));
      result[j] = (result[j] as number) + flow / nj;
      result[k] = (result[k] as number) - flow / nk;
    }
  return result;
}

/**
 * m_t of each token, of mean 1 in its segment: 1; ∝ H_t (`entropy`); ∝ 1 − p_t (`unsure`). 1 where a segment has none of that.
 * @param ends (K) segment ends, exclusive
 * @param entropies (T) nats
 * @param logprobs (T) nats
 */
export function tokenWeights(
  { ends, entropies, logprobs }: { ends: Int32Array; entropies: Float32Array; logprobs: Float32Array },
  within: 'uniform' | 'entropy' | 'unsure',
): Float64Array {
  const weights = new Float64Array(ends[ends.length - 1] as number).fill(1);
  if (within === 'uniform') return weights;
  for (const t of weights.keys())
    weights[t] =
      within === 'entropy' ? Math.max(0, entropies[t] as number) : unsureness(logprobs[t] as number);
  let start = 0;
  for (const end of ends) {
    const own = weights.subarray(start, end);
    const mean = own.reduce((sum, weight) => sum + weight, 0) / own.length;
    for (const i of own.keys()) own[i] = mean === 0 ? 1 : (own[i] as number) / mean;
    start = end;
  }
  return weights;
}

/** 1 − p of a token. @param logprob nats; rounding makes it a little more than 0, and an entropy a little less */
export function unsureness(logprob: number): number {
  return Math.max(0, -Math.expm1(logprob));
}

/**
 * σ_t = (1−λ) m_t · σ of one token of its segment + λ/T.
 * @param perSegment (K) @param weights (T) of {@link tokenWeights} @param even λ, spread over all tokens alike
 * @param cap largest σ_t·T, before what is above it is spread over all tokens alike
 */
export function spread(
  perSegment: Float64Array,
  ends: Int32Array,
  weights: Float64Array,
  even = 0,
  cap = Number.POSITIVE_INFINITY,
): Float32Array {
  const T = weights.length;
  const sigma = new Float64Array(T);
  let start = 0;
  for (const [k, end] of ends.entries()) {
    for (let t = start; t < end; t++)
      sigma[t] = (1 - even) * (weights[t] as number) * (perSegment[k] as number) + even / T;
    start = end;
  }
  const cut = sigma.map((s) => Math.max(0, s - cap / T));
  const rest = cut.reduce((sum, c) => sum + c, 0) / T;
  return Float32Array.from(sigma, (s, t) => s - (cut[t] as number) + rest);
}
