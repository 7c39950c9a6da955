// Commands of a training loop, in one process: each does what it does in a process of its own.
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, it } from 'vitest';
import { CORES_VARIABLE } from '../../dist/cores.js';
import { rredcotHere } from '../support/in-process.js';
import { EMBEDDED, FIXTURES, PROVER, ROOT, temporaryFolder } from '../support/program.js';

const folder = await temporaryFolder();
const running = new Set<ChildProcessWithoutNullStreams>();
afterEach(() => {
  for (const child of running) child.kill('SIGKILL');
  running.clear();
});

interface Loop {
  /** answers one command, given as its arguments or as a line */
  run(command: readonly string[] | string | Buffer): Promise<{ exit_code: number; seconds: number }>;
  readonly child: ChildProcessWithoutNullStreams;
  stderr(): string;
  ended: Promise<number | null>;
}

function openLoop(): Loop {
  const child = spawn(process.execPath, [join(ROOT, 'bin/rredcot.js'), 'loop'], { cwd: folder });
  running.add(child);
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async run(command) {
      child.stdin.write(Array.isArray(command) ? JSON.stringify(command) : (command as string | Buffer));
      child.stdin.write('\n');
      const { value } = await answers.next();
      return JSON.parse(value);
    },
    child,
    stderr: () => stderr,
    ended: new Promise((resolve) => child.once('close', resolve)),
  };
}

const SCORE = ['score', FIXTURES, '--limit', '3', '--policy', 'policy', '--overwrite'];

describe('loop', () => {
  it('scores with the weights that lie there now, to the bytes of a process of its own', async () => {
    const { run, child, ended, stderr } = openLoop();
    for (const [n, weights] of [EMBEDDED, PROVER, EMBEDDED].entries()) {
      await cp(weights, join(folder, 'checkpoint'), { recursive: true });
      expect(await run(['policy', 'build', 'checkpoint', '-o', 'policy']), stderr()).toMatchObject({
        exit_code: 0,
      });
      for (const format of ['parquet', 'jsonl']) {
        expect((await run([...SCORE, '-o', `here.${format}`])).exit_code, stderr()).toBe(0);
        const alone = await rredcotHere([...SCORE, '-o', `alone-${n}.${format}`], { cwd: folder });
        expect(alone.code, alone.stderr).toBe(0);
        const bytes = (file: string) => readFile(join(folder, file));
        expect(await bytes(`here.${format}`)).toEqual(await bytes(`alone-${n}.${format}`));
      }
    }
    child.stdin.end();
    expect(await ended).toBe(0);
    const scored = (n: number) => readFile(join(folder, `alone-${n}.jsonl`), 'utf8');
    expect(await scored(1)).not.toBe(await scored(0));
    expect(await scored(2)).toBe(await scored(0));
  });

  it('goes on behind a command that fails, and ends with its code', async () => {
    const { run, child, ended, stderr } = openLoop();
    const config = { output: '-', format: 'jsonl', limit: 2 };
    await writeFile(join(folder, 'stdout.json'), JSON.stringify(config));
    await writeFile(join(folder, 'cut.json'), JSON.stringify({ output: 'cut.jsonl', policy: false }));
    const wrong: [readonly string[] | string | Buffer, number, RegExp][] = [
      ['score traces.jsonl', 2, /found score traces\.jsonl, expected a JSON array of texts/],
      ['["score", 1]', 2, /expected a JSON array/],
      ['', 2, /found an empty line/],
      [JSON.stringify(['verify', 'x'.repeat(2 ** 24)]), 2, /found \["verify","x+…, expected a JSON array/],
      [['score', '-o', 'x.jsonl'], 2, /cannot read stdin/],
      [['score', '-', '-o', 'x.jsonl'], 2, /cannot read stdin/],
      [['score', '/dev/stdin', '-o', 'x.jsonl'], 2, /cannot read stdin/],
      [['score', FIXTURES, '--join', '/dev/fd/0', '-o', 'x.jsonl'], 2, /cannot read stdin/],
      [['score', FIXTURES, '-o', '-'], 2, /cannot write to stdout/],
      [['score', FIXTURES, '--format', 'jsonl', '-o', '/dev/stdout'], 2, /cannot write to stdout/],
      [['segment', FIXTURES], 2, /cannot write to stdout/],
      [['inspect'], 2, /cannot read stdin/],
      [['score', FIXTURES, '--config', 'stdout.json'], 2, /cannot write to stdout/],
      [['status', 'a\0b'], 2, /JSON array of texts, in UTF-8 and without NUL/],
      ['["status", "\\ud800"]', 2, /without NUL/],
      [Buffer.from('["status", "caf\xe9"]', 'latin1'), 2, /in UTF-8/],
      [['loop'], 2, /unknown command 'loop'/],
      [['verify', 'not-there.jsonl'], 2, /not-there\.jsonl/],
      [['score', FIXTURES, '--time-limit', '0.01', '-o', 'late.jsonl'], 75, /interrupted/],
    ];
    let told = 0;
    for (const [command, code, text] of wrong) {
      expect(await run(command), String(command)).toMatchObject({ exit_code: code });
      await expect.poll(() => stderr().slice(told), { timeout: 10_000 }).toMatch(text);
      told = stderr().length;
    }
    // what it prints is no answer
    expect((await run(['score', FIXTURES, '--limit', '2', '--dry-run'])).exit_code).toBe(0);
    expect((await run(['segment', FIXTURES, '--config', 'cut.json'])).exit_code, stderr()).toBe(0);
    // a last line needs no newline
    child.stdin.end(JSON.stringify(['segment', FIXTURES, '--no-policy', '-o', 'last.jsonl']));
    expect(await ended).toBe(2);
    expect(stderr()).toContain('traces');
    expect(existsSync(join(folder, 'last.jsonl'))).toBe(true);
  });

  it('gives --threads to one command alone', async () => {
    const before = process.env[CORES_VARIABLE];
    for (const cores of ['2', undefined]) {
      if (cores === undefined) delete process.env[CORES_VARIABLE];
      else process.env[CORES_VARIABLE] = cores;
      const command = ['score', FIXTURES, '--limit', '1', '--threads', '1', '-o', `${cores}.jsonl`];
      const { code, stderr, stdout } = await rredcotHere(['loop'], {
        cwd: folder,
        stdin: `${JSON.stringify(command)}\n`,
      });
      expect(code, stderr).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({ exit_code: 0 });
      expect(process.env[CORES_VARIABLE]).toBe(cores);
    }
    if (before !== undefined) process.env[CORES_VARIABLE] = before;
  });

  it('ends with 75 when nobody reads its answers any more', async () => {
    const { run, child, ended, stderr } = openLoop();
    expect((await run(['--version'])).exit_code).toBe(0);
    child.stdout.destroy();
    // stdin stays open
    for (let n = 0; n < 3; n++) child.stdin.write('["--version"]\n');
    expect(await ended).toBe(75);
    expect(stderr()).toContain('nobody reads the answers any more');
  });

  it('takes no folder for stdin, nor the file of its answers for an output', () => {
    const loop = (redirected: string) =>
      spawnSync(
        'sh',
        ['-c', `"$0" "$1" loop ${redirected}`, process.execPath, join(ROOT, 'bin/rredcot.js')],
        {
          cwd: folder,
          encoding: 'utf8',
        },
      );
    expect(loop('< .')).toMatchObject({ status: 2, stderr: expect.stringContaining('stdin: is a folder') });
    const command = JSON.stringify(['segment', FIXTURES, '--no-policy', '-o', 'answers.jsonl']);
    const { status, stderr } = loop(`> answers.jsonl <<'E'\n${command}\nE\n`);
    expect([status, stderr]).toEqual([2, expect.stringContaining('cannot write to stdout')]);
    expect(readFileSync(join(folder, 'answers.jsonl'), 'utf8')).toMatch(/^\{"exit_code":2,.*\}\n$/);
  });

  it('ends with 75 at a signal, and what was done is kept', async () => {
    const waiting = openLoop();
    expect((await waiting.run(['status', 'nothing'])).exit_code).toBe(2);
    waiting.child.kill('SIGTERM');
    expect(await waiting.ended).toBe(75);
    const { run, child, ended, stderr } = openLoop();
    const answered = run(['score', FIXTURES, '--rows-per-chunk', '1', '-o', 'run/', '--log-json']);
    await expect.poll(stderr, { timeout: 30_000 }).toMatch(/"msg":"chunk"/);
    child.kill('SIGTERM');
    expect((await answered).exit_code).toBe(75);
    expect(await ended).toBe(75);
    const status = await rredcotHere(['status', 'run/', '--json'], { cwd: folder });
    const { finished, chunks } = JSON.parse(status.stdout);
    expect([finished, chunks > 0]).toEqual([false, true]);
  });
});
