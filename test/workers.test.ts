// `--workers`: the rows of several processes are those of one; deaths, failures and signals end as they should.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { beforeAll, describe, expect, it } from 'vitest';
import { workerFlags } from '../dist/cli-workers.js';
import { superviseWorkers } from '../dist/commands/supervise.js';
import { workerDevices } from '../dist/commands/workers.js';
import { coreShare, ownCores } from '../dist/cores.js';
import { FIXTURES, ROOT, rredcot, temporaryFolder } from './program.js';

let work: string;
let input: string;
let program: string;

/** a worker that does what its arguments say: die of its own number of starts, fail, wait for the end */
const FAKE = `
import { appendFileSync, readFileSync } from 'node:fs';
const [mode, state] = process.argv.slice(2);
appendFileSync(state, 'x');
const starts = readFileSync(state, 'utf8').length;
const fail = (code) => { process.stderr.write('some line\\nrredcot: no such thing\\n  try: another\\n'); process.exit(code); };
if (mode === 'once' && starts === 1) process.kill(process.pid, 'SIGKILL');
if (mode === 'always') { process.stderr.write('the last words\\n'); process.exit(134); }
if (/^\\d+$/.test(mode)) fail(Number(mode));
if (mode === 'wait') process.on('message', (m) => { if (m === 'stop') { process.stderr.write('rredcot: interrupted\\n'); process.exit(75); } });
else { process.send({ kind: 'progress', fields: { traces: 1 } }); process.disconnect(); }
`;

beforeAll(async () => {
  work = await temporaryFolder();
  input = join(work, 'traces.jsonl');
  const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 40);
  lines.splice(7, 0, '{"prompt": broken');
  lines.splice(30, 0, '{"prompt": "no completion"}');
  await writeFile(input, `${lines.join('\n')}\n`);
  program = join(work, 'fake.mjs');
  await writeFile(program, FAKE);
});

describe('superviseWorkers', () => {
  let runs = 0;
  async function supervise(modes: readonly string[], signal = new AbortController().signal) {
    const state = (n: number) => join(work, `state-${runs}-${n}`);
    runs++;
    const restarts: string[] = [];
    const messages: number[] = [];
    const workers = modes.map((mode, n) => ({ name: `worker ${n}`, args: [mode, state(n)] }));
    const error = await superviseWorkers(workers, {
      program,
      env: process.env,
      signal,
      firstIsReady: async () => {},
      onMessage: (worker) => void messages.push(worker),
      onRestart: (worker, how) => void restarts.push(`${worker}: ${how}`),
    }).catch((caught: unknown) => caught);
    return { error, restarts, messages: messages.sort() };
  }

  it('waits for all', async () => {
    expect(await supervise(['done', 'done', 'done'])).toEqual({
      error: undefined,
      restarts: [],
      messages: [0, 1, 2],
    });
  });

  it('starts a worker that died again, once', async () => {
    const once = await supervise(['done', 'once']);
    expect([once.error, once.restarts]).toEqual([undefined, ['1: killed by SIGKILL']]);
    const always = await supervise(['wait', 'always']);
    expect(always.error).toMatchObject({
      exitCode: 1,
      message: 'worker 1 died twice, exit code 134; it said last: the last words',
    });
    expect(always.restarts).toEqual(['1: exit code 134']);
  });

  it.each([2, 65, 69, 75])('ends the others and passes exit code %i on, with its message', async (code) => {
    const { error, restarts } = await supervise(['wait', `${code}`, 'wait']);
    expect(error).toMatchObject({ exitCode: code, message: 'no such thing', hint: 'another' });
    expect(restarts).toEqual([]);
  });

  it('tells all to stop when it is told to', async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 500);
    expect((await supervise(['wait', 'wait'], controller.signal)).error).toMatchObject({ exitCode: 75 });
  });
});

describe('the flags', () => {
  it('give each worker its device', () => {
    expect(workerDevices(undefined, undefined)).toBeUndefined();
    expect(workerDevices(2, undefined)).toEqual([undefined, undefined]);
    expect(workerDevices(undefined, 'cuda:0, cuda:1')).toEqual(['cuda:0', 'cuda:1']);
    expect(workerDevices(2, 'cuda:0,cpu')).toEqual(['cuda:0', 'cpu', 'cuda:0', 'cpu']);
    expect(() => workerDevices(1, 'cuda,gpu')).toThrow(/--devices gpu: expected/);
    expect(() => workerDevices(1e6, undefined)).toThrow(/--workers 1000000: expected at most \d+ on this/);
    expect(() => workerDevices(1e6, 'cuda')).toThrow(/expected at most/);
  });

  it('go on to the workers as they were given, but for the parent’s own', async () => {
    const command = new Command('score')
      .argument('[inputs...]')
      .option('--policy <folder>', '', 'embedded')
      .option('--no-policy')
      .option('--map <m>')
      .option('--baseline <b>', '', 'auto')
      .option('-o, --output <o>')
      .option('--workers <n>')
      .option('--quiet', '', false)
      .option('--strict', '', false);
    const parsed = (...args: string[]) => workerFlags(command.parse(['node', 'x', ...args]));
    const flags = [
      'in',
      '-oout/',
      '--map',
      'prompt=a',
      '--baseline=-1',
      '--workers',
      '2',
      '--quiet',
      '--strict',
    ];
    expect(parsed(...flags)).toEqual(['--map=prompt=a', '--baseline=-1', '--strict']);
    expect(parsed('--no-policy')).toContain('--no-policy');
  });

  it('share the cores', () => {
    expect(ownCores({})).toBe(availableParallelism());
    expect(ownCores({ RREDCOT_THREADS: '1' })).toBe(1);
    for (const odd of ['0', 'x', '1.5', '100000'])
      expect(ownCores({ RREDCOT_THREADS: odd })).toBe(availableParallelism());
    expect(coreShare(1)).toBe(availableParallelism());
    expect(coreShare(1000)).toBe(1);
  });

  it.each([
    [['-o', '-'], /not stdout/],
    [['-o', 'out/', '--limit', '3'], /--limit counts traces from the first/],
    [['-o', 'out/', '--device', 'cpu', '--devices', 'cpu,cpu'], /both say where to run/],
    [['-o', 'x.parquet', '--shard', '0/2'], /is one file, expected a folder/],
  ])('%j are refused', async (flags, expected) => {
    const { code, stderr } = await rredcot(['score', input, '--workers', '2', ...flags], { cwd: ROOT });
    expect(code).toBe(2);
    expect(stderr).toMatch(expected);
  });
});

/** Chunks, rejects and their hashes. */
async function hashes(folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const name of (await readdir(folder, { recursive: true })).sort())
    if (/^(chunks|rejects)\/.*\.(jsonl|parquet)$/.test(name))
      found[name] = createHash('sha256')
        .update(await readFile(join(folder, name)))
        .digest('hex');
  return found;
}

describe('workers', () => {
  const FLAGS = ['--rows-per-chunk', '4', '--max-segments', '4'];

  it('make the file that one process makes', async () => {
    const one = join(work, 'one.jsonl');
    const two = join(work, 'two.jsonl');
    await rredcot(['segment', input, '-o', one, '--no-policy', ...FLAGS]);
    const run = await rredcot(['segment', input, '-o', two, '--no-policy', '--workers', '3', ...FLAGS]);
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toMatch(/40 traces in .* \(3 workers\)\nrejected: 2/);
    for (const end of ['', '.rejects.jsonl'])
      expect(await readFile(`${two}${end}`, 'utf8')).toBe(await readFile(`${one}${end}`, 'utf8'));
    expect((await readdir(work)).filter((name) => name.startsWith('.'))).toEqual([]);
  }, 30_000);

  it('count rejects together', async () => {
    const output = join(work, 'strict.jsonl');
    const flags = ['-o', output, '--no-policy', '--workers', '2', '--max-rejects', '1', ...FLAGS];
    const { code, stderr } = await rredcot(['segment', input, ...flags]);
    expect(code).toBe(65);
    expect(stderr).toMatch(/2 traces rejected, --max-rejects allows 1/);
    expect(stderr).toContain(`the reasons, in ${output}.rejects.jsonl\n`);
    expect((await readdir(work)).filter((name) => name.startsWith('strict'))).toEqual([
      'strict.jsonl.rejects.jsonl',
    ]);
    expect((await readFile(`${output}.rejects.jsonl`, 'utf8')).split('\n')).toHaveLength(3);
  }, 30_000);

  it('name the rejects beside the file where one of them alone has too many', async () => {
    const output = join(work, 'stricter.jsonl');
    const flags = ['-o', output, '--no-policy', '--workers', '2', '--max-rejects', '0', ...FLAGS];
    const { code, stderr } = await rredcot(['segment', input, ...flags]);
    expect(code).toBe(65);
    expect(stderr).toContain(`--max-rejects allows 0; the reasons are in ${output}.rejects.jsonl\n`);
    expect((await readFile(`${output}.rejects.jsonl`, 'utf8')).split('\n').length).toBeGreaterThan(1);
  }, 30_000);

  it('say what is wrong with an input of which no run can be begun', async () => {
    const damaged = join(work, 'damaged.arrow');
    await writeFile(damaged, (await readFile(join(ROOT, 'test/files/types.arrow'))).subarray(0, 3000));
    const flags = ['-o', join(work, 'never.jsonl'), '--no-policy', '--workers', '2'];
    const { code, stderr } = await rredcot(['segment', damaged, ...flags]);
    expect([code, stderr]).toEqual([65, expect.stringContaining('damaged.arrow: ')]);
  }, 30_000);

  // children of a process are to be had from Linux alone
  it.runIf(process.platform === 'linux')(
    'end with the same bytes whatever dies',
    async () => {
      const flags = (folder: string) => ['score', input, '-o', `${folder}/`, '--workers', '2', ...FLAGS];
      const whole = join(work, 'whole');
      expect((await rredcot(flags(whole))).code).toBe(0);
      const broken = join(work, 'broken');

      // the parent is killed: the workers end by themselves
      const first = begin(flags(broken));
      const orphans = await workersAtWork(first.child, broken);
      first.child.kill('SIGKILL');
      await first.ended;
      for (let n = 0; n < 200 && orphans.some(isAlive); n++) await sleep(50);
      expect(orphans.filter(isAlive)).toEqual([]);

      // a signal: the workers end with it, and what is whole is kept
      await rm(broken, { recursive: true });
      const second = begin(flags(broken));
      await workersAtWork(second.child, broken);
      second.child.kill('SIGTERM');
      expect(await second.ended).toMatchObject({
        code: 75,
        stderr: expect.stringMatching(/interrupted: \d+ chunks? (is|are) kept in/),
      });

      // a worker is killed: it is started again
      const third = begin(flags(broken));
      const [worker] = await children(third.child);
      process.kill(worker as number, 'SIGKILL');
      const { code, stderr } = await third.ended;
      expect(code, stderr).toBe(0);
      expect(stderr).toMatch(/worker 1 of 2 died \(killed by SIGKILL\) and is started again/);
      expect(stderr).toMatch(/resuming: \d+ chunks? (is|are) done/);
      expect(await hashes(broken)).toEqual(await hashes(whole));
      expect((await rredcot(['verify', broken])).code).toBe(0);
    },
    120_000,
  );
});

function begin(args: readonly string[]) {
  const child = spawn(process.execPath, [join(ROOT, 'bin/rredcot.js'), ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = new Promise<{ code: number | null; stderr: string }>((resolve) => {
    child.on('exit', (code) => setTimeout(() => resolve({ code, stderr }), 50));
  });
  return { child, ended };
}

async function children(parent: ChildProcess): Promise<number[]> {
  for (let n = 0; n < 400; n++) {
    const text = await readFile(`/proc/${parent.pid}/task/${parent.pid}/children`, 'utf8').catch(() => '');
    const found = text.split(' ').filter(Boolean).map(Number);
    if (found.length > 0) return found;
    await sleep(50);
  }
  throw new Error('no worker was started');
}

/** Both workers, once a chunk of each is whole. */
async function workersAtWork(parent: ChildProcess, folder: string): Promise<number[]> {
  for (let n = 0; n < 1200; n++) {
    const begun = await Promise.all(
      [0, 1].map((i) => readdir(join(folder, `done/0000${i}-of-00002`)).catch((): string[] => [])),
    );
    if (begun.every((names) => names.some((name) => /^\d+\.json$/.test(name)))) return children(parent);
    await sleep(25);
  }
  throw new Error('no chunk was made');
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
