// Every write, fsync, rename and read of a run made to fail, one at a time: what the user is told, what is left, and that
// the same command then ends with the same bytes. faults.long.test.ts does more calls, `npm run torture` all calls and codes.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, temporaryFolder } from '../support/program.js';
import { fsReport, installFsHook, planFs } from './fs-hook.mjs';
import { snapshot } from './snapshot.js';

const ROUNDS = Number(process.env.RREDCOT_TORTURE ?? 0);
const IS_FULL = ROUNDS > 25;
const FORMATS = ['jsonl', 'arrow', 'parquet'] as const;
const CODES: Readonly<Record<string, readonly string[]>> = {
  write: ['ENOSPC', 'EIO', 'EPIPE', 'EDQUOT', 'ESTALE'],
  sync: ['EIO', 'ENOSPC', 'EDQUOT', 'ESTALE'],
  rename: ['EIO', 'ENOSPC', 'EDQUOT', 'ESTALE'],
  read: ['EIO', 'ESTALE'],
  open: ['EIO', 'EMFILE', 'ENOSPC', 'EDQUOT', 'ESTALE'],
  link: ['EIO', 'ENOSPC', 'EDQUOT', 'ESTALE'],
  mkdir: ['ENOSPC', 'EDQUOT', 'ESTALE'],
  readdir: ['EIO', 'ESTALE'],
  stat: ['EIO', 'ESTALE'],
  rm: ['EIO', 'ESTALE'],
};
/** Of the calls every tenth, sixteenth … is made to fail: [few, more]. Worker threads make Parquet slow. */
const STRIDES = {
  jsonl: { file: [10, 1], folder: [16, 1] },
  arrow: { file: [32, 2], folder: [48, 4] },
  parquet: { file: [60, 5], folder: [90, 10] },
} as const;
/** what the issue asks for, and where bytes get a name; the others only in `npm run torture` */
const OPS = IS_FULL ? Object.keys(CODES) : ['write', 'sync', 'rename', 'read', 'link'];

let work: string;
let input: string;

beforeAll(async () => {
  process.setMaxListeners(0);
  work = await temporaryFolder();
  input = join(work, 'in.jsonl');
  const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 5);
  lines.splice(1, 0, '{"prompt": broken');
  await writeFile(input, `${lines.join('\n')}\n`);
  await installFsHook();
});

describe.each(FORMATS)('%s', (format) => {
  it.each(['file', 'folder'] as const)(
    '%s: every failing call is told, nothing half made is published, the same command then ends the same',
    async (kind) => {
      const place = join(work, `${format}-${kind}`);
      await mkdir(place, { recursive: true });
      const output = kind === 'file' ? join(place, `out.${format}`) : `${join(place, 'out')}/`;
      const args = ['segment', '--no-policy', input, '-o', output, '--format', format, '--quiet'];
      args.push('--rows-per-part', '3', '--max-segments', '4');
      expect(await rredcotHere(args)).toMatchObject({ code: 0, stderr: '' });
      const whole = await snapshot(place);
      expect(Object.keys(whole).length).toBe(kind === 'file' ? 2 : format === 'jsonl' ? 7 : 5);

      const stride = IS_FULL ? 1 : STRIDES[format][kind][ROUNDS === 0 ? 0 : 1];
      const outcomes = new Map<string, number>();
      for (const op of OPS) {
        let isCalled = true;
        for (let nth = 0; isCalled; nth += stride) {
          const codes = CODES[op] as readonly string[];
          for (const code of IS_FULL ? codes : [codes[nth % codes.length] as string]) {
            await rm(place, { recursive: true });
            await mkdir(place);
            planFs({ under: work, op, nth, code });
            const failed = await rredcotHere(args);
            const { fired } = fsReport();
            planFs(null);
            const what = `${op} ${nth} ${code}: exit ${failed.code}, ${failed.stderr}`;
            if (!fired) {
              expect(failed.code, what).toBe(0);
              isCalled = false;
              break;
            }
            outcomes.set(`${op} ${failed.code}`, (outcomes.get(`${op} ${failed.code}`) ?? 0) + 1);
            if (failed.code === 0) {
              expect(await snapshot(place), what).toEqual(whole);
              continue;
            }
            // a path that is wrong is exit 2; no failing device is the call's fault, and never a bug
            expect(failed.code, what).toBe(75);
            expect(failed.stderr.match(/^rredcot: /gm), what).toHaveLength(1);
            expect(failed.stderr, what).toContain(work);
            expect(failed.stderr, what).toContain('\n  try: ');
            const left = await snapshot(place);
            for (const name of Object.keys(left).filter((name) => !/(^|\/)\./.test(name)))
              expect(left[name], `${what}: ${name}`).toBe(whole[name]);

            const again = await rredcotHere(args);
            expect(again.code, `${what}; then ${again.stderr}`).toBe(0);
            expect(await snapshot(place), what).toEqual(whole);
          }
        }
      }
      // a hook that no longer stands in the way makes no fault, and would pass everything above
      const fired = (op: string) =>
        [...outcomes].reduce((n, [name, count]) => n + (name.startsWith(`${op} `) ? count : 0), 0);
      for (const op of OPS) expect(fired(op), `faults of ${op}`).toBeGreaterThan(0);
      console.log(`${format} ${kind}: ${[...outcomes].map(([name, n]) => `${name}: ${n}`).join(', ')}`);
    },
    ROUNDS > 0 ? 3_600_000 : 300_000,
  );
});
