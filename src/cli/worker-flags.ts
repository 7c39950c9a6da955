// `--workers` and `--devices` on the command line: which of a command's flags its workers are given.
import type { Command } from 'commander';
import { positiveInteger } from '../commands/job/flag-values.js';
import type { WorkersOptions } from '../commands/workers/processes.js';
import { type ExitCode, usageError } from '../errors.js';
import { type Log, openLog } from '../report/log.js';
import { isWorker, openWorkerLog } from '../report/worker-log.js';

/** Flags that are the parent's own matter, by the name that commander gives them. */
const OWN_FLAGS: readonly string[] = [
  ...['output', 'format', 'shard', 'restart', 'timeLimit', 'quiet', 'logJson', 'workers', 'devices'],
];

/** The log of `score` and `segment`, which may be workers themselves. */
export function jobLog({ quiet, logJson }: { readonly quiet: boolean; readonly logJson: boolean }): Log {
  return isWorker() ? openWorkerLog() : openLog({ quiet, json: logJson });
}

/** Runs the command in several processes where its flags ask for that; undefined where they do not. */
export async function shareAmongWorkers(
  command: Command,
  inputs: readonly string[],
  job: Omit<WorkersOptions, 'command' | 'flags' | 'devices'>,
  log: Log,
): Promise<ExitCode | undefined> {
  const { workers, devices } = command.opts<{ workers?: string; devices?: string }>();
  if (workers === undefined && devices === undefined) return undefined;
  // brings the merging of chunks along, which few runs need
  const { runWorkers, workerDevices } = await import('../commands/workers/processes.js');
  const shares = workerDevices(
    workers === undefined ? undefined : positiveInteger('--workers', workers, 2),
    devices,
  );
  if (shares === undefined) return undefined;
  if (devices !== undefined && command.getOptionValueSource('device') === 'cli')
    throw usageError('--device and --devices both say where to run', 'leave out --device');
  const name = command.name() === 'score' ? 'score' : 'segment';
  return runWorkers(inputs, { ...job, command: name, flags: workerFlags(command), devices: shares }, log);
}

/** The flags that the user gave, as the workers are to have them. */
export function workerFlags(command: Command): string[] {
  const values = command.opts<Record<string, unknown>>();
  return command.options.flatMap((option) => {
    const name = option.attributeName();
    const value = values[name];
    if (OWN_FLAGS.includes(name) || command.getOptionValueSource(name) !== 'cli') return [];
    // --policy and --no-policy are one value
    if (option.negate || value === false)
      return option.negate && value === false ? [option.long as string] : [];
    if (value === true) return [option.long as string];
    return (Array.isArray(value) ? value : [value]).map((one) => `${option.long}=${one}`);
  });
}
