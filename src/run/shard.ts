// Which shard of a run a process does: what `--shard` says, or the scheduler that has started it.
import { usageError } from '../errors.js';
import { type Shard, WHOLE } from '../io/files/run-folder.js';
import type { Log } from '../report/log.js';
import type { RunOptions } from './options.js';
import type { Target } from './target.js';

/** Reads `--shard i/n`. @throws RredcotError (exit 2) */
export function parseShard(text: string): Shard {
  const [, index, count] = /^(\d{1,5})\/(\d{1,5})$/.exec(text) ?? [];
  const shard = { index: Number(index), count: Number(count) };
  if (index === undefined || shard.count < 1 || shard.index >= shard.count)
    throw usageError(`--shard ${text}: expected i/n with 0 ≤ i < n ≤ 99999`, '--shard 0/8');
  return shard;
}

/**
 * The shard that a cluster's scheduler gives this process: a Slurm array task, or a pod of a Kubernetes Indexed Job,
 * whose number of pods stands in `RREDCOT_SHARDS`.
 * @returns undefined outside of both
 * @throws RredcotError (exit 2) where the count is missing, or the array has gaps
 */
export function shardOfEnvironment(
  env: Readonly<Record<string, string | undefined>>,
): { readonly shard: Shard; readonly from: string } | undefined {
  const number = (name: string): number | undefined => {
    const text = env[name];
    return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
  };
  const task = number('SLURM_ARRAY_TASK_ID');
  const tasks = number('SLURM_ARRAY_TASK_COUNT');
  if (task !== undefined && tasks !== undefined) {
    const least = number('SLURM_ARRAY_TASK_MIN') ?? 0;
    const step = number('SLURM_ARRAY_TASK_STEP') ?? 1;
    const index = (task - least) / Math.max(1, step);
    if (!Number.isInteger(index) || index >= tasks)
      throw usageError(
        `Slurm's array has gaps (task ${task} of ${tasks}, from ${least}): its numbers are no shards`,
        'say which one with --shard i/n',
      );
    return { shard: { index, count: tasks }, from: `Slurm's array task ${task}` };
  }
  const pod = number('JOB_COMPLETION_INDEX');
  if (pod === undefined) return undefined;
  const pods = number('RREDCOT_SHARDS');
  if (pods === undefined || pod >= pods)
    throw usageError(
      `JOB_COMPLETION_INDEX is ${pod}, but RREDCOT_SHARDS is ${env.RREDCOT_SHARDS ?? 'not set'}, expected the number of pods`,
      "set RREDCOT_SHARDS to the Job's completions, or say --shard i/n",
    );
  return { shard: { index: pod, count: pods }, from: `pod ${pod} of the Indexed Job` };
}

/** The shard that a command does: what `--shard` or the scheduler says. @throws RredcotError (exit 2) */
export function resolveShard(
  target: Target,
  { shard: asked, limit }: Pick<RunOptions, 'shard' | 'limit'>,
  isStream: boolean,
  log: Log,
): Shard {
  const scheduled = asked === undefined ? shardOfEnvironment(process.env) : undefined;
  if (scheduled !== undefined && target.kind !== 'folder') {
    log.info(`${scheduled.from}, but the output is no folder: every row is taken (-o out/ splits them)`);
    return WHOLE;
  }
  const shard = asked ?? scheduled?.shard ?? WHOLE;
  if (scheduled !== undefined) log.info(`${scheduled.from}: shard ${shard.index}/${shard.count}`);
  if (shard.count === 1) return shard;
  if (target.kind === 'file')
    throw usageError(
      `--shard ${shard.index}/${shard.count}: ${target.path} is one file, expected a folder that the shards share`,
      '-o out/',
    );
  if (isStream) throw usageError('a shard needs files, stdin can be read only once', 'name the input files');
  if (limit !== undefined)
    throw usageError(
      '--limit counts traces from the first, so it cannot be split into shards',
      'leave out --limit',
    );
  return shard;
}
