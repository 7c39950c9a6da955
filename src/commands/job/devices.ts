// Gives every worker a device, by `--workers` and `--devices`.
import { availableParallelism } from 'node:os';
import { usageError } from '../../errors.js';
import { plural } from '../../plural.js';
import { parseDevice } from '../../policy/device.js';

/** So many workers may be asked for on any machine, however few its cores. */
const LEAST_MOST_WORKERS = 16;

/**
 * `--workers n` and `--devices a,b`: the device of every worker.
 * @returns undefined where neither flag is given
 */
export function workerDevices(
  workers: number | undefined,
  devices: string | undefined,
): readonly (string | undefined)[] | undefined {
  const cores = availableParallelism();
  const most = Math.max(LEAST_MOST_WORKERS, 2 * cores);
  if (workers !== undefined && workers > most)
    throw usageError(
      `--workers ${workers}: expected at most ${most} on this machine, which has ${plural(cores, 'core')}`,
      `--workers ${cores}`,
    );
  if (devices === undefined) return workers === undefined ? undefined : new Array(workers).fill(undefined);
  const names = devices.split(',').map((name) => name.trim());
  for (const name of names) parseDevice(name, '--devices');
  return Array.from({ length: names.length * (workers ?? 1) }, (_, j) => names[j % names.length]);
}
