// Refuses what no policy can say of a trace: a broken graph or device, not a bad trace.
import type { PolicyRuns, TraceScores } from '../policy/run/session.js';

/** How far rounding may take an entropy beyond 0 and ln V, nats. */
const ENTROPY_ROUNDING = 1e-4;
/** The same of log p beyond 0: a token's logit and the sum over the vocabulary are computed apart. */
const LOGPROB_ROUNDING = 1e-3;

/** Numbers that cannot be; the trace that they are of is told where its name is known. */
export class ImpossibleNumberError extends Error {
  override readonly name = 'ImpossibleNumberError';

  constructor(
    /** the trace's own, of those that were given */
    readonly job: object,
    what: string,
  ) {
    super(what);
  }
}

/**
 * @param jobs one a trace, by which an error names it
 * @throws ImpossibleNumberError for a log p or entropy that is no number, or outside of what there can be
 */
export function assertPossible(
  scores: readonly TraceScores[],
  jobs: readonly object[],
  { vocab }: Pick<PolicyRuns, 'vocab'>,
): void {
  const most = vocab === undefined ? Number.POSITIVE_INFINITY : Math.log(vocab);
  for (const [b, { entropies, logprobs, branches }] of scores.entries()) {
    const fail = (what: string): never => {
      throw new ImpossibleNumberError(jobs[b] as object, what);
    };
    for (const [t, entropy] of entropies.entries())
      if (!(entropy >= -ENTROPY_ROUNDING && entropy <= most + ENTROPY_ROUNDING && entropy < Infinity))
        fail(`entropy ${entropy} at completion token ${t}, expected 0 to ${range(most)}`);
    const at = logprobs.findIndex(isNoLogprob);
    if (at >= 0) fail(`log p ${logprobs[at]} of completion token ${at}, expected a number up to 0`);
    for (const branch of branches) {
      const found = branch.find(isNoLogprob);
      if (found !== undefined) fail(`log p ${found} in a reference, expected a number up to 0`);
    }
  }
}

function isNoLogprob(logprob: number): boolean {
  return !(logprob <= LOGPROB_ROUNDING && logprob > Number.NEGATIVE_INFINITY);
}

function range(most: number): string {
  return most === Number.POSITIVE_INFINITY ? 'a finite number' : `${most.toFixed(2)} (ln V)`;
}
