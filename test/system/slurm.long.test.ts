// examples/slurm/score.sbatch on a real Slurm: a node dies and a time limit comes near, and the array's result is what an
// unbroken run of the same shards gives, byte for byte, and what one process gives, within 1e-5.
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FIXTURES, ROOT, readScored, rredcot } from '../support/program.js';
import { missingProgram, type NodeName, type SlurmCluster, startSlurm } from '../support/slurm-cluster.js';

const SHARDS = 8;
const ROWS = 256;
const CUT = ['--rows-per-part', '4'];
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

    const unbroken = join(cluster.folder, 'unbroken/');
    for (let i = 0; i < SHARDS; i++)
      await succeed(['score', input, '-o', unbroken, '--shard', `${i}/${SHARDS}`, ...CUT]);
    const single = join(cluster.folder, 'single.parquet');
    await succeed(['score', input, '-o', single]);

    await cluster.waitFor('the job behind it', 150, async () => {
      const state = await jobField(checkJob, 'JobState');
      expect(state, 'of the job behind it').toMatch(/^(PENDING|RUNNING|COMPLETING|COMPLETED)$/);
      return state === 'COMPLETED';
    });
    expect(await jobField(`${job}_${lost}`, 'Restarts')).toBe('1');
    expect(await jobField(`${job}_${stopped}`, 'Restarts')).toBe('1');

    const whole = await filesUnder(unbroken);
    const files = await filesUnder(out);
    expect(whole.size).toBeGreaterThan(ROWS / 4);
    expect([...files.keys()]).toEqual([...whole.keys()]);
    for (const [name, bytes] of whole) expect(files.get(name)?.equals(bytes), name).toBe(true);

    const expected = await readScored(single);
    await succeed(['filter', out, '-o', join(cluster.folder, 'one.parquet')]);
    const found = await readScored(join(cluster.folder, 'one.parquet'));
    expect(found.map((row) => row.id)).toEqual(expected.map((row) => row.id));
    expect(found.length).toBe(ROWS);
    for (const [i, row] of found.entries()) expectClose(row, expected[i], row.id);
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

async function succeed(args: readonly string[]): Promise<void> {
  const run = await rredcot(args);
  expect(run.code, run.stderr).toBe(0);
}

/** Path below the folder → content, in order of paths. */
async function filesUnder(folder: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files = new Map<string, Buffer>();
  for (const path of paths.sort()) files.set(path.slice(folder.length + 1), await readFile(path));
  return files;
}

/** The same value, but for numbers that are not whole: those within 1e-5, relative where they are large. */
function expectClose(found: unknown, expected: unknown, where: string): void {
  if (typeof found === 'number' && typeof expected === 'number' && !Number.isInteger(expected)) {
    expect(Math.abs(found - expected), where).toBeLessThanOrEqual(1e-5 * Math.max(1, Math.abs(expected)));
  } else if (
    typeof found === 'object' &&
    found !== null &&
    typeof expected === 'object' &&
    expected !== null
  ) {
    expect(Object.keys(found), where).toEqual(Object.keys(expected));
    for (const [key, value] of Object.entries(found))
      expectClose(value, expected[key as keyof typeof expected], `${where}.${key}`);
  } else {
    expect(found, where).toBe(expected);
  }
}
