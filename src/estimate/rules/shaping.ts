// What is done to values before they are told apart, to differences before they are shared out, and to σ after (METHOD §3, §4).
import { segmentLength } from './per-segment.js';

/**
 * `--lambda`: a backward sweep v_k ← (1−λ) v̂_k + λ v_{k+1}, with v_{K+1} = ζ, as TD(λ) mixes the outcome in.
 * @param values (K+1) v̂(s_0..K)
 */
export function swept(values: Float32Array, reward: number | null, lambda: number): Float64Array {
  const mixed = Float64Array.from(values);
  if (lambda === 0 || reward === null) return mixed;
  let next = reward;
  for (let k = mixed.length - 1; k >= 0; k--) {
    next = (1 - lambda) * (mixed[k] as number) + lambda * next;
    mixed[k] = next;
  }
  return mixed;
}

/** `--penalty`: a factor on the differences of segments that lowered the value. */
export function penalised(deltas: Float64Array, penalty: number): Float64Array {
  return penalty === 1 ? deltas : deltas.map((delta) => (delta < 0 ? penalty * delta : delta));
}

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

/** σ_t = m_t · σ of the segment's tokens; m_t is 1, or H_t over the segment's mean H (1 where that is 0). */
export function spread(
  perSegment: Float64Array,
  ends: Int32Array,
  entropies: Float32Array,
  within: 'uniform' | 'entropy',
): Float32Array {
  const sigma = new Float32Array(ends[ends.length - 1] as number);
  let start = 0;
  for (let k = 0; k < ends.length; k++) {
    const end = ends[k] as number;
    let total = 0;
    for (let t = start; t < end; t++) total += entropies[t] as number;
    const mean = total / (end - start);
    for (let t = start; t < end; t++) {
      const m = within === 'uniform' || mean === 0 ? 1 : (entropies[t] as number) / mean;
      sigma[t] = m * (perSegment[k] as number);
    }
    start = end;
  }
  return sigma;
}
