// Processes in one run folder: who wants to drop a run sees who works on it, and nobody is held for alive who is dead.
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { type ClaimedRun, claimRun, sweepFolder } from '../../../dist/io/run/claim.js';
import type { Holder } from '../../../dist/io/run/holder.js';
import { enterFolder } from '../../../dist/io/run/presence.js';
import { rredcotHere } from '../../support/in-process.js';
import { temporaryFolder } from '../../support/io-helpers.js';
import { writeFixtures } from '../../support/program.js';

let folder: string;
beforeEach(async () => {
  folder = join(await temporaryFolder(), 'run');
});

const drop = async () => 'dropped';

/** The file of another process, as if that had written it. */
async function other(change: Partial<Holder>, state = 'working'): Promise<string> {
  const own = await enterFolder(folder);
  const [name = ''] = await readdir(folder);
  const holder = JSON.parse(await readFile(join(folder, name), 'utf8')) as Holder;
  await own.leave();
  const path = join(folder, `.${state}.0123456789abcdef.json`);
  await writeFile(path, JSON.stringify({ ...holder, ...change }));
  return path;
}

describe('a file that its process did not finish', () => {
  it.each(['out.jsonl', 'out/'])('goes with the run that comes next, to %s', async (output) => {
    const cwd = await temporaryFolder();
    await writeFixtures(join(cwd, 'in.jsonl'), 3);
    const run = join(cwd, output.endsWith('/') ? output : `.${output}.rredcot-run`);
    await mkdir(run, { recursive: true });
    for (const state of ['coming', 'working'])
      await writeFile(join(run, `.${state}.0123456789abcdef.json.tmp`), '');
    // a file that was there before the run began is older by the clock's own steps
    await sleep(20);
    const format = output.endsWith('/') ? ['--format', 'jsonl'] : [];
    const { code, stderr } = await rredcotHere(
      ['segment', 'in.jsonl', '--no-policy', '--quiet', '-o', output, ...format],
      { cwd },
    );
    expect(code, stderr).toBe(0);
    const left = await readdir(cwd, { recursive: true });
    expect(left.filter((name) => name.endsWith('.tmp') || name.endsWith('rredcot-run'))).toEqual([]);
  });

  it('is written again where another process removes it: many come and go at once', async () => {
    const visit = async () => {
      const presence = await enterFolder(folder);
      await presence.work();
      await presence.leave();
    };
    await Promise.all(Array.from({ length: 40 }, visit));
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('a run', () => {
  it('is dropped by one that is alone, and by nobody while another one works', async () => {
    const [a, b] = [await enterFolder(folder), await enterFolder(folder)];
    expect(await a.alone(drop)).toEqual({ done: 'dropped' });
    await b.work();
    expect(await a.alone(drop)).toMatchObject({ holder: { pid: process.pid } });
    await b.leave();
    expect(await a.alone(drop)).toEqual({ done: 'dropped' });
    await a.leave();
    expect(await readdir(folder)).toEqual([]);
  });

  it('is not worked on while it is dropped', async () => {
    const [a, b] = [await enterFolder(folder), await enterFolder(folder)];
    const order: string[] = [];
    const dropping = a.alone(async () => {
      await sleep(200);
      order.push('dropped');
    });
    await sleep(50);
    const [late] = await Promise.all([
      enterFolder(folder).then((presence) => {
        order.push('came');
        return presence;
      }),
      b.work().then(() => order.push('works')),
      dropping,
    ]);
    expect(order[0]).toBe('dropped');
    for (const each of [a, b, late]) await each.leave();
  });

  it.each<[string, Partial<Holder>, number, boolean]>([
    ['this machine that is gone', { pid: 2 ** 22 + 1 }, 0, false],
    ['this machine whose number another one has', { began: '1' }, 0, false],
    ['another machine that has just been heard of', { host: 'elsewhere' }, 5_000, true],
    ['another machine that has not been heard of for long', { host: 'elsewhere' }, 600_000, false],
    ['before the machine was started again', { boot: 'before' }, 600_000, false],
  ])('of a process on %s', async (_, change, age, isAlive) => {
    const path = await other(change);
    const then = new Date(Date.now() - age);
    await utimes(path, then, then);
    const own = await enterFolder(folder);
    expect('holder' in (await own.alone(drop))).toBe(isAlive);
    await own.leave();
    expect(await readdir(folder)).toHaveLength(isAlive ? 1 : 0);
  });

  it('that is over leaves nothing, though another process is still about to leave', async () => {
    const last = await enterFolder(folder);
    await last.work();
    await writeFile(join(folder, '_SUCCESS'), '{}');
    const swept = sweepFolder(folder, false);
    await sleep(100);
    expect(await readdir(folder)).toContain('_SUCCESS');
    await last.leave();
    await swept;
    expect(existsSync(folder)).toBe(false);
  });

  it('is dropped although a process that died had the lock', async () => {
    const path = await other({ pid: 2 ** 22 + 1 });
    await writeFile(join(folder, '.dropping.json'), await readFile(path));
    const own = await enterFolder(folder);
    expect(await own.alone(drop)).toEqual({ done: 'dropped' });
    await own.leave();
    expect(await readdir(folder)).toEqual([]);
  });

  it('is dropped by one at a time', async () => {
    const all = await Promise.all(Array.from({ length: 8 }, () => enterFolder(folder)));
    let inside = 0;
    const most: number[] = [];
    await Promise.all(
      all.map((each) =>
        each.alone(async () => {
          most.push(++inside);
          await sleep(5);
          inside--;
        }),
      ),
    );
    expect(most).toEqual(new Array(8).fill(1));
    for (const each of all) await each.leave();
  });

  it('that another command has begun first is told as that, to one that began anew too', async () => {
    const asked = (limit: number) => ({
      ...{
        rredcot: '0',
        command: 'score' as const,
        config: { limit },
        policy: null,
        vocab: null,
        passes: null,
      },
      ...{ output: 'jsonl' as const, shards: 1, rows_per_chunk: 8 },
      inputs: [{ path: 'a.jsonl', bytes: 1, mtime_ms: 0, head: '', tail: '' }],
    });
    const claim = (limit: number, overwrite: boolean, meanwhile: () => Promise<unknown>) =>
      claimRun(folder, asked(limit), {
        ...{ isHidden: false, overwrite, isStream: false },
        async describe() {
          await meanwhile();
          return { run: asked(limit), stamps: null };
        },
      });
    const first: ClaimedRun[] = [];
    const winner = async () => first.push(await claim(1, true, async () => {}));
    await expect(claim(2, true, winner)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/--limit is 1, here it is 2; another command has begun it after this/),
      hint: expect.not.stringContaining('--overwrite'),
    });
    // one that finds it there at first is told how to begin anew
    await expect(claim(2, false, winner)).rejects.toMatchObject({
      hint: expect.stringContaining('--overwrite'),
    });
    for (const { presence } of first) await presence.leave();
  });
});
