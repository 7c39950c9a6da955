// How many CPU threads a run of the policy takes.
import { availableParallelism } from 'node:os';

/** Set by a process that starts several scorers on one machine: each one's share of the cores. */
export const THREADS_VARIABLE = 'RREDCOT_THREADS';

/** All cores, or the share that `RREDCOT_THREADS` allows. */
export function policyThreads(env: Readonly<Record<string, string | undefined>> = process.env): number {
  const share = Number(env[THREADS_VARIABLE]);
  const cores = availableParallelism();
  return Number.isInteger(share) && share >= 1 ? Math.min(share, cores) : cores;
}

/** A worker's share of the cores. */
export function threadShare(workers: number): number {
  return Math.max(1, Math.floor(availableParallelism() / workers));
}
