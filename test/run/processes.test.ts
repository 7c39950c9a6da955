import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { beforeAll, describe, expect, it } from 'vitest';
import { workerDevices, workerFlags } from '../../dist/cli/worker-flags.js';
import { coreShare, ownCores } from '../../dist/cores.js';
import type { Log } from '../../dist/report/log.js';
import { type Notes, superviseWorkers } from '../../dist/run/workers.js';
import { rredcotHere } from '../support/in-process.js';
import { BROKEN, FIXTURES, INCOMPLETE, ROOT, temporaryFolder, writeFixtures } from '../support/program.js';

let work: string;
let input: string;
let program: string;

/** a worker that does what its arguments say: die of its own number of starts, fail, wait for the end */
const FAKE = `
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
const [mode, state] = process.argv.slice(2);
appendFileSync(state, 'x');
const starts = readFileSync(state, 'utf8').length;
const note = (more) => writeFileSync(process.env.RREDCOT_WORKER, JSON.stringify({ infos: [], warnings: [], ...more }));
const fail = (code, error) => { note({ error }); process.stderr.write('some line\\n'); process.exit(code); };
if (mode === 'once' && starts === 1) process.kill(process.pid, 'SIGKILL');
if (mode === 'always') { process.stderr.write('the last words\\n'); process.exit(134); }
if (mode === 'unnoted') fail(75, undefined);
if (/^\\d+$/.test(mode)) fail(Number(mode), { message: 'no such thing', hint: 'another' });
if (mode === 'wait') {
  process.stdin.resume().on('end', () => fail(75, { message: 'interrupted' }));
  note({ progress: { traces: 0 }, warnings: [['odd', 'the same']] });
} else note({ progress: { traces: 1 }, warnings: [['odd', 'the same']] });
`;

beforeAll(async () => {
  work = await temporaryFolder();
  input = join(work, 'traces.jsonl');
  await writeFixtures(input, 40, { 7: BROKEN, 30: INCOMPLETE });
  program = join(work, 'fake.mjs');
  await writeFile(program, FAKE);
});

describe('superviseWorkers', () => {
  let runs = 0;
  async function supervise(
    modes: readonly string[],
    onNotes: (notes: Notes, stop: AbortController) => void = () => {},
  ) {
    const stop = new AbortController();
    const state = (n: number) => join(work, `state-${runs}-${n}`);
    runs++;
    const warnings: string[] = [];
    const log = { info() {}, warn: (_: string, message: string) => void warnings.push(message) };
    const workers = modes.map((mode, n) => {
      return { name: `worker ${n}`, args: [mode, state(n)], notes: `${state(n)}.json` };
    });
    const found = await superviseWorkers(workers, {
      program,
      signal: stop.signal,
      log: log as unknown as Log,
      onNotes: (notes) => onNotes(notes, stop),
    }).catch((caught: unknown) => caught);
    return { found, restarts: warnings.filter((text) => text !== 'the same') };
  }

  it('waits for all, and hands on what they have noted', async () => {
    const { found, restarts } = await supervise(['done', 'done', 'done']);
    const noted = { infos: [], warnings: [['odd', 'the same']], progress: { traces: 1 } };
    expect([found, restarts]).toEqual([[noted, noted, noted], []]);
  });

  it('starts a worker that died again, once', async () => {
    const once = await supervise(['done', 'once']);
    expect(once.found).toHaveLength(2);
    expect(once.restarts).toEqual(['worker 1 died (killed by SIGKILL) and is started again']);
    const always = await supervise(['wait', 'always']);
    expect(always.found).toMatchObject({
      exitCode: 1,
      message: 'worker 1 died twice, exit code 134; it said last: the last words',
    });
    expect(always.restarts).toEqual(['worker 1 died (exit code 134) and is started again']);
  });

  it.each([2, 65, 69, 75])('ends the others and passes exit code %i on, with its message', async (code) => {
    const { found, restarts } = await supervise(['wait', `${code}`, 'wait']);
    expect(found).toMatchObject({ exitCode: code, message: 'no such thing', hint: 'another' });
    expect(restarts).toEqual([]);
  });

  it('tells what a worker said whose disk takes no note', async () => {
    const { found } = await supervise(['wait', 'unnoted']);
    expect(found).toMatchObject({
      exitCode: 75,
      message: 'worker 1 ended with exit code 75; it said last: some line',
    });
  });

  it('tells all to stop when it is told to', async () => {
    const { found } = await supervise(['wait', 'wait'], (notes, stop) => {
      if (notes.every((each) => each !== undefined)) stop.abort();
    });
    expect(found).toMatchObject({ exitCode: 75 });
  });

  it('ends them all with what speaks against their notes', async () => {
    const tooMany = new Error('too many');
    const { found } = await supervise(['wait'], () => {
      throw tooMany;
    });
    expect(found).toBe(tooMany);
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
    expect(coreShare(1, { RREDCOT_THREADS: '1' })).toBe(1);
  });

  it.each([
    [['-o', '-'], /not stdout/],
    [['-o', 'out/', '--limit', '3'], /--limit counts traces from the first/],
    [['-o', 'out/', '--device', 'cpu', '--devices', 'cpu,cpu'], /both say where to run/],
    [['-o', 'x.parquet', '--shard', '0/2'], /is one file, expected a folder/],
  ])('%j are refused', async (flags, expected) => {
    const { code, stderr } = await rredcotHere(['score', input, '--workers', '2', ...flags], { cwd: ROOT });
    expect(code).toBe(2);
    expect(stderr).toMatch(expected);
  });
});

describe('workers', () => {
  const FLAGS = ['--rows-per-chunk', '4', '--max-segments', '4'];

  it('make the file that one process makes', async () => {
    const one = join(work, 'one.jsonl');
    const two = join(work, 'two.jsonl');
    await rredcotHere(['segment', input, '-o', one, '--no-policy', ...FLAGS]);
    const run = await rredcotHere(['segment', input, '-o', two, '--no-policy', '--workers', '3', ...FLAGS]);
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toMatch(
      /40 traces in .* \(3 workers\)\nalso in status: \(segments:by-length 40\)\nrejected: 2 \(json 1, map 1\)\n {2}\S+traces\.jsonl:\d+: /,
    );
    for (const end of ['', '.rejects.jsonl'])
      expect(await readFile(`${two}${end}`, 'utf8')).toBe(await readFile(`${one}${end}`, 'utf8'));
    expect((await readdir(work)).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  it('count rejects together', async () => {
    const output = join(work, 'strict.jsonl');
    const flags = ['-o', output, '--no-policy', '--workers', '2', '--max-rejects', '1', ...FLAGS];
    // one in a chunk of each worker
    const apart = join(work, 'apart.jsonl');
    const rows = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 8);
    for (const n of [1, 5]) rows[n] = '{"prompt": broken';
    await writeFile(apart, rows.join('\n'));
    const { code, stderr } = await rredcotHere(['segment', apart, ...flags]);
    expect(code).toBe(65);
    expect(stderr).toMatch(/2 traces rejected, --max-rejects allows 1/);
    expect(stderr).toContain(`the reasons, in ${output}.rejects.jsonl\n`);
    expect((await readdir(work)).filter((name) => name.startsWith('strict'))).toEqual([
      'strict.jsonl.rejects.jsonl',
    ]);
    expect((await readFile(`${output}.rejects.jsonl`, 'utf8')).split('\n')).toHaveLength(3);
  });

  it('name the rejects beside the file where one of them alone has too many', async () => {
    const output = join(work, 'stricter.jsonl');
    const flags = ['-o', output, '--no-policy', '--workers', '2', '--max-rejects', '0', ...FLAGS];
    const { code, stderr } = await rredcotHere(['segment', input, ...flags]);
    expect(code).toBe(65);
    expect(stderr).toContain(
      `--max-rejects allows 0; nothing was written but the reasons, in ${output}.rejects.jsonl\n`,
    );
    expect((await readFile(`${output}.rejects.jsonl`, 'utf8')).split('\n').length).toBeGreaterThan(1);
  });

  it("--overwrite drops no run where a folder has somebody's own files in its place", async () => {
    const folder = join(work, 'own');
    await mkdir(join(folder, 'chunks'), { recursive: true });
    await writeFile(join(folder, 'run.json'), '{"mine": true}');
    await writeFile(join(folder, 'chunks/notes.txt'), 'mine');
    const flags = ['-o', `${folder}/`, '--no-policy', '--workers', '2', '--overwrite'];
    const { code, stderr } = await rredcotHere(['segment', input, ...flags]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('run.json: is not what rredcot writes')]);
    expect(await readFile(join(folder, 'chunks/notes.txt'), 'utf8')).toBe('mine');
  });

  it('say what is wrong with an input of which no run can be begun', async () => {
    const damaged = join(work, 'damaged.arrow');
    await writeFile(damaged, (await readFile(join(ROOT, 'test/files/types.arrow'))).subarray(0, 3000));
    const flags = ['-o', join(work, 'never.jsonl'), '--no-policy', '--workers', '2'];
    const { code, stderr } = await rredcotHere(['segment', damaged, ...flags]);
    expect([code, stderr]).toEqual([65, expect.stringContaining('damaged.arrow: ')]);
  });
});
