// Values of `loo`: a segment counts for what the answer's log-probability loses without it, for which the policy reads the rest of the thought again.
import { OutOfMemoryError, TraceRejected } from '../errors.js';
import { sharingRoom, sizeOf } from '../model/onnx/layout.js';
import { type Branch, nextKept } from '../model/onnx/placed.js';
import type { ModelSession, TraceScores } from '../model/onnx/session.js';
import { type BadRow, eachTrace } from '../rows.js';
import { joinIds, type Suffix } from './references.js';
import { assertPossible, branchAt, ImpossibleNumberError } from './run-batch.js';
import { BATCH_ROWS } from './strategy.js';
import { logSumExp, scoredReferences, summedAttributions } from './value.js';
import { impossible, type PassJob, type ScoredJob, type Valued } from './windows.js';

/** Values of every trace; rejected ones pass by in their place. @throws RredcotError (exit 65) for numbers that cannot be */
export function deletionValues<T extends PassJob>(
  scored: AsyncIterable<ScoredJob<T> | BadRow>,
  session: KeepsTrunks & Parameters<typeof impossible>[2],
  loo: Loo,
): AsyncGenerator<Valued<T> | BadRow> {
  return eachTrace(scored, async ({ job, trace, result }) => {
    const { branches, segmentation } = result;
    const { promptIds, completionIds, continuations } = job;
    const read = { promptIds, completionIds, exits: segmentation.exits, continuations };
    const last = branches[branches.length - 1] ?? [];
    const attributions = await leaveOneOut(session, read, last, loo).catch((error: unknown) => {
      throw error instanceof ImpossibleNumberError ? impossible(trace, error, session) : error;
    });
    return {
      ...{ job, trace, result },
      values: { ...scoredReferences(branches), values: summedAttributions(attributions) },
    };
  });
}

/**
 * What a trace is without a segment:
 * - `deleted`: what follows moves up, as if the segment had never been written
 * - `masked`: it stays where it is and nothing after it sees the segment
 */
export type Loo = 'deleted' | 'masked';

/** A trace whose segments are left out; K thought segments. */
export interface Ablated extends Pick<PassJob, 'promptIds' | 'completionIds' | 'continuations'> {
  /** (K+1) exit points, in tokens of the completion */
  readonly exits: Int32Array;
}

/** What reads branches on a trunk. */
export type KeepsTrunks = Pick<ModelSession, 'keepTrunks' | 'branches' | 'release'> &
  Partial<Pick<ModelSession, 'vocab'>>;

/** φ = log Σ_n ζ_n p(y_n); −∞ where no reference earns anything. @param logprobs (N) token log-probabilities of each reference */
export function answerLogprob(logprobs: readonly Float32Array[], continuations: readonly Suffix[]): number {
  return logSumExp(
    logprobs.map((own, n) => own.reduce((sum, lp) => sum + lp, Math.log(continuations[n]?.utility ?? 0))),
  );
}

/**
 * The thought after segment k, the exit template and each reference, as branches before segment k: a branch sees the trunk
 * before its exit, and itself.
 * @param k from 1
 * @returns (N)
 */
export function withoutSegment(trace: Ablated, k: number, loo: Loo): Branch[] {
  const { promptIds, completionIds, exits, continuations } = trace;
  const [before, after] = [exits[k - 1] as number, exits[k] as number];
  const rest = completionIds.subarray(after, exits[exits.length - 1]);
  const ids = joinIds(promptIds, completionIds.subarray(0, before));
  return continuations.map(({ ids: suffix, scoredFrom, utility }) => {
    const whole = { ids: joinIds(rest, suffix), scoredFrom: rest.length + scoredFrom, utility };
    const branch = branchAt(ids, ids.length, whole);
    // a token that comes along from before the segment keeps its place
    const first = ids.length - branch.exit;
    return loo === 'masked' ? { ...branch, gap: { before: first, tokens: after - before } } : branch;
  });
}

/**
 * a_k = φ(all) − φ(without u_k), at the end of the thought.
 * @param logprobs (N) of each reference's scored tokens after the whole thought
 * @returns (K) nats; 0 for all where no reference earns anything
 * @throws TraceRejected (`out_of_memory`), ImpossibleNumberError
 */
export async function leaveOneOut(
  session: KeepsTrunks,
  trace: Ablated,
  logprobs: readonly Float32Array[],
  loo: Loo,
): Promise<Float64Array> {
  const { promptIds, completionIds, exits, continuations } = trace;
  const attributions = new Float64Array(exits.length - 1);
  const all = answerLogprob(logprobs, continuations);
  if (all === Number.NEGATIVE_INFINITY) return attributions;
  // a segment of nothing but an end token: there is nothing to leave out
  const segments = Array.from(attributions.keys(), (n) => n + 1).filter((k) => exits[k] !== exits[k - 1]);
  const branches = segments.flatMap((k) => withoutSegment(trace, k, loo));
  const trunk = joinIds(promptIds, completionIds.subarray(0, exits[exits.length - 1]));
  const kept = nextKept();
  const scored: Float32Array[] = [];
  try {
    await session.keepTrunks(kept, [trunk]);
    for (const batch of sharingRoom(branches, BATCH_ROWS, sizeOf)) {
      const found = await session.branches(kept, [batch]);
      assertPossible(found, [trace], session);
      scored.push(...(found[0] as TraceScores).branches);
    }
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    const longest = branches.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    const reason = `the machine has not enough memory to read its ${trunk.length} tokens again without a segment, ${longest} at once: --estimator pr does not, or run it where there is more`;
    throw new TraceRejected('out_of_memory', reason);
  } finally {
    await session.release(kept).catch(() => {}); // a session that has failed keeps nothing
  }
  const N = continuations.length;
  for (const [n, k] of segments.entries())
    attributions[k - 1] = all - answerLogprob(scored.slice(n * N, (n + 1) * N), continuations);
  return attributions;
}
