// Which shard a process does: what `--shard` says, or a scheduler.
import { describe, expect, it } from 'vitest';
import { parseShard, shardOfEnvironment } from '../../dist/run/shard.js';

describe('a shard', () => {
  it.each(['', '1', '1/1', '3/2', '-1/2', '0/0', 'a/b', '1/2/3', '0.5/2'])(
    '--shard %j is refused',
    (text) => {
      expect(() => parseShard(text)).toThrow(/expected i\/n/);
    },
  );

  it('finds its place in a Slurm array and in an Indexed Job', () => {
    const slurm = (task: number, count: number, more = {}) =>
      shardOfEnvironment({ SLURM_ARRAY_TASK_ID: `${task}`, SLURM_ARRAY_TASK_COUNT: `${count}`, ...more })
        ?.shard;
    expect(shardOfEnvironment({})).toBeUndefined();
    expect(slurm(3, 8)).toEqual({ index: 3, count: 8 });
    expect(slurm(1, 8, { SLURM_ARRAY_TASK_MIN: '1' })).toEqual({ index: 0, count: 8 });
    expect(slurm(9, 3, { SLURM_ARRAY_TASK_MIN: '5', SLURM_ARRAY_TASK_STEP: '2' })).toEqual({
      index: 2,
      count: 3,
    });
    // --array=3,5: two tasks, whose numbers say nothing of which shards they are
    expect(() => slurm(5, 2, { SLURM_ARRAY_TASK_MIN: '3' })).toThrow(/gaps/);
    expect(shardOfEnvironment({ JOB_COMPLETION_INDEX: '2', RREDCOT_SHARDS: '4' })?.shard).toEqual({
      index: 2,
      count: 4,
    });
    expect(() => shardOfEnvironment({ JOB_COMPLETION_INDEX: '2' })).toThrow(/RREDCOT_SHARDS/);
  });
});
