// Puts the traces of a batch to the policy: one run with all branches, or a second one for the branches.
import { OutOfMemoryError, TraceRejected } from '../errors.js';
import type { Branch } from '../policy/run/pack.js';
import type { PolicyRuns, TraceScores } from '../policy/run/session.js';
import { candidateExits, mergeSegments, type Segmentation } from '../segment/segment.js';
import { assertPossible } from './possible.js';
import { joinIds, type Suffix } from './references.js';
import type { TraceJob } from './strategy.js';
import type { TraceResult } from './trace-result.js';

let lastKept = 0;
/** A number under which a run may keep its traces' keys and values. */
export function nextKept(): number {
  return ++lastKept;
}
/** The end of the last two-run of each session: one trace's keys and values are held at a time, however many wait. */
const lastTwoRuns = new WeakMap<PolicyRuns, Promise<unknown>>();

/**
 * Scores the traces of a batch. Where memory runs out, the two halves are tried by themselves.
 * @returns a result a trace, in order; a TraceRejected for one that does not fit alone
 * @throws ImpossibleNumberError
 */
export async function runBatch(
  session: PolicyRuns,
  jobs: readonly TraceJob[],
  strategy: 'one-run' | 'two-run',
): Promise<(TraceResult | TraceRejected)[]> {
  try {
    return await (strategy === 'one-run' ? oneRun(session, jobs) : twoRuns(session, jobs));
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    if (jobs.length > 1) {
      const half = Math.ceil(jobs.length / 2);
      const first = await runBatch(session, jobs.slice(0, half), strategy);
      return [...first, ...(await runBatch(session, jobs.slice(half), strategy))];
    }
    if (strategy === 'one-run') return runBatch(session, jobs, 'two-run');
    const reason = `the machine has not enough memory for its ${jobs[0]?.ids.length} tokens: run it where there is more`;
    return [new TraceRejected('out_of_memory', reason)];
  }
}

async function oneRun(session: PolicyRuns, jobs: readonly TraceJob[]): Promise<TraceResult[]> {
  const candidates = jobs.map((job) => Array.from(candidateExits(job.pieces)));
  const scored = await session.run(
    jobs.map((job, b) => ({ ...job, branches: branchesAt(job, candidates[b] as number[]) })),
  );
  assertPossible(scored, jobs, session);
  return scored.map(({ entropies, logprobs, branches }, b) => {
    const job = jobs[b] as TraceJob;
    const segmentation = mergeSegments(job.pieces, { entropies, logprobs });
    const exits = candidates[b] as number[];
    const all = perExit(job, exits, branches);
    const chosen = Array.from(segmentation.exits, (exit) => all[exits.indexOf(exit)] as Float32Array[]);
    return { entropies, logprobs, segmentation, ...parted(job, chosen) };
  });
}

async function twoRuns(session: PolicyRuns, jobs: readonly TraceJob[]): Promise<TraceResult[]> {
  const mine = Promise.resolve(lastTwoRuns.get(session)).then(() => runTwice(session, jobs));
  lastTwoRuns.set(
    session,
    mine.catch(() => {}), // the next one starts all the same
  );
  return mine;
}

async function runTwice(session: PolicyRuns, jobs: readonly TraceJob[]): Promise<TraceResult[]> {
  const kept = nextKept();
  try {
    const trunks = await session.run(
      jobs.map((job) => ({ ...job, branches: [] })),
      kept,
    );
    assertPossible(trunks, jobs, session);
    const segmentations = jobs.map(({ pieces }, b) => mergeSegments(pieces, trunks[b] as TraceScores));
    const scored = await session.branches(
      kept,
      jobs.map((job, b) => branchesAt(job, Array.from((segmentations[b] as Segmentation).exits))),
    );
    assertPossible(scored, jobs, session);
    return jobs.map((job, b) => {
      const { entropies, logprobs } = trunks[b] as TraceScores;
      const segmentation = segmentations[b] as Segmentation;
      const { branches } = scored[b] as TraceScores;
      const all = perExit(job, Array.from(segmentation.exits), branches);
      return { entropies, logprobs, segmentation, ...parted(job, all) };
    });
  } finally {
    await session.release(kept).catch(() => {}); // a session that has failed keeps nothing
  }
}

/** What is scored at an exit: continuations, then tails. */
function suffixesAt({ continuations, tails }: TraceJob, exit: number): readonly Suffix[] {
  return tails === undefined ? continuations : [...continuations, ...tails(exit)];
}

/** Everything that is scored at some exits (completion tokens), exits first. */
function branchesAt(job: TraceJob, exits: readonly number[]): Branch[] {
  const { ids, promptLength } = job;
  return exits.flatMap((exit) =>
    suffixesAt(job, exit).map((suffix) => branchAt(ids, promptLength + exit, suffix)),
  );
}

/** Scores of {@link branchesAt}, exit by exit. */
function perExit(job: TraceJob, exits: readonly number[], scored: readonly Float32Array[]): Float32Array[][] {
  let next = 0;
  return exits.map((exit) => {
    const from = next;
    next += suffixesAt(job, exit).length;
    return scored.slice(from, next);
  });
}

/** What was scored at each exit: the continuations', and the tails' where there are some. */
function parted(
  { continuations: { length: N }, tails }: TraceJob,
  exits: readonly (readonly Float32Array[])[],
): Pick<TraceResult, 'branches' | 'tails'> {
  const branches = exits.map((all) => all.slice(0, N));
  return tails === undefined ? { branches } : { branches, tails: exits.map((all) => all.slice(N)) };
}

/** A suffix after the first `exit` tokens. Where its own first token is scored, the token before it comes along. */
export function branchAt(ids: Int32Array, exit: number, { ids: suffix, scoredFrom }: Suffix): Branch {
  if (scoredFrom > 0) return { exit, ids: suffix, scoredFrom };
  return { exit: exit - 1, ids: joinIds(ids.subarray(exit - 1, exit), suffix), scoredFrom: 1 };
}
