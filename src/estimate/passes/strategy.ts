// Decides how traces are put to the policy, and puts them: one run with all branches, or a second one for the branches.
import { OutOfMemoryError, TraceRejected } from '../../errors.js';
import type { Device } from '../../policy/device/device.js';
import type { Branch } from '../../policy/run/pack.js';
import type { PolicyRuns, TraceScores } from '../../policy/run/session.js';
import {
  candidateExits,
  isCutLate,
  mergeSegments,
  type Pieces,
  type Segmentation,
} from '../../segment/segment.js';
import { joinIds, type Suffix } from '../references.js';
import type { TraceResult } from '../trace-result.js';
import { type Load, planBatches } from './batch.js';
import { assertPossible } from './possible.js';

/**
 * - `one-run`: branches at every piece's end, in the same run as the trace; those of merged pieces are thrown away.
 *   Nothing is wasted where no piece is merged.
 * - `two-run`: the trace first, the branches at its segments' ends when the entropies have decided where these are.
 */
export const STRATEGIES = ['auto', 'one-run', 'two-run'] as const;
export type Strategy = (typeof STRATEGIES)[number];

/** A trace as the policy takes it. */
export interface TraceJob {
  /** prompt and completion */
  readonly ids: Int32Array;
  readonly promptLength: number;
  readonly pieces: Pieces;
  /** (N) what is scored after every exit point */
  readonly continuations: readonly Suffix[];
  /** what is scored besides after an exit point, by its number of completion tokens */
  readonly tails?: ((exit: number) => readonly Suffix[]) | undefined;
}

/** A second run starts again, whatever the trace's length: worth so many rows of a first one. */
const SECOND_RUN_ROWS = 64;

/**
 * A second run moves the trace's keys and values: worth so many rows of a first one for each of its tokens. On the CPU
 * they are copied once in memory. From a GPU they go to the host in float32 and back again, since Node's ONNX Runtime
 * keeps nothing on a CUDA device between runs: 0.26 MB a token of an 8 B Llama, 0.06 MB of a 1.5 B Qwen, twice, at some
 * 10 GB/s. In that time a GPU at 200 TFLOP/s computes 0.7 of a row. An estimate: no GPU was at hand to measure it.
 */
const SECOND_RUN_SHARE = { cpu: 0.03, cuda: 0.7, webgpu: 0.7 } as const;

/** On the CPU, beyond so many tokens the copies that one run makes cost more than a second run (bench/exits.mjs, T = 16,384). */
const LONG_TRACE = 12_288;

/** The cheaper way for one trace: rows that would be thrown away against the price of a second run. */
export function chooseStrategy(job: TraceJob, { name }: Device = { name: 'cpu' }): 'one-run' | 'two-run' {
  const { ids, pieces, continuations } = job;
  if (name === 'cpu' && ids.length > LONG_TRACE) return 'two-run';
  // a candidate at every token
  if (isCutLate(pieces) && continuations.length > 0) return 'two-run';
  const wasted = (pieces.ends.length - pieces.segments) * branchLoad(job).rowsPerExit;
  return wasted <= SECOND_RUN_ROWS + SECOND_RUN_SHARE[name] * ids.length ? 'one-run' : 'two-run';
}

/** A batch of a window: which of its traces run together, and how. */
export interface Batch {
  readonly strategy: 'one-run' | 'two-run';
  /** positions in the window */
  readonly members: readonly number[];
}

/** Batches of a window, by strategy and length. */
export function planWindow(jobs: readonly TraceJob[], strategy: Strategy, device?: Device): Batch[] {
  return (['one-run', 'two-run'] as const).flatMap((kind) => {
    const chosen = jobs.flatMap((job, i) =>
      (strategy === 'auto' ? chooseStrategy(job, device) : strategy) === kind ? [i] : [],
    );
    const loads = chosen.map((i) => loadOf(jobs[i] as TraceJob, kind));
    return planBatches(loads).map((batch) => ({
      strategy: kind,
      members: batch.map((n) => chosen[n] as number),
    }));
  });
}

function loadOf(job: TraceJob, strategy: 'one-run' | 'two-run'): Load {
  const { ids, pieces } = job;
  const exits = 1 + (strategy === 'one-run' ? pieces.ends.length : pieces.segments);
  const { rowsPerExit, longestBranch } = branchLoad(job);
  return { tokens: ids.length, branchRows: Math.ceil(exits * rowsPerExit), longestBranch };
}

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

/** Rows of what is scored at an exit, where tails differ the mean over all that the pieces allow; rows of the longest branch. */
function branchLoad({ pieces, continuations, tails }: TraceJob) {
  let [rows, exits, longestBranch] = [0, 0, 0];
  for (const exit of tails === undefined ? [] : candidateExits(pieces)) {
    exits++;
    for (const suffix of tails?.(exit) ?? []) {
      rows += suffixRows(suffix);
      longestBranch = Math.max(longestBranch, suffixRows(suffix));
    }
  }
  let rowsPerExit = rows / Math.max(1, exits);
  for (const suffix of continuations) {
    rowsPerExit += suffixRows(suffix);
    longestBranch = Math.max(longestBranch, suffixRows(suffix));
  }
  return { rowsPerExit, longestBranch };
}

/** Rows of a suffix as a branch: one more where its first token is scored. */
function suffixRows({ ids, scoredFrom }: Suffix): number {
  return ids.length + (scoredFrom === 0 ? 1 : 0);
}
