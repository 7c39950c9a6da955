// SIGKILL at named and at random moments, then the same command until it ends: the bytes are those of an unbroken run.
// 17 rounds, which reach each of MOMENTS; `npm run torture` does 200; RREDCOT_TORTURE_SEED=<n> does the rounds from a printed
// seed again.
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { seeded } from '../oracle/toy.js';
import { BROKEN, start, temporaryFolder, writeFixtures } from '../support/program.js';
import { IS_TORTURE } from '../support/torture.js';
import type { FsPlan } from './fs-hook.mjs';
import { snapshot } from './snapshot.js';

const ROUNDS = Number(process.env.RREDCOT_TORTURE ?? 17);
const SEED = Number(process.env.RREDCOT_TORTURE_SEED ?? Date.now() % 100_000);
/** so often a command is killed at most before it is let alone */
const MAX_DEATHS = IS_TORTURE ? 5 : 1;

interface Job {
  readonly name: string;
  readonly command: readonly string[];
  /** how the output's name ends; `/` is a folder */
  readonly output: string;
  readonly format: string;
  /** processes at a time, one a shard */
  readonly shards: number;
}

const SEGMENT = ['segment', '--no-policy'];
const JOBS: readonly Job[] = [
  { name: 'a file of JSONL', command: SEGMENT, output: '.jsonl', format: 'jsonl', shards: 1 },
  { name: 'a file of Parquet', command: SEGMENT, output: '.parquet', format: 'parquet', shards: 1 },
  { name: 'a file of Arrow', command: SEGMENT, output: '.arrow', format: 'arrow', shards: 1 },
  { name: 'a folder of Parquet', command: SEGMENT, output: '/', format: 'parquet', shards: 1 },
  { name: '3 shards of JSONL', command: SEGMENT, output: '/', format: 'jsonl', shards: 3 },
  { name: 'score to a file', command: ['score'], output: '.parquet', format: 'parquet', shards: 1 },
  {
    name: 'a probe to a file',
    command: ['score', '--estimator', 'probe'],
    output: '.jsonl',
    format: 'jsonl',
    shards: 1,
  },
  {
    name: 'a probe to a folder',
    command: ['score', '--estimator', 'probe'],
    output: '/',
    format: 'parquet',
    shards: 1,
  },
  { name: '2 shards of score', command: ['score'], output: '/', format: 'parquet', shards: 2 },
];

type Moment = Pick<FsPlan, 'op' | 'path' | 'nth' | 'when'>;

const at = (op: string, path: string, when: 'before' | 'after' = 'before'): Moment => ({
  op,
  path,
  nth: 0,
  when,
});
const isFile = ({ output }: Job): boolean => output !== '/';

/** The moments between which the state on disk changes; each is met in one of the first rounds. */
const MOMENTS: readonly (readonly [name: string, death: Moment, has: (job: Job) => boolean])[] = [
  ['before _run.json', at('link', '_run\\.json$'), () => true],
  ['after _run.json', at('link', '_run\\.json$', 'after'), () => true],
  ['between answers', at('rename', 'answers-'), ({ name }) => name.includes('probe')],
  ['in a part', at('write', '/\\.part-00001\\.'), () => true],
  ['before the rejects of a part', at('rename', 'rejects/part-'), () => true],
  ['between rejects and part', at('rename', 'rejects/part-', 'after'), () => true],
  ['before the facts of lines', at('rename', '_facts/part-00001'), ({ format }) => format === 'jsonl'],
  ['at the rename of a part', at('rename', '/part-00001\\.\\w+$'), () => true],
  ['after the rename of a part', at('rename', '/part-00001\\.\\w+$', 'after'), () => true],
  ['before the card', at('rename', 'README\\.md$'), (job) => !isFile(job)],
  ['in the joined file', at('write', '\\.run/\\.out\\.'), isFile],
  ['after the rejects', at('rename', 'rejects\\.jsonl$', 'after'), isFile],
  ['after the summary', at('rename', 'summary\\.json$', 'after'), isFile],
  ['before the file', at('rename', '/out\\.\\w+$'), isFile],
  ['after the file', at('rename', '/out\\.\\w+$', 'after'), isFile],
  ['before the folder goes', at('rename', '\\.run\\.[0-9a-f]+\\.tmp$'), isFile],
  ['while the folder goes', at('rm', '\\.run\\.[0-9a-f]+\\.tmp$'), isFile],
];

let work: string;
let input: string;

beforeAll(async () => {
  work = await temporaryFolder();
  input = join(work, 'in.jsonl');
  await writeFixtures(input, 11, { 5: BROKEN });
});

/** One attempt. @param death a call of the file system at which it dies, or milliseconds after which it is killed */
async function attempt(
  { command, format, output }: Job,
  place: string,
  shard: string[],
  death: Moment | number | null,
) {
  const out = output === '/' ? `${join(place, 'out')}/` : join(place, `out${output}`);
  const args = [...command, input, '-o', out, '--format', format, '--rows-per-part', '3', ...shard];
  const plan = typeof death === 'object' && death !== null ? { under: work, ...death } : undefined;
  const started = performance.now();
  const { child, end } = start([...args, '--max-segments', '4', '--quiet'], { plan });
  const timer = typeof death === 'number' ? setTimeout(() => child.kill('SIGKILL'), death) : undefined;
  const ended = await end;
  clearTimeout(timer);
  return { ...ended, ms: performance.now() - started };
}

it(
  `killed and started again: ${ROUNDS} rounds end with the bytes of an unbroken run`,
  async () => {
    const whole = new Map<Job, { files: Record<string, string>; ms: number }>();
    for (const [n, job] of JOBS.entries()) {
      const place = join(work, `whole-${n}`);
      await mkdir(place);
      const end = await attempt(job, place, [], null);
      expect(end.code, end.stderr).toBe(0);
      whole.set(job, { files: await snapshot(place), ms: end.ms });
    }

    const met = new Set<string>();
    let deaths = 0;
    async function round(n: number): Promise<void> {
      const random = seeded(SEED + n);
      const [name, moment, has] = MOMENTS[n] ?? [];
      const jobs = has === undefined ? JOBS : JOBS.filter((job) => job.shards === 1 && has(job));
      const job = (jobs[n % jobs.length] ?? JOBS[4]) as Job;
      const { files, ms } = whole.get(job) as { files: Record<string, string>; ms: number };
      const place = join(work, `round-${n}`);
      await mkdir(place);
      // shards are at work at a time, each as fast as its own deaths let it be
      const shard = async (flags: string[]): Promise<void> => {
        for (let killed = 0; ; killed++) {
          const calls: Moment = {
            op: 'any',
            nth: Math.floor(random() * 120),
            when: random() < 0.5 ? 'before' : 'after',
          };
          const sooner = random() < 0.5 ? calls : random() * ms;
          const death = killed === MAX_DEATHS ? null : killed === 0 ? (moment ?? sooner) : sooner;
          const end = await attempt(job, place, flags, death);
          const what = `seed ${SEED + n}, ${job.name}, ${JSON.stringify(death)}: ${end.stderr}`;
          if (end.signal === null) {
            expect(end.code, what).toBe(0);
            return;
          }
          if (death === moment && name !== undefined) met.add(name);
          deaths++;
          // whatever has its final name is whole
          const left = await snapshot(place);
          for (const path of Object.keys(left).filter((each) => !/(^|\/)\./.test(each)))
            expect(left[path], `${what}: ${path}`).toBe(files[path]);
        }
      };
      const all = Array.from({ length: job.shards }, (_, i) =>
        job.shards === 1 ? [] : ['--shard', `${i}/${job.shards}`],
      );
      await Promise.all(all.map(shard));
      expect(await snapshot(place), `seed ${SEED + n}, ${job.name}`).toEqual(files);
      expect(
        (await readdir(place)).filter((each) => each.startsWith('.')),
        `seed ${SEED + n}`,
      ).toEqual([]);
    }
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < ROUNDS) await round(next++);
    };
    await Promise.all([worker(), worker()]);
    console.log(`seed ${SEED}: ${ROUNDS} rounds, ${deaths} deaths`);
    const wanted = MOMENTS.slice(0, ROUNDS).map(([name]) => name);
    expect([...met].sort()).toEqual(wanted.sort());
  },
  ROUNDS * 120_000,
);
