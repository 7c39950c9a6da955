// How many of the machine's cores are this process's own.
import { availableParallelism } from 'node:os';

/** Set by `--threads`. */
export const CORES_VARIABLE = 'RREDCOT_THREADS';

/** All cores, or the share that `RREDCOT_THREADS` allows. */
export function ownCores(env: Readonly<Record<string, string | undefined>> = process.env): number {
  const share = Number(env[CORES_VARIABLE]);
  const cores = availableParallelism();
  return Number.isInteger(share) && share >= 1 ? Math.min(share, cores) : cores;
}
