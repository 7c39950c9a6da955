// `--workers` and `--devices` on the command line: which of a command's flags its workers are given.
import { availableParallelism } from 'node:os';
import type { Command } from 'commander';
import { usageError } from '../errors.js';
import { positiveInteger } from '../flag-values.js';
import { type DeviceChoice, parseDevice } from '../model/onnx/device.js';
import { plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { isWorker, openWorkerLog } from '../report/worker-log.js';
import { shardOfEnvironment } from '../run/shard.js';
import type { Workers } from '../run/workers.js';
import { type LogFlags, logOf } from './declare.js';

/** Flags that are the parent's own matter, by the name that commander gives them. */
const OWN_FLAGS: readonly string[] = [
  ...['output', 'format', 'shard', 'overwrite', 'timeLimit', 'maxRejects'],
  ...['quiet', 'logJson', 'workers', 'threads', 'devices'],
];

/** The log of a command that makes a run, which may be workers themselves. */
export async function jobLog(flags: LogFlags & { readonly shard?: string }): Promise<Log> {
  return isWorker() ? openWorkerLog() : logOf(flags, flags.shard ?? scheduledShard());
}

/** For the log's records; what is wrong with it is told where the shard is taken. */
function scheduledShard(): string | undefined {
  try {
    const found = shardOfEnvironment(process.env)?.shard;
    return found && `${found.index}/${found.count}`;
  } catch {
    return undefined;
  }
}

/** So many workers may be asked for on any machine, however few its cores. */
const LEAST_MOST_WORKERS = 16;

/**
 * `--workers n` and `--devices a,b`, each as the name of a device: one entry a worker.
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

/**
 * The processes that share a command's work where its flags ask for that, and the device by which it describes itself: the first of
 * theirs. One process on one device is no other than this one.
 */
export function sharing(
  command: Command,
  inputs: readonly string[],
): { readonly workers?: Workers; readonly device?: DeviceChoice } {
  const { workers, devices } = command.opts<Readonly<Record<string, string | undefined>>>();
  const asked = workers === undefined ? undefined : positiveInteger('--workers', workers, 2);
  const own = workerDevices(asked, devices);
  if (own === undefined) return {};
  if (devices !== undefined && command.getOptionValueSource('device') === 'cli')
    throw usageError('--device and --devices both say where to run', 'leave out --device');
  const [first] = own;
  return {
    ...(first !== undefined && { device: parseDevice(first, '--devices') }),
    ...(own.length > 1 && { workers: { devices: own, flags: workerFlags(command), inputs } }),
  };
}

/** The flags that the user gave, as the workers are to have them. */
export function workerFlags(command: Command): string[] {
  const values = command.opts<Record<string, unknown>>();
  return command.options.flatMap((option) => {
    const name = option.attributeName();
    const value = values[name];
    const isGiven = command.getOptionValueSource(name) === 'cli';
    if (OWN_FLAGS.includes(name) || !isGiven) return [];
    // --policy and --no-policy are one value
    if (option.negate || value === false)
      return option.negate && value === false ? [option.long as string] : [];
    if (value === true) return [option.long as string];
    return (Array.isArray(value) ? value : [value]).map((one) => `${option.long}=${one}`);
  });
}
