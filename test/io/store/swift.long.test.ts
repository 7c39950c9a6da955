// A real object store: a run from it and to it, both killed twice, ends with the bytes of a run on this disk.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as after } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { putObject } from '../../../dist/io/store/object.js';
import { ROOT, rredcot, temporaryFolder, writeFixtures } from '../../support/program.js';
import { hasSwift, startSwift } from '../../support/swift-store.js';

describe.skipIf(!hasSwift)(
  `Swift${hasSwift ? '' : ' (skipped: apt-get install swift-proxy swift-account swift-container swift-object)'}`,
  () => {
    let store: Awaited<ReturnType<typeof startSwift>>;
    let cwd: string;
    const before = { ...process.env };
    beforeAll(async () => {
      cwd = await temporaryFolder();
      store = await startSwift('data');
      Object.assign(process.env, store.env, { XDG_CACHE_HOME: join(cwd, 'cache') });
      await writeFixtures(join(cwd, 'rows.jsonl'), 64);
    });
    afterAll(async () => {
      process.env = before;
      await store?.kill();
    });
    const command = (input: string, output: string) => ['score', input, '-o', output, '--rows-per-part', '8'];
    /** What lies here of runs to the store. */
    const left = async () =>
      (await readdir(join(cwd, 'cache'), { recursive: true }).catch(() => [])).filter((name) =>
        name.includes('.run'),
      );
    const parts = async () => (await left()).filter((name) => /\.run\/part-\d{5}\.parquet$/.test(name));

    it('a run is killed twice and the store with it, and ends with the bytes of a run on this disk', async () => {
      await putObject(join(cwd, 'rows.jsonl'), 's3://data/in/rows.jsonl', false);
      const input = 's3://data/in/rows.jsonl';
      const output = 's3://data/out/scored.parquet';
      for (const least of [1, 5]) {
        const child = spawn(process.execPath, [join(ROOT, 'bin/rredcot.js'), ...command(input, output)], {
          cwd,
          stdio: 'ignore',
        });
        const ended = once(child, 'exit');
        while ((await parts()).length < least && child.exitCode === null) await after(5);
        child.kill('SIGKILL');
        await store.kill();
        expect(await ended).toEqual([null, 'SIGKILL']);
        expect((await parts()).length).toBeGreaterThanOrEqual(least);
        // it waits for the store, which comes back
        const resumed = least === 1 ? undefined : rredcot(command(input, output), { cwd });
        await store.start();
        if (resumed === undefined) continue;
        const { code, stderr } = await resumed;
        expect(code, stderr).toBe(0);
        expect(stderr).toMatch(/resuming: [5-7] parts are there, in /);
      }
      const there = await store.bytes('data/out/scored.parquet');
      // its rows name their file, so that it is read from there
      const again = await rredcot(command(input, 'again.parquet'), { cwd });
      expect(again.code, again.stderr).toBe(0);
      expect(there?.equals(await readFile(join(cwd, 'again.parquet')))).toBe(true);
      expect(await left()).toEqual([]);
    });

    it('publishes once, and is read in ranges of one version', async () => {
      const done = await rredcot(command('s3://data/in/*.jsonl', 's3://data/out/scored.parquet'), { cwd });
      expect([done.code, done.stderr]).toEqual([0, expect.stringContaining('already done')]);
      const other = await rredcot(
        [...command('s3://data/in/rows.jsonl', 's3://data/out/scored.parquet'), '--limit', '3'],
        { cwd },
      );
      expect([other.code, other.stderr]).toEqual([
        2,
        expect.stringContaining('is the output of another run'),
      ]);
      await expect(putObject(join(cwd, 'rows.jsonl'), 's3://data/out/scored.parquet', false)).rejects.toThrow(
        'another command has made it',
      );
      // what is there already with the same bytes is ours
      await putObject(join(cwd, 'again.parquet'), 's3://data/out/scored.parquet', false);
      const { code, stderr } = await rredcot(
        [
          'redistribute',
          's3://data/out/scored.parquet',
          '-o',
          's3://data/out/again.arrow',
          '--sigma',
          'uniform',
        ],
        { cwd },
      );
      expect(code, stderr).toBe(0);
      const verified = await rredcot(['verify', 's3://data/out/again.arrow'], { cwd });
      expect(verified.code, verified.stderr).toBe(0);
    });
  },
);
