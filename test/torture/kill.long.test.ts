// SIGKILL at named and at random moments, then the same command until it ends: the bytes are those of an unbroken run.
// 18 rounds, which reach each of MOMENTS; `npm run torture` does 200; RREDCOT_TORTURE_SEED=<n> does the rounds from a printed
// seed again.
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { seeded } from '../oracle/toy.js';
import { BROKEN, hiddenRun, start, temporaryFolder, writeFixtures } from '../support/program.js';
import type { FsPlan } from './fs-hook.mjs';
import { snapshot } from './snapshot.js';

const ROUNDS = Number(process.env.RREDCOT_TORTURE ?? 18);
const SEED = Number(process.env.RREDCOT_TORTURE_SEED ?? 1);
/** deaths a round: then it may end */
const MAX_DEATHS = ROUNDS > 18 ? 4 : 2;

interface Job {
  readonly name: string;
  readonly command: readonly string[];
  /** `.` and extension of a single file, or `/` for a run folder */
  readonly output: string;
  readonly format: string;
  readonly shards: number;
}

const SEGMENT = ['segment', '--no-policy'];
const JOBS: readonly Job[] = [
  { name: 'segment to .jsonl', command: SEGMENT, output: '.jsonl', format: 'jsonl', shards: 1 },
  { name: 'segment to .parquet', command: SEGMENT, output: '.parquet', format: 'parquet', shards: 1 },
  { name: 'segment to .arrow', command: SEGMENT, output: '.arrow', format: 'arrow', shards: 1 },
  { name: 'segment to a folder of Parquet', command: SEGMENT, output: '/', format: 'parquet', shards: 1 },
  { name: 'segment, 2 shards of JSONL', command: SEGMENT, output: '/', format: 'jsonl', shards: 2 },
  { name: 'score to .parquet', command: ['score'], output: '.parquet', format: 'parquet', shards: 1 },
  { name: 'segment, 2 shards of Arrow', command: SEGMENT, output: '/', format: 'arrow', shards: 2 },
  { name: 'score, 2 shards of Parquet', command: ['score'], output: '/', format: 'parquet', shards: 2 },
];

type Moment = Pick<FsPlan, 'op' | 'path' | 'nth' | 'when'>;

const before = (op: string, path: string): Moment => ({ op, path, nth: 0, when: 'before' });
const after = (op: string, path: string): Moment => ({ op, path, nth: 0, when: 'after' });

/** The moments between which the state on disk changes; each is met in one of the first rounds. */
const MOMENTS: readonly (readonly [name: string, death: Moment, job: (job: Job) => boolean])[] = [
  ['before run.json', before('link', 'run\\.json$'), () => true],
  ['after run.json', after('link', 'run\\.json$'), () => true],
  ['in the survey', before('write', 'survey\\.json'), isSurveyed],
  ['in a chunk', before('write', 'chunks/.*/\\.000001'), () => true],
  ['at the rename of a chunk', before('rename', 'chunks/.*/000001'), () => true],
  ['between chunk and record', before('write', 'done/.*/\\.000001'), () => true],
  ['at the rename of a record', before('rename', 'done/.*/000001'), () => true],
  ['before the record of the shard', before('write', 'done/\\.\\d+-of'), () => true],
  ['before _SUCCESS', before('rename', '_SUCCESS$'), () => true],
  ['after the rejects', after('rename', 'rejects\\.jsonl$'), isFile],
  ['in the merge', before('write', '[0-9a-f]{16}/\\.out\\.(jsonl|arrow|parquet)\\.'), isFile],
  ['at the final link', before('link', '/out\\.\\w+$'), isFile],
  ['after the final link', after('link', '/out\\.\\w+$'), isFile],
  ['while the folder is removed', after('rm', '[0-9a-f]{16}/done'), isFile],
];

/** One shard of `segment --no-policy` guesses its types: test/guess.test.ts. */
function isSurveyed({ command, format, shards }: Job): boolean {
  return format !== 'jsonl' && (command !== SEGMENT || shards > 1);
}

function isFile({ output }: Job): boolean {
  return output !== '/';
}

let work: string;
let input: string;

beforeAll(async () => {
  work = await temporaryFolder();
  input = join(work, 'in.jsonl');
  await writeFixtures(input, 11, { 5: BROKEN });
});

/** One attempt. @param death a call of the file system at which it dies, or milliseconds after which it is killed */
async function attempt(
  { command, format }: Job,
  output: string,
  shard: string[],
  death: Moment | number | null,
) {
  const args = [...command, input, '-o', output, '--format', format, '--rows-per-chunk', '3', ...shard];
  args.push('--max-segments', '4', '--quiet');
  const plan = typeof death === 'object' && death !== null ? { under: work, ...death } : undefined;
  const started = performance.now();
  const { child, end } = start(args, { plan });
  const timer = typeof death === 'number' ? setTimeout(() => child.kill('SIGKILL'), death) : undefined;
  const ended = await end;
  clearTimeout(timer);
  return { ...ended, ms: performance.now() - started };
}

/** The state in which a death has left a run, for the report. */
async function stateOf(place: string, { output, shards, format }: Job): Promise<string> {
  const hidden = output === '/' ? undefined : await hiddenRun(place, `out${output}`);
  const folder = output === '/' ? join(place, 'out') : (hidden ?? join(place, 'none'));
  const names = await readdir(folder, { recursive: true }).catch(() => [] as string[]);
  const isPublished = output !== '/' && (await readdir(place)).includes(`out${output}`);
  if (isPublished) return names.length > 0 ? 'published, folder there' : 'finished';
  if (names.includes('_SUCCESS')) return output === '/' ? 'finished' : 'before the output';
  if (!names.includes('run.json')) return 'before run.json';
  const chunks = names.filter((name) => new RegExp(`^chunks/[^/]+/\\d+\\.${format}$`).test(name)).length;
  const records = names.filter((name) => /^done\/[^/]+\/\d+\.json$/.test(name)).length;
  if (names.some((name) => /^chunks\/.*\.tmp$/.test(name))) return 'in a chunk';
  if (chunks > records) return 'chunk without record';
  if (names.filter((name) => /^done\/\d+-of-\d+\.json$/.test(name)).length === shards)
    return 'before _SUCCESS';
  if (records > 0) return 'between chunks';
  return names.includes('survey.json') ? 'after the survey' : 'before or in the survey';
}

describe('killed and started again', () => {
  it(
    `${ROUNDS} rounds end with the bytes of an unbroken run`,
    async () => {
      const whole = new Map<string, { files: Record<string, string>; ms: number }>();
      const shardsOf = ({ shards }: Job): string[][] =>
        shards === 1 ? [[]] : Array.from({ length: shards }, (_, i) => ['--shard', `${i}/${shards}`]);
      const outputOf = (place: string, job: Job) =>
        isFile(job) ? join(place, `out${job.output}`) : `${join(place, 'out')}/`;
      for (const [n, job] of JOBS.entries()) {
        const place = join(work, `whole-${n}`);
        await mkdir(place);
        let ms = 0;
        for (const shard of shardsOf(job)) {
          const end = await attempt(job, outputOf(place, job), shard, null);
          expect(end.code, end.stderr).toBe(0);
          ms = end.ms;
        }
        whole.set(job.name, { files: await snapshot(place), ms });
      }

      const states = new Map<string, number>();
      const met = new Set<string>();
      let deaths = 0;
      async function round(n: number): Promise<void> {
        const random = seeded(SEED + n);
        const [name, moment, has] = MOMENTS[n] ?? [];
        const jobs = has === undefined ? JOBS : JOBS.filter((job) => job.shards === 1 && has(job));
        const job = jobs[n % jobs.length] as Job;
        const { files, ms } = whole.get(job.name) as { files: Record<string, string>; ms: number };
        const place = join(work, `round-${n}`);
        await mkdir(place);
        for (const shard of shardsOf(job)) {
          for (let killed = 0; ; killed++) {
            const calls: Moment = {
              op: 'any',
              nth: Math.floor(random() * 150),
              when: random() < 0.5 ? 'before' : 'after',
            };
            const sooner = random() < 0.5 ? calls : random() * ms;
            const death = killed === MAX_DEATHS ? null : killed === 0 ? (moment ?? sooner) : sooner;
            const end = await attempt(job, outputOf(place, job), shard, death);
            const what = `seed ${SEED + n}, ${job.name}, ${JSON.stringify(death)}: ${end.stderr}`;
            if (end.signal === null) {
              expect(end.code, what).toBe(0);
              break;
            }
            if (death === moment && name !== undefined) met.add(name);
            deaths++;
            const state = await stateOf(place, job);
            states.set(state, (states.get(state) ?? 0) + 1);
            // whatever has its final name is whole
            const left = await snapshot(place);
            for (const path of Object.keys(left).filter((path) => !/(^|\/)\./.test(path)))
              expect(left[path], `${what}: ${path}`).toBe(files[path]);
          }
        }
        expect(await snapshot(place), `seed ${SEED + n}, ${job.name}`).toEqual(files);
      }
      let next = 0;
      const worker = async (): Promise<void> => {
        while (next < ROUNDS) await round(next++);
      };
      await Promise.all([worker(), worker()]);
      const counts = [...states].sort().map(([state, count]) => `${state} ${count}`);
      console.log(`seed ${SEED}: ${ROUNDS} rounds, ${deaths} deaths: ${counts.join(', ')}`);
      expect([...met].sort()).toEqual(
        MOMENTS.slice(0, ROUNDS)
          .map(([name]) => name)
          .sort(),
      );
    },
    ROUNDS * 60_000,
  );
});
