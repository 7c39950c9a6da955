// Workers, their parent or a signal end a run in the middle: the same command goes on, and the bytes are the same.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { BROKEN, INCOMPLETE, ROOT, rredcot, temporaryFolder, writeFixtures } from '../support/program.js';

let work: string;
let input: string;

beforeAll(async () => {
  work = await temporaryFolder();
  input = join(work, 'traces.jsonl');
  await writeFixtures(input, 40, { 7: BROKEN, 30: INCOMPLETE });
});

const FLAGS = ['--rows-per-chunk', '4', '--max-segments', '4'];

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

// children of a process are to be had from Linux alone
it.runIf(process.platform === 'linux')('end with the same bytes whatever dies', async () => {
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
    stderr: expect.stringMatching(/interrupted: \d+ chunks? of 4 rows (is|are) kept in/),
  });

  // a worker is killed: it is started again
  const third = begin(flags(broken));
  const [worker] = await children(third.child);
  process.kill(worker as number, 'SIGKILL');
  const { code, stderr } = await third.ended;
  expect(code, stderr).toBe(0);
  expect(stderr).toMatch(/worker [12] of 2 died \(killed by SIGKILL\) and is started again/);
  expect(stderr).toMatch(/resuming: \d+ chunks? (is|are) done/);
  expect(await hashes(broken)).toEqual(await hashes(whole));
  expect((await rredcot(['verify', broken])).code).toBe(0);
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
    child.on('close', (code) => resolve({ code, stderr }));
  });
  return { child, ended };
}

async function children(parent: ChildProcess): Promise<number[]> {
  for (let n = 0; n < 400; n++) {
    const text = await readFile(`/proc/${parent.pid}/task/${parent.pid}/children`, 'utf8').catch(() => '');
    const found = text.split(' ').filter(Boolean).map(Number);
    // beside them a process of the parent's own reads texts
    const commands = await Promise.all(
      found.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
    );
    const workers = found.filter((_, n) => commands[n]?.includes('--shard='));
    if (workers.length > 0) return workers;
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
