// A real object store: a run from it and to it, both killed twice, ends with the bytes of a run on this disk.
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as after } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { putObject } from '../../../dist/io/store/object.js';
import { rredcot, start, writeFixtures } from '../../support/program.js';
import { openScene } from '../../support/scene.js';
import { hasSwift, startSwift } from '../../support/swift-store.js';

const PACKAGES = 'swift-proxy swift-account swift-container swift-object';

describe.skipIf(!hasSwift)(`Swift${hasSwift ? '' : ` (skipped: apt-get install ${PACKAGES})`}`, async () => {
  const { at, done, fails, folder: cwd } = await openScene();
  let store: Awaited<ReturnType<typeof startSwift>>;
  const before = { ...process.env };
  beforeAll(async () => {
    store = await startSwift('data');
    Object.assign(process.env, store.env, { XDG_CACHE_HOME: at('cache') });
    await writeFixtures(at('rows.jsonl'), 64);
  });
  afterAll(async () => {
    process.env = before;
    await store?.kill();
  });
  const [input, output] = ['s3://data/in/rows.jsonl', 's3://data/out/scored.parquet'];
  const command = (from: string, to: string) => `score ${from} -o ${to} --rows-per-part 8`;
  /** What lies here of runs to the store. */
  const left = async () =>
    (await readdir(at('cache'), { recursive: true }).catch(() => [])).filter((name) => name.includes('.run'));
  const parts = async () => (await left()).filter((name) => /\.run\/part-\d{5}\.parquet$/.test(name));

  it('a run is killed twice and the store with it, and ends with the bytes of a run on this disk', async () => {
    await putObject(at('rows.jsonl'), input, false);
    const args = command(input, output).split(' ');
    for (const least of [1, 5]) {
      const { child } = start(args, { cwd });
      const ended = once(child, 'exit');
      while ((await parts()).length < least && child.exitCode === null) await after(5);
      child.kill('SIGKILL');
      await store.kill();
      expect(await ended).toEqual([null, 'SIGKILL']);
      expect((await parts()).length).toBeGreaterThanOrEqual(least);
      // it waits for the store, which comes back
      const resumed = least === 1 ? undefined : rredcot(args, { cwd });
      await store.start();
      if (resumed === undefined) continue;
      const { code, stderr } = await resumed;
      expect(code, stderr).toBe(0);
      expect(stderr).toMatch(/resuming: [5-7] parts are there, in /);
    }
    const there = await store.bytes('data/out/scored.parquet');
    // its rows name their file, so that it is read from there
    await done(command(input, 'again.parquet'));
    expect(there?.equals(await readFile(at('again.parquet')))).toBe(true);
    expect(await left()).toEqual([]);
  });

  it('publishes once, and is read in ranges of one version', async () => {
    expect((await done(command("'s3://data/in/*.jsonl'", output))).said).toContain('already done');
    await fails(`${command(input, output)} --limit 3`, 2, 'is the output of another run');
    await expect(putObject(at('rows.jsonl'), output, false)).rejects.toThrow('another command has made it');
    // what is there already with the same bytes is ours
    await putObject(at('again.parquet'), output, false);
    await done(`redistribute ${output} -o s3://data/out/again.arrow --sigma uniform`);
    await done('verify s3://data/out/again.arrow');
  });
});
