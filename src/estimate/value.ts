// Values of a trace's states from the log-probabilities of its references (METHOD §3).
import { TraceRejected } from '../errors.js';
import type { Nature, StoredBank } from './nature.js';

/** What one reference scored at one exit point: log-probabilities of its scored tokens, nats. */
export type TokenLogprobs = Float32Array;

/** Σ_n ζ_n · exp(Σ_i log p(y_n,i)): METHOD eq. (3) with u empty. */
export function rightNow(bank: StoredBank): number {
  return weighted(bank).reduce((total, logWeight) => total + Math.exp(logWeight), 0);
}

/** max_n ζ_n · exp(mean_i log p(y_n,i)) */
export function geometricMean({ logprobs, tokens, utilities }: StoredBank): number {
  return logprobs.reduce(
    (best, lp, n) => Math.max(best, (utilities[n] as number) * Math.exp(lp / (tokens[n] as number))),
    0,
  );
}

/** log Σ_n ζ_n · p(u_n, y_n | s): METHOD eq. (3) in full. */
export function logJoint(bank: StoredBank): number {
  return logSumExp(weighted(bank));
}

/** Σ_n p_n ζ_n / Σ_n p_n, over right and wrong answers. */
export function contrast(bank: StoredBank): number {
  const { logprobs } = bank;
  return logprobs.length === 0 ? 0 : Math.exp(logSumExp(weighted(bank)) - logSumExp([...logprobs]));
}

/** max_n ζ_n · mean_i p(y_n,i): RLPR's reading. @param logprobs (N) of each reference's tokens */
export function arithmeticMean(logprobs: readonly TokenLogprobs[], utilities: Float32Array): number {
  return logprobs.reduce((best, lp, n) => Math.max(best, (utilities[n] as number) * meanProbability(lp)), 0);
}

/** (N) log ζ_n p_n; −∞ where ζ_n = 0 */
function weighted({ logprobs, utilities }: StoredBank): number[] {
  return Array.from(logprobs, (lp, n) => lp + Math.log(utilities[n] as number));
}

/**
 * v̂(s) of one state; its logarithm where values are logarithms. Where it follows from what a row stores it is computed from that
 * alone, so that a file gives it again bit for bit.
 * @param logprobs (N) token log-probabilities of each reference of the bank
 * @param utilities (N) ζ_n in [0, 1]
 */
export function stateValue(
  logprobs: readonly TokenLogprobs[],
  utilities: Float32Array,
  { name, fromStored, fromTokens }: Nature,
): number {
  const stored = { logprobs: summedLogprobs(logprobs), tokens: tokenCounts(logprobs), utilities };
  const value = fromStored?.(stored) ?? fromTokens?.(logprobs, utilities);
  if (value === undefined) throw new Error(`${name} has no value of references`);
  return value;
}

/** A trace's values; N references at K+1 exit points. */
export interface TraceValues {
  /** (K+1) v̂(s_k); log v̂ for `joint` and `joint-log` */
  readonly values: Float32Array;
  /** V(s_0) for a baseline, where `values` have the trace's own outcome in them */
  readonly start?: number;
  /** what the columns hold that come with the values, by name */
  readonly columns?: Readonly<Record<string, unknown>>;
  /** what the user should know of the values: status codes */
  readonly status?: readonly string[];
  /** (K+1) of (N) summed log-probabilities, nats */
  readonly referenceLogprobs: readonly Float32Array[];
  /** (N) scored tokens */
  readonly referenceTokens: Int32Array;
}

/**
 * Values of all states of a trace, as they are stored (float32).
 * @param branches (K+1) of (N) token log-probabilities
 */
export function traceValues(
  branches: readonly (readonly TokenLogprobs[])[],
  utilities: Float32Array,
  nature: Nature,
): TraceValues {
  const values = Float32Array.from(branches, (logprobs) => stateValue(logprobs, utilities, nature));
  return { values, ...scoredReferences(branches) };
}

/** What is stored of the references that were scored. @param branches as of {@link traceValues} */
export function scoredReferences(
  branches: readonly (readonly TokenLogprobs[])[],
): Omit<TraceValues, 'values'> {
  return {
    referenceLogprobs: branches.map(summedLogprobs),
    referenceTokens: tokenCounts(branches[0] ?? []),
  };
}

/**
 * Values that the row brings along (`given`).
 * @param exits K+1
 * @throws TraceRejected (`values`) where there are none, not one for every exit, or one that is no expected reward on 0..1
 */
export function givenValues(given: Float32Array | undefined, exits: number): Float32Array {
  if (given === undefined)
    throw new TraceRejected(
      'values',
      'no list of finite numbers in the row, expected one for every exit point, for --estimator given: --map values=<path> takes it from another column, or tells what is wrong with this one',
    );
  if (given.length !== exits)
    throw new TraceRejected(
      'values',
      `values has ${given.length} entries, the trace has ${exits} exit points, expected as many: --segmenter given cuts it where the values were taken (--map segment_ends=<path>)`,
    );
  // on another scale V(s_0) as the baseline would turn the sign of R* round
  const outside = given.findIndex((value) => !(value >= 0 && value <= 1));
  if (outside >= 0)
    throw new TraceRejected(
      'values',
      `values[${outside}] is ${given[outside]}, expected 0 to 1, an expected reward on the scale onto which --reward-range maps rewards`,
    );
  return given;
}

/** Of values for which no reference is scored. @param exits K+1 */
export function noReferences(exits: number): Omit<TraceValues, 'values'> {
  const referenceLogprobs = Array.from({ length: exits }, () => new Float32Array(0));
  return { referenceLogprobs, referenceTokens: new Int32Array(0) };
}

/** Σ_i log p(y_n,i) of every reference: the row of `reference_logprobs` for one exit point. */
export function summedLogprobs(logprobs: readonly TokenLogprobs[]): Float32Array {
  return Float32Array.from(logprobs, sum);
}

/** (N) scored tokens of every reference, the same at all exits. */
function tokenCounts(logprobs: readonly TokenLogprobs[]): Int32Array {
  return Int32Array.from(logprobs, ({ length }) => length);
}

/** log Σ exp(x), stable; −∞ for nothing but −∞. */
export function logSumExp(x: readonly number[]): number {
  const largest = x.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  if (largest === Number.NEGATIVE_INFINITY) return largest;
  return largest + Math.log(x.reduce((total, value) => total + Math.exp(value - largest), 0));
}

function sum(x: Float32Array): number {
  return x.reduce((total, value) => total + value, 0);
}

function meanProbability(logprobs: Float32Array): number {
  return logprobs.reduce((total, lp) => total + Math.exp(lp), 0) / logprobs.length;
}
