// `--workers` and `--devices` on the command line: which of a command's flags its workers are given.
import type { Command } from 'commander';
import type { WorkersOptions } from '../commands/job/processes.js';
import { shardOfEnvironment } from '../commands/job/shard.js';
import { type ExitCode, usageError } from '../errors.js';
import { positiveInteger } from '../flag-values.js';
import type { RunCommand } from '../io/run/description.js';
import type { Log } from '../report/log.js';
import { isWorker, openWorkerLog } from '../report/worker-log.js';

/** Flags that are the parent's own matter, by the name that commander gives them. */
const OWN_FLAGS: readonly string[] = [
  ...[
    'output',
    'format',
    'shard',
    'overwrite',
    'timeLimit',
    'quiet',
    'logJson',
    'workers',
    'threads',
    'devices',
  ],
];

/** The log of a command that makes a run, which may be workers themselves. */
export async function jobLog({
  quiet,
  logJson,
  shard,
}: {
  readonly quiet: boolean;
  readonly logJson: boolean;
  readonly shard?: string | undefined;
}): Promise<Log> {
  if (isWorker()) return openWorkerLog();
  const { openLog } = await import('../report/log.js');
  return openLog({ quiet, json: logJson, shard: shard ?? scheduledShard() });
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

/** Runs the command in several processes where its flags ask for that; undefined where they do not. */
export async function shareAmongWorkers(
  command: Command,
  inputs: readonly string[],
  job: Omit<WorkersOptions, 'command' | 'flags' | 'devices'>,
  log: Log,
): Promise<ExitCode | undefined> {
  const { workers, devices, dryRun } = command.opts<{
    workers?: string;
    devices?: string;
    dryRun?: boolean;
  }>();
  if (dryRun || (workers === undefined && devices === undefined)) return undefined;
  // brings the merging of chunks along, which few runs need
  const { workerDevices } = await import('../commands/job/devices.js');
  const { runWorkers } = await import('../commands/job/processes.js');
  const shares = workerDevices(
    workers === undefined ? undefined : positiveInteger('--workers', workers, 2),
    devices,
  );
  if (shares === undefined) return undefined;
  if (devices !== undefined && command.getOptionValueSource('device') === 'cli')
    throw usageError('--device and --devices both say where to run', 'leave out --device');
  const name = command.name() as RunCommand;
  return runWorkers(inputs, { ...job, command: name, flags: workerFlags(command), devices: shares }, log);
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
