// Values are a martingale under the policy: what it was sure to write cannot have changed them (METHOD §3, `--steps`).
import { sum } from './rules.js';

/**
 * Values and their differences (K) where a segment cannot have changed more than 1 − π_k: `scaled`, Δ_k (1 − π_k), with the values as
 * they are; `smoothed`, the differences of {@link smoothedValues}.
 * @param values (K+1)
 */
export function boundedSteps(values: Float64Array, written: WrittenSegments, steps: 'scaled' | 'smoothed') {
  const pi = certainty(written, values.length - 1);
  const own = steps === 'smoothed' ? smoothedValues(values, pi) : values;
  const deltas = pi.map((p, k) => {
    return ((own[k + 1] as number) - (own[k] as number)) * (steps === 'scaled' ? 1 - p : 1);
  });
  return { values: own, deltas, unsure: pi.map((p) => 1 - p) };
}

/** What stands between the states, of the policy's own tokens alone. */
export interface WrittenSegments {
  /** (K or K+1) segment ends, exclusive */
  readonly ends: Int32Array;
  /** (T) nats; read by `surprise`, and where `within` is `unsure` or `steps` not `free` */
  readonly logprobs: Float32Array;
  /** (K or K+1) whether what the policy was shown stands between a segment and its state: nobody could be sure of that */
  readonly shownBehind?: readonly boolean[];
}

/** (K) π(u_k | s_{k−1}) of each thought segment: how likely the policy was to write just this. An opening tag is of the first. */
export function certainty({ ends, logprobs, shownBehind }: WrittenSegments, K: number): Float64Array {
  return Float64Array.from({ length: K }, (_, k) => {
    if (shownBehind?.[k]) return 0;
    const own = logprobs.subarray(k === 0 ? 0 : ends[k - 1], ends[k]);
    return Math.min(1, Math.exp(sum(own))); // rounding makes a certain token's log-probability a little more than 0
  });
}

/** Values that the smoother tells apart, at the middles of so many equal parts of 0..1. */
const GRID = 101;
const LEVELS = Float64Array.from({ length: GRID }, (_, i) => (i + 0.5) / GRID);
const LOGITS = LEVELS.map((p) => Math.log(p / (1 - p)));
/** Standard deviation of a step behind a segment that could not be foreseen, and of one that could. */
const [FREE_STEP, SURE_STEP] = [0.6, 0.01];
/** Standard deviation of an estimate's logit about the value's, and where completions stand beside it (chosen in lab/truth, of .5 to 5). */
const [ESTIMATE, ESTIMATE_BESIDE] = [1, 2];

/**
 * (K+1) The mean of each value given all estimates of the trace: a hidden walk on a grid, whose k-th step is normal with standard
 * deviation .6 (1 − π_k) + .01, seen through estimates whose logits are normal about its own, by a forward and a backward
 * pass. The outcome is not looked at: on held-out groups it changed nothing.
 * @param values (K+1) estimates of V(s_0..K), in 0..1
 * @param pi (K) of {@link certainty}
 * @param outcomes (K+1) a further sight of each: Σζ of so many completions from the state, whose chance is V^Σζ (1 − V)^(n − Σζ)
 */
export function smoothedValues(
  values: ArrayLike<number>,
  pi: Float64Array,
  outcomes: readonly (readonly [right: number, count: number])[] = [],
): Float64Array {
  const K = pi.length;
  const off = outcomes.length > 0 ? ESTIMATE_BESIDE : ESTIMATE;
  const seen = Array.from(values, (value, k) => times(emission(value, off), likelihood(outcomes[k])));
  const steps = Array.from(pi, (p) => stepKernel(FREE_STEP * (1 - p) + SURE_STEP));
  // (K+1, GRID) chances of what is seen before each state, and of what is seen from it on
  const before: Float64Array[] = [new Float64Array(GRID).fill(1)];
  for (let k = 0; k < K; k++) {
    const at = times(before[k] as Float64Array, seen[k] as Float64Array);
    before.push(normalised(carried(at, steps[k] as Float64Array, 'forward')));
  }
  const smooth = new Float64Array(K + 1);
  let after = new Float64Array(GRID).fill(1);
  for (let k = K; k >= 0; k--) {
    const from = times(after, seen[k] as Float64Array);
    const posterior = normalised(times(from, before[k] as Float64Array));
    smooth[k] = posterior.reduce((mean, p, i) => mean + (p / SUM) * (LEVELS[i] as number), 0);
    if (k > 0) after = normalised(carried(from, steps[k - 1] as Float64Array, 'backward'));
  }
  return smooth;
}

/** (GRID) chance of an estimate at each value, the most likely 1. @param off of {@link ESTIMATE} */
function emission(value: number, off: number): Float64Array {
  const nearest = Math.min(Math.max(value, LEVELS[0] as number), LEVELS[GRID - 1] as number);
  const logit = Math.log(nearest / (1 - nearest));
  return LOGITS.map((own) => Math.exp(-0.5 * ((logit - own) / off) ** 2));
}

/** (GRID) the same of completions; however many there are, they leave e^−150 to the least likely value. */
function likelihood([right, count]: readonly [number, number] = [0, 0]): Float64Array {
  const logs = LEVELS.map((p) => right * Math.log(p) + (count - right) * Math.log1p(-p));
  const most = logs.reduce((a, b) => Math.max(a, b));
  return logs.map((own) => Math.exp(Math.max(own - most, -150)));
}

/** (GRID, GRID) chance of a step from one value (row) to another; each row sums to 1. */
function stepKernel(deviation: number): Float64Array {
  // by distance, of which there are few
  const near = Float64Array.from({ length: GRID }, (_, d) => Math.exp(-0.5 * (d / GRID / deviation) ** 2));
  const kernel = new Float64Array(GRID * GRID);
  for (let i = 0; i < GRID; i++) {
    let total = 0;
    for (let j = 0; j < GRID; j++) total += near[Math.abs(i - j)] as number;
    for (let j = 0; j < GRID; j++) kernel[i * GRID + j] = (near[Math.abs(i - j)] as number) / total;
  }
  return kernel;
}

/** `forward`: Σ_i p_i kernel(i, j) for each j; `backward`: Σ_j kernel(i, j) p_j for each i. */
function carried(p: Float64Array, kernel: Float64Array, way: 'forward' | 'backward'): Float64Array {
  const sums = new Float64Array(GRID);
  for (let i = 0; i < GRID; i++)
    for (let j = 0; j < GRID; j++) {
      const [from, to] = way === 'forward' ? [i, j] : [j, i];
      sums[to] = (sums[to] as number) + (p[from] as number) * (kernel[i * GRID + j] as number);
    }
  return sums;
}

function times(a: Float64Array, b: Float64Array): Float64Array<ArrayBuffer> {
  return a.map((x, i) => x * (b[i] as number));
}

/** What chances sum to, none of them 0: the product of two that are next to none is a number all the same. */
const SUM = 2 ** 500;

function normalised(p: Float64Array): Float64Array<ArrayBuffer> {
  const total = p.reduce((sum, x) => sum + x, 0);
  return p.map((x) => (x / total) * SUM + 2 ** -300);
}
