// How many of the machine's cores are this process's own.
import { availableParallelism } from 'node:os';

/** Set by `--threads`, and by a process that starts several on one machine: each one's share of the cores. */
export const CORES_VARIABLE = 'RREDCOT_THREADS';

/** All cores, or the share that `RREDCOT_THREADS` allows. */
export function ownCores(env: Readonly<Record<string, string | undefined>> = process.env): number {
  const share = Number(env[CORES_VARIABLE]);
  const cores = availableParallelism();
  return Number.isInteger(share) && share >= 1 ? Math.min(share, cores) : cores;
}

/** A worker's share of the cores. */
export function coreShare(workers: number, env = process.env): number {
  return Math.max(1, Math.floor(ownCores(env) / workers));
}
