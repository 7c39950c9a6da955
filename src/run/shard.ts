// Which shard of a run a process does: what `--shard` says, or the scheduler that has started it; and how many chunks a run may have.
import { usageError } from '../errors.js';
import { chunkCount, MAX_CHUNKS, MAX_ROW_GROUPS, MAX_SHARDS, type Shard, WHOLE } from '../io/files/chunks.js';
import type { Log } from '../report/log.js';
import type { RunOptions } from './options.js';
import type { Target } from './target.js';

/** Reads `--shard i/n`. @throws RredcotError (exit 2) */
export function parseShard(text: string): Shard {
  const [, index, count] = /^(\d{1,5})\/(\d{1,5})$/.exec(text) ?? [];
  const shard = { index: Number(index), count: Number(count) };
  if (index === undefined || shard.count < 1 || shard.index >= shard.count)
    throw usageError(`--shard ${text}: expected i/n with 0 ≤ i < n ≤ ${MAX_SHARDS}`, '--shard 0/8');
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

/** The part of a run that a command does: what `--shard` or the scheduler says. @throws RredcotError (exit 2) */
export function resolveShard(
  target: Target,
  opts: Pick<RunOptions, 'shard' | 'limit' | 'workers'>,
  isStream: boolean,
  log: Log,
): Shard {
  if (opts.workers !== undefined && target.kind === 'stdout')
    throw usageError('workers need a file or a folder to write to, not stdout', '-o segments.parquet');
  const scheduled = opts.shard === undefined ? shardOfEnvironment(process.env) : undefined;
  if (scheduled !== undefined && target.kind !== 'folder') {
    log.info(`${scheduled.from}, but the output is no folder: every row is taken (-o out/ splits them)`);
    return WHOLE;
  }
  const shard = opts.shard ?? scheduled?.shard ?? WHOLE;
  if (scheduled !== undefined) log.info(`${scheduled.from}: shard ${shard.index}/${shard.count}`);
  if (shard.count === 1) return shard;
  if (target.kind === 'file')
    throw usageError(
      `--shard ${shard.index}/${shard.count}: ${target.path} is one file, expected a folder that the shards share`,
      '-o out/',
    );
  if (isStream) throw usageError('a shard needs files, stdin can be read only once', 'name the input files');
  if (opts.limit !== undefined)
    throw usageError(
      '--limit counts traces from the first, so it cannot be split into shards',
      'leave out --limit',
    );
  return shard;
}

/** A command's shard as its workers have it: every n-th chunk of its own each. */
export function sharedOut({ index, count }: Shard, workers: number): readonly Shard[] {
  return Array.from({ length: workers }, (_, j) => ({ index: index + count * j, count: count * workers }));
}

/** What could not be joined in the end, or is no folder that a file system likes. @throws RredcotError (exit 2) */
export function refuseManyChunks({ kind, format, path }: Target, rows: number, rowsPerChunk: number): void {
  const chunks = chunkCount(rows, rowsPerChunk);
  if (chunks > MAX_CHUNKS)
    throw usageError(
      `${path}: ${rows} rows make ${chunks} chunks, and a run has at most ${MAX_CHUNKS}`,
      'a larger --rows-per-chunk',
    );
  if (kind !== 'file' || format !== 'parquet' || chunks <= MAX_ROW_GROUPS) return;
  throw usageError(
    `${path}: ${rows} rows make ${chunks} chunks, and a Parquet file has at most ${MAX_ROW_GROUPS} row groups`,
    '-o out/, then rredcot merge out/ -o all/; or a larger --rows-per-chunk',
  );
}
