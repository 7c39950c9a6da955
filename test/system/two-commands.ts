// Two different commands at one output, at random distances: one of them has it, the other is told, and rows never mix.
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { seeded } from '../oracle/toy.js';
import { type Run, rredcot, temporaryFolder, writeFixtures } from '../support/program.js';

const SEED = 12;
/** so far apart that one may have ended before the other begins */
const LONGEST_MS = 1200;

let work: string;
const JOBS = ['3', '5'].map((segments) => [
  ...['segment', '--no-policy', 'in.jsonl', '--rows-per-chunk', '8', '--quiet'],
  ...['--max-segments', segments],
]);
const start = (job: number, output: string, more: readonly string[]) =>
  rredcot([...(JOBS[job] as string[]), '-o', output, ...more], { cwd: work });

/** The rows in a file, or in a folder's chunks. */
async function rowsOf(output: string): Promise<string> {
  const path = join(work, output);
  if (!output.endsWith('/')) return readFile(path, 'utf8');
  const chunks = join(path, 'chunks/00000-of-00001');
  const names = (await readdir(chunks)).sort();
  const texts = await Promise.all(names.map((name) => readFile(join(chunks, name), 'utf8')));
  return texts.join('');
}

let expected: string[];
beforeAll(async () => {
  work = await temporaryFolder();
  await mkdir(work, { recursive: true });
  await writeFixtures(join(work, 'in.jsonl'), 120);
  expected = [];
  for (const job of JOBS.keys()) {
    expect((await start(job, `${job}.jsonl`, [])).code).toBe(0);
    expected.push(await rowsOf(`${job}.jsonl`));
  }
});

const FOLDER = ['--format', 'jsonl'];

/** @param rounds of each kind of output, with and without --overwrite */
export function twoCommands(rounds: number): void {
  const slower: string[] = [];
  describe.each([
    ['a file', 'jsonl', []],
    ['a file, --overwrite', 'jsonl', ['--overwrite']],
    ['a folder', '/', FOLDER],
    ['a folder, --overwrite', '/', [...FOLDER, '--overwrite']],
  ])('%s', (name, ending, flags) => {
    it(`holds the rows of one of them, ${rounds} times`, async () => {
      const random = seeded(SEED + name.length);
      for (let round = 0; round < rounds; round++) {
        const output = `${name.replaceAll(/\W/g, '')}-${round}${ending === '/' ? '/' : `.${ending}`}`;
        const distance = random() * LONGEST_MS;
        const later = sleep(distance).then(() => start(1, output, flags));
        const ends = await Promise.all([start(0, output, flags), later]);
        const what = `${distance.toFixed()} ms: ${ends.map(({ code, stderr }) => `${code} ${stderr}`).join('; ')}`;
        const winner = expected.indexOf(await rowsOf(output));
        expect(winner, what).toBeGreaterThanOrEqual(0);
        expect((ends[winner] as Run).code, what).toBe(0);
        const { code, stderr } = ends[1 - winner] as Run;
        // where the first had ended, the second has replaced it, as it was told to
        if (code !== 0) {
          if (stderr.includes('another command has made it')) slower.push(output);
          // one that is told to replace what is there takes the other's folder away
          const isTaken =
            flags.includes('--overwrite') && /was removed while|has become another/.test(stderr);
          expect(code, what).toBe(isTaken ? 75 : 2);
          if (!isTaken)
            expect(stderr, what).toMatch(
              /holds another run|holds other files|the output of another run|another command/,
            );
        }
      }
      // what the slower one has done is kept: its output may yet get another place
      const left = (await readdir(work)).filter((each) => each.startsWith('.'));
      expect(left.filter((each) => !slower.some((output) => each.startsWith(`.${output}.`)))).toEqual([]);
    });
  });
}
