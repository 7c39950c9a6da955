/** Scores one trace in float64 by METHOD 1 to 4: entropies, segments, values at the exits, differences, σ. */
import {
  continuationLogprobs,
  extend,
  fork,
  logSumExp,
  type OracleModel,
  type State,
  tokenStats,
} from './llama.js';
import { hybridSegments, type Span } from './segment.js';
import { computeSigma, type SigmaOptions, type SigmaResult, type SigmaRule } from './sigma.js';

export type Estimator = 'pr' | 'pr-mean' | 'pr-geo' | 'joint' | 'joint-log' | 'snis';

export interface Reference {
  answerIds: readonly number[]; // y
  solutionIds?: readonly number[]; // u, read by `joint` alone
  utility?: number; // ζ_n, 1 by default
}

/** Token ids of the exit template's parts, each tokenised apart. */
export type ExitTemplate = { close: readonly number[]; open: readonly number[]; closer: readonly number[] };

// ------ the reference set and the estimators

/** The reference set: identical (y, u) count once, with the largest utility; only `joint` has a u. */
export function distinctReferences(
  references: readonly Reference[],
  estimator: Estimator,
): Required<Reference>[] {
  const distinct = new Map<string, Required<Reference>>();
  for (const { answerIds, solutionIds = [], utility = 1 } of references) {
    const entry = { answerIds, solutionIds: isWhole(estimator) ? solutionIds : [], utility };
    const key = `${entry.answerIds}|${entry.solutionIds}`;
    if (utility > (distinct.get(key)?.utility ?? Number.NEGATIVE_INFINITY)) distinct.set(key, entry);
  }
  return [...distinct.values()];
}

/** One reference's utility and the log-probabilities of its scored tokens at one exit. */
export interface ScoredReference {
  utility: number;
  logprobs: ArrayLike<number>; // (scored tokens)
}

/** log v̂ of (3): log Σ_n ζ_n Π_i p_i; the value of `pr` and `joint`, which differ in what is scored. */
export function logValue(scored: readonly ScoredReference[]): number {
  return logSumExp(scored.map(({ utility, logprobs }) => Math.log(utility) + sum(logprobs)));
}

/** `pr-mean`: the largest ζ·mean_i p_i. */
export function meanValue(scored: readonly ScoredReference[]): number {
  return Math.max(
    0,
    ...scored.map(
      ({ utility, logprobs }) => (utility * sum(Array.from(logprobs, Math.exp))) / logprobs.length,
    ),
  );
}

/** `pr-geo`: the largest ζ·exp(mean_i log p_i). */
export function geometricValue(scored: readonly ScoredReference[]): number {
  return Math.max(
    0,
    ...scored.map(({ utility, logprobs }) => utility * Math.exp(sum(logprobs) / logprobs.length)),
  );
}

/** `snis`: Σ p_n ζ_n / Σ p_n. */
export function contrastValue(scored: readonly ScoredReference[]): number {
  if (scored.length === 0) return 0;
  // the largest is taken out, or all may underflow
  const largest = Math.max(...scored.map(({ logprobs }) => sum(logprobs)));
  const p = scored.map(({ logprobs }) => Math.exp(sum(logprobs) - largest));
  return sum(scored.map(({ utility }, n) => utility * (p[n] as number))) / sum(p);
}

const isWhole = (estimator: Estimator) => estimator === 'joint' || estimator === 'joint-log';

/** v̂ at the state's end, log v̂ for `joint` and `joint-log`. */
export function valueAt(
  model: OracleModel,
  state: State,
  estimator: Estimator,
  references: readonly Reference[],
  { close, open, closer }: ExitTemplate,
): number {
  const distinct = distinctReferences(references, estimator);
  if (isWhole(estimator)) {
    return logValue(
      distinct.map(({ answerIds, solutionIds, utility }) => {
        const ids = [...close, ...solutionIds, ...open, ...answerIds, ...closer];
        return { utility, logprobs: continuationLogprobs(model, state, asserted(ids)) };
      }),
    );
  }
  const asked = fork(state);
  extend(model, asked, [...close, ...open]); // conditioned on, not scored
  const scored = distinct.map(({ answerIds, utility }) => {
    return { utility, logprobs: continuationLogprobs(model, asked, asserted([...answerIds, ...closer])) };
  });
  if (estimator === 'pr') return Math.exp(logValue(scored));
  return { 'pr-mean': meanValue, 'pr-geo': geometricValue, snis: contrastValue }[
    estimator as 'pr-mean' | 'pr-geo' | 'snis'
  ](scored);
}

function asserted(ids: number[]): number[] {
  if (ids.length === 0) throw new Error('an exit without a scored token');
  return ids;
}

function sum(numbers: ArrayLike<number>): number {
  let total = 0;
  for (let i = 0; i < numbers.length; i++) total += numbers[i] as number;
  return total;
}

/** Δ_k = v̂(s_k) − v̂(s_{k−1}), k = 1..K; of log v̂ for `joint-log`; `joint` takes log v̂ and scales to Σ|Δ| = |R*|. */
export function differences(values: readonly number[], estimator: Estimator, advantage: number): number[] {
  const step = (v: readonly number[]) => v.slice(1).map((value, k) => value - (v[k] as number));
  if (estimator !== 'joint') return step(values);
  const largest = Math.max(...values);
  if (largest === Number.NEGATIVE_INFINITY) return values.slice(1).map(() => 0);
  const deltas = step(values.map((value) => Math.exp(value - largest)));
  const spread = sum(deltas.map(Math.abs));
  return deltas.map((delta) => (spread === 0 ? 0 : (delta * Math.abs(advantage)) / spread));
}

// ------ a whole trace

export interface TraceInput extends SigmaOptions {
  promptIds: readonly number[]; // at least one
  completionIds: readonly number[]; // (|o|)
  text: string; // of the completion
  spans: readonly Span[]; // (|o|)
  references: readonly Reference[];
  template: ExitTemplate;
  reward: number | null;
  baseline: number;
  maxSegments?: number; // 40
  estimator?: Estimator; // pr
  rule?: SigmaRule; // share
  /** thought segments' ends in place of the segmentation, to compare values alone */
  thoughtEnds?: readonly number[];
}

export interface TraceScore extends SigmaResult {
  logprobs: Float64Array; // (|o|)
  entropies: Float64Array; // (|o|) nats
  segmentEnds: number[]; // (K or K+1) token index, exclusive, the answer segment included
  exits: number[]; // (K+1) tokens of the completion before exit k
  values: number[]; // (K+1) v̂(s_0..K); log v̂ for `joint`
  deltas: number[]; // (K), scaled for `joint`
}

export function scoreTrace(model: OracleModel, input: TraceInput): TraceScore {
  const { promptIds, completionIds, text, spans, references, template, reward, baseline } = input;
  const { estimator = 'pr', rule = 'share', maxSegments = 40 } = input;
  const total = completionIds.length;
  if (promptIds.length === 0) throw new Error('the first completion token needs a prompt before it');
  if (spans.length !== total) throw new Error(`${spans.length} spans for ${total} completion tokens`);

  const stats = tokenStats(model, [...promptIds, ...completionIds]);
  const logprobs = stats.logprobs.slice(promptIds.length);
  const entropies = stats.entropies.slice(promptIds.length);

  const cut = hybridSegments(text, spans, entropies, maxSegments);
  const thoughtEnds = [...(input.thoughtEnds ?? cut.segmentEnds)];
  const thoughtEnd = input.thoughtEnds ? (thoughtEnds.at(-1) ?? 0) : cut.thoughtEnd;
  const segmentEnds = thoughtEnd < total ? [...thoughtEnds, total] : thoughtEnds;

  const exits = [cut.exit0, ...thoughtEnds];
  if (exits.some((exit, k) => exit > total || exit < (exits[k - 1] ?? 0))) {
    throw new Error(`exits ${exits} do not ascend within ${total} tokens`);
  }
  const values = exits.map((exit) => {
    return valueAt(model, fork(stats.state, promptIds.length + exit), estimator, references, template);
  });

  const deltas = differences(values, estimator, reward === null ? 0 : reward - baseline);
  const found = {
    ...{ segmentEnds, deltas, values, entropies, reward, baseline },
    ...{ logarithmic: isWhole(estimator), logSteps: estimator === 'joint-log' },
  };
  const sigma = computeSigma(rule, found, input);
  return { logprobs, entropies, segmentEnds, exits, values, deltas, ...sigma };
}
