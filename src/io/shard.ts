// Which input rows a process takes, and which chunk each of them falls into: arithmetic on row numbers alone.
import { EXIT, RredcotError } from '../errors.js';

/** Row r of all inputs belongs to shard r mod count (DESIGN §5). */
export interface Shard {
  readonly index: number;
  readonly count: number;
}

/** The only shard of a run that is not split. */
export const WHOLE: Shard = { index: 0, count: 1 };

/** How rows are cut into shards and chunks. */
export interface Layout {
  readonly shard: Shard;
  readonly rowsPerChunk: number;
}

/** Defaults of `--rows-per-chunk`: with a policy; without one, in a run folder and on the way to a single file. */
export const ROWS_PER_CHUNK = { policy: 512, folder: 16_384, file: 131_072 } as const;

/** Input rows whose traces may share runs of the policy; a chunk holds whole windows, so its bytes depend on no other. */
const WINDOW_ROWS = 64;

/** Whether a row is the shard's. @param ordinal number of the row over all inputs */
export function isOwn(ordinal: number, { index, count }: Shard): boolean {
  return ordinal % count === index;
}

/** The chunk of one of the shard's rows. */
export function chunkOf(ordinal: number, { shard, rowsPerChunk }: Layout): number {
  return Math.floor(Math.floor(ordinal / shard.count) / rowsPerChunk);
}

/** The window of one of the shard's rows: a number that grows from window to window, and never spans two chunks. */
export function windowOf(ordinal: number, layout: Layout): number {
  const { shard, rowsPerChunk } = layout;
  const windowsPerChunk = Math.ceil(rowsPerChunk / WINDOW_ROWS);
  const inChunk = Math.floor(ordinal / shard.count) % rowsPerChunk;
  return chunkOf(ordinal, layout) * windowsPerChunk + Math.floor(inChunk / WINDOW_ROWS);
}

/** Rows of the shard before chunk `chunk`, and the number over all inputs of its first row. */
export function firstOrdinal(chunk: number, { shard, rowsPerChunk }: Layout): number {
  return chunk * rowsPerChunk * shard.count + shard.index;
}

/** As folders and files are named: 00003-of-00016. */
export function shardName({ index, count }: Shard): string {
  const digits = (n: number) => String(n).padStart(5, '0');
  return `${digits(index)}-of-${digits(count)}`;
}

const MAX_SHARDS = 99_999;

/** Reads `--shard i/n`. @throws RredcotError (exit 2) */
export function parseShard(text: string): Shard {
  const [, index, count] = /^(\d{1,5})\/(\d{1,5})$/.exec(text) ?? [];
  const shard = { index: Number(index), count: Number(count) };
  if (index === undefined || shard.count < 1 || shard.index >= shard.count)
    throw usage(`--shard ${text}: expected i/n with 0 ≤ i < n ≤ ${MAX_SHARDS}`, '--shard 0/8');
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
      throw usage(
        `Slurm's array has gaps (task ${task} of ${tasks}, from ${least}): its numbers are no shards`,
        'say which one with --shard i/n',
      );
    return { shard: { index, count: tasks }, from: `Slurm's array task ${task}` };
  }
  const pod = number('JOB_COMPLETION_INDEX');
  if (pod === undefined) return undefined;
  const pods = number('RREDCOT_SHARDS');
  if (pods === undefined || pod >= pods)
    throw usage(
      `JOB_COMPLETION_INDEX is ${pod}, but RREDCOT_SHARDS is ${env.RREDCOT_SHARDS ?? 'not set'}, expected the number of pods`,
      "set RREDCOT_SHARDS to the Job's completions, or say --shard i/n",
    );
  return { shard: { index: pod, count: pods }, from: `pod ${pod} of the Indexed Job` };
}

function usage(message: string, hint: string): RredcotError {
  return new RredcotError(message, { exitCode: EXIT.usage, hint });
}
