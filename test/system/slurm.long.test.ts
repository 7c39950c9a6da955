// examples/slurm/score.sbatch on a real Slurm: a node dies and a time limit comes near, and the array's result is what one process
// gives, byte for byte.
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FIXTURES, ROOT, rredcot } from '../support/program.js';
import { missingProgram, type NodeName, type SlurmCluster, startSlurm } from '../support/slurm-cluster.js';
import { snapshot } from '../torture/snapshot.js';

const SHARDS = 8;
const ROWS = 256;
const CUT = ['--estimator', 'pr', '--rows-per-part', '4'];
const PARTS_PER_SHARD = ROWS / SHARDS / 4;
const SCRIPT = join(ROOT, 'examples/slurm/score.sbatch');
const missing = missingProgram();
const why = missing === null ? '' : ` (skipped: no ${missing}; apt-get install slurm-wlm munge)`;

describe.skipIf(missing !== null)(`a Slurm array${why}`, () => {
  let cluster: SlurmCluster;
  let input: string;

  beforeAll(async () => {
    cluster = await startSlurm();
    input = join(cluster.folder, 'traces.jsonl');
    const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, ROWS);
    await writeFile(input, [...lines, '{"id": "cut off', ''].join('\n'));
    await mkdir(join(cluster.folder, 'bin'));
    await symlink(join(ROOT, 'bin/rredcot.js'), join(cluster.folder, 'bin/rredcot'));
  });
  afterAll(() => cluster?.stop());

  test('loses a node, nears its time limit, and ends as if nothing had happened', {
    timeout: 240_000,
  }, async () => {
    const out = join(cluster.folder, 'out/');
    const job = await sbatch([`--array=0-${SHARDS - 1}%2`, SCRIPT, input, '-o', out, ...CUT]);
    const check = `rredcot verify ${out}`;
    const checkJob = await sbatch([
      `--dependency=afterok:${job}`,
      '--kill-on-invalid-dep=yes',
      '--wrap',
      check,
    ]);

    // a node dies while its task has written some parts, but not all
    const lost = await taskAtWork(job, out, 'alpha');
    await cluster.killNode('alpha');
    expect(await isDone(out, lost)).toBe(false);

    // what `--signal=B:USR1@120` does two minutes before the time limit: the signal, to the batch shell alone
    const stopped = await taskAtWork(job, out, 'beta');
    process.kill(await batchShell(job, stopped, 'beta'), 'SIGUSR1');

    const one = join(cluster.folder, 'one/');
    const run = await rredcot(['score', input, '-o', one, ...CUT]);
    expect(run.code, run.stderr).toBe(0);

    await cluster.waitFor('the job behind it', 150, async () => {
      const state = await jobField(checkJob, 'JobState');
      expect(state, 'of the job behind it').toMatch(/^(PENDING|RUNNING|COMPLETING|COMPLETED)$/);
      return state === 'COMPLETED';
    });
    expect(await jobField(`${job}_${lost}`, 'Restarts')).toBe('1');
    expect(await jobField(`${job}_${stopped}`, 'Restarts')).toBe('1');

    const whole = await snapshot(one);
    expect(Object.keys(whole).length).toBeGreaterThan(ROWS / 4);
    expect(await snapshot(out)).toEqual(whole);
  });

  test('a cancelled task ends in order and is not put back into the queue', { timeout: 60_000 }, async () => {
    const out = join(cluster.folder, 'cancelled/');
    const job = await sbatch(['--array=0-7%1', '--nodelist=beta', SCRIPT, input, '-o', out, ...CUT]);
    const task = await taskAtWork(job, out, 'beta');
    await cluster.run('scancel', [job]);
    await cluster.waitFor(
      'an empty queue',
      50,
      async () => (await cluster.run('squeue', ['--noheader', `--jobs=${job}`])) === '',
    );
    expect(await jobField(`${job}_${task}`, 'JobState')).toBe('CANCELLED');
    expect(await jobField(`${job}_${task}`, 'Restarts')).toBe('0');
    // one signal, not two: the second would have ended it without a word
    const log = await readFile(join(cluster.folder, `score-${job}_${task}.log`), 'utf8');
    expect(log).toContain('rredcot: interrupted');
  });

  async function sbatch(args: readonly string[]): Promise<string> {
    const env = { PATH: `${join(cluster.folder, 'bin')}:${process.env.PATH}` };
    return (await cluster.run('sbatch', ['--parsable', ...args], { env })).trim();
  }

  /** The array index of a task that runs on the node and has begun to write parts. */
  async function taskAtWork(job: string, out: string, node: NodeName): Promise<number> {
    let task = '';
    await cluster.waitFor(`a part written on ${node}`, 40, async () => {
      const running = [
        '--noheader',
        `--jobs=${job}`,
        `--nodelist=${node}`,
        '--states=RUNNING',
        '--format=%K',
      ];
      task = (await cluster.run('squeue', running)).trim();
      if (task === '' || (await isDone(out, Number(task)))) return false;
      const parts = await partsOf(out, Number(task));
      // one that is nearly done would be gone before it is hit
      return parts > 0 && parts <= PARTS_PER_SHARD / 4;
    });
    return Number(task);
  }

  async function batchShell(job: string, task: number, node: NodeName): Promise<number> {
    const id = (await cluster.run('squeue', ['--noheader', `--jobs=${job}_${task}`, '--format=%A'])).trim();
    const listed = await cluster.run('scontrol', ['listpids', id, node]);
    const shell = /^(\d+)\s+\d+\s+batch\s+0\s/m.exec(listed); // the others have no local id
    if (!shell) throw new Error(`no batch shell of ${job}_${task} on ${node} among\n${listed}`);
    return Number(shell[1]);
  }

  /** A field of `scontrol show job`, such as JobState. */
  async function jobField(job: string, field: string): Promise<string | undefined> {
    const shown = await cluster.run('scontrol', ['show', 'job', job]);
    return new RegExp(`\\b${field}=(\\S*)`).exec(shown)?.[1];
  }
});

/** How many parts of a task's shard are there. */
async function partsOf(out: string, task: number): Promise<number> {
  const names: string[] = await readdir(out).catch(() => []);
  const own = (name: string) =>
    Number(/^part-(\d+)\.parquet$/.exec(name)?.[1] ?? Number.NaN) % SHARDS === task;
  return names.filter(own).length;
}

async function isDone(out: string, task: number): Promise<boolean> {
  // a last part holds the line that is cut off
  return (await partsOf(out, task)) >= PARTS_PER_SHARD;
}
