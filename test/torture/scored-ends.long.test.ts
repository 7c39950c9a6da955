// What `redistribute` and `filter` leave where they are killed, or a call of the file system fails: nothing but a whole file, for good.
import { appendFile, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { BROKEN, start, temporaryFolder, writeFixtures } from '../support/program.js';
import { editJson } from '../support/scene.js';
import { type FsPlan, fsReport, installFsHook, planFs } from './fs-hook.mjs';
import { snapshot } from './snapshot.js';

let work: string;
const at = (name: string) => join(work, name);

beforeAll(async () => {
  process.setMaxListeners(0);
  work = await temporaryFolder();
  await writeFixtures(at('in.jsonl'), 6);
  for (const name of ['scored.jsonl', 'scored.parquet']) {
    const { code, stderr } = await rredcotHere(['score', at('in.jsonl'), '-o', at(name)]);
    expect(code, stderr).toBe(0);
  }
  // a reject, in lines of which nobody knows the hash
  await appendFile(at('scored.jsonl'), `${BROKEN}\n`);
  await editJson(at('scored.jsonl.summary.json'), (summary) => delete summary.sha256);
});

const JOBS = [
  ['redistribute to JSONL', 'jsonl', ['redistribute', 'scored.jsonl', '--sigma', 'rudder']],
  ['redistribute to Parquet', 'parquet', ['redistribute', 'scored.jsonl', '--sigma', 'rudder']],
  ['filter of Parquet', 'parquet', ['filter', 'scored.parquet', '--where', 'reward == 1']],
] as const;

const argsOf = ([command, source, ...flags]: readonly string[], output: string) => [
  ...[command as string, at(source as string), ...flags, '-o', output, '--quiet'],
];

const MOMENTS: readonly (readonly [string, Omit<FsPlan, 'under'>])[] = [
  ['in the file', { op: 'write', path: '\\.part-00000\\.\\w+\\.[0-9a-f]{8}\\.tmp$', nth: 0, when: 'before' }],
  ['before the summary', { op: 'rename', path: 'summary\\.json$', nth: 0, when: 'before' }],
  ['after the summary', { op: 'rename', path: 'summary\\.json$', nth: 0, when: 'after' }],
  ['before it gets its name', { op: 'rename', path: '/out\\.\\w+$', nth: 0, when: 'before' }],
  ['after it got its name', { op: 'rename', path: '/out\\.\\w+$', nth: 0, when: 'after' }],
];

describe.each(JOBS)('%s', (name, format, job) => {
  const place = () => at(name.replaceAll(' ', '-'));
  const args = () => argsOf(job, join(place(), `out.${format}`));
  const anew = async (): Promise<void> => {
    await rm(place(), { recursive: true, force: true });
    await mkdir(place());
  };
  let whole: Record<string, string>;
  beforeAll(async () => {
    await anew();
    const { code, stderr } = await rredcotHere(args());
    expect(code, stderr).toBe(0);
    whole = await snapshot(place());
  });

  it.each(MOMENTS)('killed %s: the same command sweeps what is left', async (_, plan) => {
    await anew();
    expect((await start(args(), { plan: { under: work, ...plan } }).end).signal).toBe('SIGKILL');
    const left = await snapshot(place());
    for (const each of Object.keys(left).filter((path) => !/(^|\/)\./.test(path)))
      expect(left[each], each).toBe(whole[each]);
    const { code, stderr } = await rredcotHere(args());
    expect(code, stderr).toBe(0);
    expect(await snapshot(place())).toEqual(whole);
    expect((await readdir(place())).filter((each) => each.startsWith('.'))).toEqual([]);
  });

  it('a call that fails leaves nothing, or the whole file', async () => {
    await installFsHook();
    let faults = 0;
    for (const op of ['open', 'write', 'sync', 'rename', 'link', 'mkdir'])
      for (let [nth, isCalled] = [0, true]; isCalled; nth++) {
        await anew();
        planFs({ under: place(), op, nth, code: nth % 2 === 0 ? 'ENOSPC' : 'EDQUOT' });
        const { code } = await rredcotHere(args());
        isCalled = fsReport().fired;
        planFs(null);
        const what = `${op} ${nth}: exit ${code}`;
        const left = await readdir(place());
        if (isCalled) faults++;
        if (left.includes(`out.${format}`))
          expect((await snapshot(place()))[`out.${format}`], what).toBe(whole[`out.${format}`]);
        else {
          expect(code, what).toBe(75);
          // what belongs to it is there before it; rows that are whole wait for the same command
          const half = left.filter((name) => !/\.(rejects\.jsonl|summary\.json|run)$/.test(name));
          expect(half, what).toEqual([]);
        }
      }
    expect(faults).toBeGreaterThan(5);
  });
});
