// Two commands at one output, at random distances: two equal ones make the same bytes, of two different ones the second is refused at its
// start, and nothing of the first's is touched. RREDCOT_TORTURE=<n> for more than one round of each, and Parquet.
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { seeded } from '../oracle/toy.js';
import { rredcotHere } from '../support/in-process.js';
import { BROKEN, type End, start, temporaryFolder, writeFixtures } from '../support/program.js';
import { snapshot } from './snapshot.js';

const ROUNDS = Math.max(1, Math.floor(Number(process.env.RREDCOT_TORTURE ?? 0) / 10));
const SEED = Number(process.env.RREDCOT_TORTURE_SEED ?? Date.now() % 100_000);
/** so far apart that one may have ended before the other begins */
const LONGEST_MS = 1500;

let work: string;
beforeAll(async () => {
  work = await temporaryFolder();
  await writeFixtures(join(work, 'in.jsonl'), 60, { 7: BROKEN, 50: BROKEN });
});

const argsOf = (output: string, segments: number) => [
  ...['segment', '--no-policy', join(work, 'in.jsonl'), '--rows-per-part', '8', '--quiet'],
  ...['--max-segments', `${segments}`, '-o', output],
  ...(output.endsWith('/') ? ['--format', 'jsonl'] : []),
];
const told = (ends: readonly End[], ms: number) =>
  `seed ${SEED}, ${ms.toFixed()} ms: ${ends.map(({ code, stderr }) => `${code} ${stderr}`).join('; ')}`;

describe.each(['x.jsonl', 'x/', ...(ROUNDS > 1 ? ['x.parquet'] : [])])('%s', (name) => {
  /** What a run with so many segments leaves. */
  const whole = new Map<number, Record<string, string>>();
  const place = join(name.replace(/\W/g, '-'));
  const folder = () => join(work, place);
  const output = () => join(folder(), name);
  const anew = async (): Promise<void> => {
    await rm(folder(), { recursive: true, force: true });
    await mkdir(folder());
  };
  beforeAll(async () => {
    for (const segments of [3, 5]) {
      await anew();
      expect((await rredcotHere(argsOf(output(), segments))).code).toBe(0);
      whole.set(segments, await snapshot(folder()));
    }
  });

  async function both(first: readonly string[], second: readonly string[], ms: number): Promise<End[]> {
    await anew();
    const later = sleep(ms).then(() => start(second).end);
    return Promise.all([start(first).end, later]);
  }

  it('equal ones both end well, with the same bytes', async () => {
    const random = seeded(SEED);
    for (let round = 0; round < ROUNDS; round++)
      for (const ms of [0, random() * LONGEST_MS]) {
        const args = argsOf(output(), 3);
        const ends = await both(args, args, ms);
        expect(
          ends.map(({ code }) => code),
          told(ends, ms),
        ).toEqual([0, 0]);
        expect(await snapshot(folder()), told(ends, ms)).toEqual(whole.get(3));
      }
  });

  it('of different ones one has the output, and the other is refused before it has touched anything', async () => {
    const random = seeded(SEED + 1);
    for (let round = 0; round < ROUNDS; round++)
      for (const ms of [0, random() * LONGEST_MS]) {
        const ends = await both(argsOf(output(), 3), argsOf(output(), 5), ms);
        expect(ends.map(({ code }) => code).sort(), told(ends, ms)).toEqual([0, 2]);
        const winner = ends[0]?.code === 0 ? 3 : 5;
        expect(await snapshot(folder()), told(ends, ms)).toEqual(whole.get(winner));
        expect(ends.find(({ code }) => code === 2)?.stderr).toMatch(/another run: .*--max-segments/);
      }
  });

  it('with --overwrite rows never mix, and who has lost the output is told', async () => {
    const random = seeded(SEED + 2);
    for (let round = 0; round < ROUNDS; round++) {
      const ms = random() * LONGEST_MS;
      const ends = await both(argsOf(output(), 3), [...argsOf(output(), 5), '--overwrite'], ms);
      expect([0, 2, 75], told(ends, ms)).toContain(ends[0]?.code);
      // the first one to start need not be the first one to claim: who comes second is refused at its start
      if (ends[0]?.code === 2) expect(ends[0].stderr).toMatch(/--overwrite/);
      expect(ends[1]?.code, told(ends, ms)).toBe(0);
      expect(await snapshot(folder()), told(ends, ms)).toEqual(whole.get(5));
    }
  });
});

// whether a process is stopped is to be had from Linux alone
it.runIf(process.platform === 'linux')(
  'a process stopped before it publishes leaves what took its place',
  async () => {
    const folder = join(work, 'stopped');
    await mkdir(folder);
    const output = join(folder, 'x.jsonl');
    const plan = { under: folder, op: 'rename', path: 'x\\.jsonl$', nth: 0, stops: true };
    const { child, end } = start(argsOf(output, 3), { plan });
    while (!/\) T /.test(await readFile(`/proc/${child.pid}/stat`, 'utf8'))) await sleep(5);
    expect((await start(argsOf(output, 5)).end).code).toBe(2);
    expect((await start([...argsOf(output, 5), '--overwrite']).end).code).toBe(0);
    const made = await snapshot(folder);
    child.kill('SIGCONT');
    const { code, stderr } = await end;
    expect([code, stderr]).toEqual([75, expect.stringContaining('was taken away while this process')]);
    expect(await snapshot(folder)).toEqual(made);
    expect((await readdir(folder)).filter((each) => each.startsWith('.'))).toEqual([]);
  },
);

it.runIf(process.platform === 'linux').each(['_facts$', 'rejects$'])(
  'a process stopped before it makes %s leaves no part of a run that an equal one has ended',
  async (path) => {
    const folder = join(work, `overtaken-${path.slice(0, 3)}`);
    await mkdir(folder);
    const args = argsOf(join(folder, 'x.jsonl'), 3);
    const { child, end } = start(args, { plan: { under: folder, op: 'mkdir', path, nth: 0, stops: true } });
    while (!/\) T /.test(await readFile(`/proc/${child.pid}/stat`, 'utf8'))) await sleep(5);
    expect((await start(args).end).code).toBe(0);
    const made = await snapshot(folder);
    child.kill('SIGCONT');
    const { code, stderr } = await end;
    expect([code, stderr]).toEqual([0, '']);
    expect(await snapshot(folder)).toEqual(made);
    expect((await readdir(folder)).filter((each) => each.startsWith('.'))).toEqual([]);
  },
);

it.each(['x.jsonl', 'x/'])('a file system without hard links: %s', async (name) => {
  const plan = { under: work, op: 'link', nth: 0, every: true, code: 'EPERM' };
  for (const shared of [false, true]) {
    const folder = join(work, `unlinked-${name.replace(/\W/g, '')}-${shared}`);
    await mkdir(folder);
    const [first, second] = [3, shared ? 3 : 5].map((segments) => argsOf(join(folder, name), segments));
    const ends = await Promise.all([first, second].map((args) => start(args as string[], { plan }).end));
    expect(ends.map(({ code }) => code).sort(), told(ends, 0)).toEqual(shared ? [0, 0] : [0, 2]);
    const again = await rredcotHere((ends[0]?.code === 0 ? first : second) as string[]);
    expect(again.code, again.stderr).toBe(0);
  }
});
